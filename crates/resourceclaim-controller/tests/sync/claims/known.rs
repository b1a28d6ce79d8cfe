use super::*;

#[tokio::test(start_paused = true)]
async fn a_claim_that_the_watch_has_not_shown_is_not_made_twice() {
    let world = World::with_template();
    world.lag("resourceclaims", 30);
    let _controller = world.start_and_settle().await;
    world.pod("p");
    world.fail_next(1, RequestVerb::Patch, "pods", Fault::status(500, "InternalError"));
    let mark = world.server.mark();
    world.pass(1).await;
    world.edit("p", |pod| pod["spec"]["nodeName"] = json!("n"));
    world.pass(60).await;
    assert_eq!(
        world.calls_since(mark),
        [
            "create resourceclaims 201",
            "patch pods/status 500",
            "patch pods/status 200",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_after_the_watch_is_not_remembered() {
    let world = World::with_template();
    let _controller = world.start_with_late_answers(Duration::from_secs(2));
    world.settle().await;
    // Made, shown and deleted before we know that it was made.
    world.pod("p");
    world.pass(1).await;
    let [first] = <[String; 1]>::try_from(world.claims()).unwrap();
    world.delete_claim(&first);
    world.pass(60).await;
    let claim = world.claim_of("p");
    assert_ne!(claim, first);
    assert_eq!(world.claims(), [claim]);
}

#[tokio::test(start_paused = true)]
async fn what_a_later_list_does_not_show_is_remembered_no_more() {
    let world = World::with_template();
    let silent = |request: &RecordedRequest| {
        request.resource == "resourceclaims" && request.verb == RequestVerb::Watch && !request.lists()
    };
    world.fail_those(1, silent, Fault::WatchSilent);
    let _controller = world.start_and_settle().await;
    world.pod("p");
    world.settle().await;
    let first = world.claim_of("p");
    world.delete_claim(&first);
    world.pass(30).await;
    assert_eq!(world.claims(), Vec::<String>::new());
    // The new list begins after the deletion, which no watch will ever tell.
    world.server.down();
    world.server.compact();
    world.server.up();
    world.pass(60).await;
    let claim = world.claim_of("p");
    assert_ne!(claim, first);
    assert_eq!(world.claims(), [claim]);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_another_has_is_passed_over() {
    let world = World::with_template();
    let uid = world.pod("p");
    let name = |n| resourceclaim_controller::decide::claim_name("p", &(*uid).into(), "gpu", n);
    world.claim(&name(0));
    let _controller = world.start_and_settle().await;
    assert_eq!(world.claim_of("p"), name(1));
    // The cache does not show it, either.
    world.lag("resourceclaims", 3600);
    world.server.close_watches();
    world.pass(40).await;
    let uid = world.pod("q");
    let name = |n| resourceclaim_controller::decide::claim_name("q", &(*uid).into(), "gpu", n);
    world.claim(&name(0));
    let mark = world.server.mark();
    world.settle().await;
    assert_eq!(world.claim_of("q"), name(1));
    assert_eq!(
        world.calls_since(mark),
        [
            "create resourceclaims 409",
            "get resourceclaims 200",
            "create resourceclaims 201",
            "patch pods/status 200",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn one_entry_that_is_refused_does_not_stop_the_others_and_is_reported_once() {
    let world = World::with_template();
    world.fail_those(
        3,
        |request| {
            request.verb == RequestVerb::Create && text(&request.body["metadata"]["name"]).starts_with("p-b-")
        },
        Fault::status(403, "Forbidden"),
    );
    let controller = world.start();
    world.pod_of("p", &[made("a", "t"), made("b", "t"), made("c", "t")]);
    world.pass_millis(4).await;
    assert_eq!(world.claims_of("p").keys().collect::<Vec<_>>(), ["a", "c"]);
    world.pass(1).await;
    assert_eq!(world.claims_of("p").len(), 3);
    assert_eq!(world.claims().len(), 3);
    assert_eq!(world.events().len(), 1, "{:?}", world.events());
    let failures = "resourceclaim_controller_creates_total{admin_access=\"false\",status=\"failure\"}";
    assert_eq!(controller.metric(failures), 3);
}

#[tokio::test(start_paused = true)]
async fn what_no_rule_reads_wakes_nothing() {
    let world = World::with_template();
    let controller = world.start();
    world.pod("p");
    world.settle().await;
    world.schedule("p");
    world.pass(10).await;
    let claim = world.claim_of("p");
    let (added, mark) = (controller.metric("workqueue_adds_total"), world.server.mark());
    for n in 0..20 {
        world.edit("p", |pod| pod["status"]["hostIP"] = json!(format!("10.0.0.{n}")));
        world.edit_claim(&claim, |claim| {
            claim["metadata"]["annotations"]["n"] = json!(n.to_string());
        });
        world.insert(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": format!("other-{n}") },
            "spec": { "containers": [] },
        }));
        world.pass(1).await;
    }
    assert_eq!(controller.metric("workqueue_adds_total"), added);
    assert_eq!(world.requests_since(mark), Vec::<String>::new());
    // The version that was only annotated is the one that the next write is for.
    world.finish("p");
    world.settle().await;
    assert_eq!(world.claims(), Vec::<String>::new());
    let calls = world.calls_since(mark);
    assert!(calls.iter().all(|call| call.ends_with(" 200")), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn an_entry_of_an_api_that_we_do_not_know_is_reported() {
    let world = World::with_template();
    world.pod_of("p", &[made("a", "t"), made("b", "t")]);
    world.edit("p", |pod| {
        pod["spec"]["resourceClaims"][1] = json!({ "name": "b", "notYetKnown": "x" });
    });
    let _controller = world.start_and_pass(60).await;
    assert_eq!(world.claims_of("p").keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(
        world.events(),
        ["p Warning FailedResourceClaimCreation PodResourceClaim b: none of the supported fields are set"]
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_wrongly_said_to_be_gone_is_deleted_within_the_hour() {
    let world = World::with_template();
    world.pod("p");
    let _controller = world.start_and_settle().await;
    world.fail_next(
        1,
        RequestVerb::Delete,
        "resourceclaims",
        Fault::status(404, "NotFound"),
    );
    world.finish("p");
    world.pass(3700).await;
    assert_eq!(world.claims(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_another_namespace_is_not_adopted() {
    let world = World::new();
    let uid = world.pod("p");
    let _controller = world.start_and_settle().await;
    for name in ["forged-0", "forged-1"] {
        world.insert(claim(&json!({
            "name": name, "namespace": "tenant", "finalizers": ["tenant.example.com/keep"],
            "annotations": { "resource.kubernetes.io/pod-claim-name": "gpu" },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": true }],
        })));
    }
    world.template("t");
    world.pass(60).await;
    assert!(
        world.claim_of("p").starts_with("p-gpu-"),
        "{}",
        world.claim_of("p")
    );
}
