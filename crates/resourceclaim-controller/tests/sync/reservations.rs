//! Claims are reserved, given back and deleted.

use embedded_apiserver::{Fault, RequestVerb};
use rstest::rstest;
use serde_json::{Value, json};

use crate::world::{FINALIZER, World, claim, made, own};

/// A world with the user's claim `shared`, pods that use it, and our loop.
fn sharing(pods: &[&str]) -> World {
    let world = World::new();
    world.claim("shared");
    for pod in pods {
        world.pod_of(pod, &[own("gpu", "shared")]);
    }
    world
}

#[tokio::test(start_paused = true)]
async fn a_pod_on_a_node_gets_its_claim_reserved() {
    let world = sharing(&["a", "b", "unbound"]);
    world.allocate("shared", &["a"]);
    world.bind("a");
    let _controller = world.start_and_settle().await;
    let mark = world.server.mark();
    let claim = world.get_claim("shared");
    world.bind("b");
    world.pass(60).await;
    let metadata = json!({
        "resourceVersion": claim["metadata"]["resourceVersion"], "uid": claim["metadata"]["uid"],
    });
    let patch = json!({ "metadata": metadata, "status": { "reservedFor": [world.consumer("b")] } });
    assert_eq!(
        world.requests_since(mark),
        [format!("patch default/resourceclaims/shared/status {patch}")]
    );
    assert_eq!(world.reserved("shared"), ["b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_its_user_has_not_made_does_not_hold_up_the_others() {
    let world = World::new();
    world.claim("shared");
    world.pod_of("p", &[own("a", "missing"), own("b", "shared")]);
    world.allocate("shared", &[]);
    world.bind("p");
    let _controller = world.start_and_settle().await;
    assert_eq!(world.reserved("shared"), ["p"]);
}

#[tokio::test(start_paused = true)]
async fn pods_that_share_a_claim_do_not_conflict_with_each_other() {
    let pods: Vec<_> = (0..20).map(|n| format!("p{n:02}")).collect();
    let pods: Vec<_> = pods.iter().map(String::as_str).collect();
    let world = sharing(&pods);
    let _controller = world.start_and_settle().await;
    let mark = world.server.mark();
    world.allocate("shared", &[]);
    for pod in &pods {
        world.bind(pod);
    }
    world.pass(60).await;
    assert_eq!(world.calls_since(mark), ["patch resourceclaims/status 200"; 20]);
    assert_eq!(world.reserved("shared").len(), 20);
    let mark = world.server.mark();
    for pod in &pods[..19] {
        world.finish(pod);
    }
    world.pass(60).await;
    assert_eq!(world.reserved("shared"), ["p19"]);
    assert!(world.is_allocated("shared"));
    assert!(world.calls_since(mark).iter().all(|call| call.ends_with(" 200")));
    world.finish("p19");
    world.settle().await;
    assert_eq!(world.reserved("shared"), Vec::<String>::new());
    assert!(!world.is_allocated("shared"));
    world.pass(310).await;
    assert!(!world.is_protected("shared"));
}

#[rstest]
#[case::done(|world: &World| world.finish("p"))]
#[case::failed(|world: &World| world.edit("p", |pod| pod["status"]["phase"] = json!("Failed")))]
#[case::deleted_before_it_was_scheduled(|world: &World| world.terminate("p"))]
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_done_gets_nothing_reserved(#[case] end: fn(&World)) {
    let world = sharing(&["p"]);
    end(&world);
    world.allocate("shared", &[]);
    let mark = world.server.mark();
    let _controller = world.start_and_pass(600).await;
    assert_eq!(world.requests_since(mark), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_being_deleted_on_its_node_keeps_its_reservation_until_it_is_gone() {
    let world = sharing(&["p"]);
    world.allocate("shared", &["p"]);
    world.bind("p");
    let _controller = world.start();
    world.terminate("p");
    world.pass(600).await;
    assert_eq!(world.reserved("shared"), ["p"]);
    world.edit("p", |pod| pod["metadata"]["finalizers"] = Value::Null);
    world.settle().await;
    assert_eq!(world.reserved("shared"), Vec::<String>::new());
    assert!(!world.is_allocated("shared"));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_gives_its_claims_back_without_a_read() {
    let world = World::with_template();
    world.claim("shared");
    let _controller = world.start();
    world.pod_of("p", &[made("gpu", "t"), own("shared", "shared")]);
    world.settle().await;
    world.allocate("shared", &["p"]);
    world.schedule("p");
    world.settle().await;
    let mark = world.server.mark();
    world.delete("p");
    world.pass(60).await;
    assert!(!world.is_allocated("shared"));
    let reads = world.calls_since(mark);
    assert!(reads.iter().all(|call| !call.starts_with("get")), "{reads:?}");
    let of_pod = world.claims().into_iter().find(|claim| claim != "shared");
    // Its own claim is free; to delete it is the garbage collector's.
    assert!(!world.is_allocated(&of_pod.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_the_cache_does_not_show_keeps_its_reservation_if_it_is_there() {
    let world = sharing(&["old"]);
    world.lag("pods", 3600);
    let _controller = world.start_and_settle().await;
    // One that the watch will not show for an hour, and one that took the name of the pod that it still shows.
    world.pod_of("new", &[own("gpu", "shared")]);
    world.delete("old");
    world.pod_of("old", &[own("gpu", "shared")]);
    world.allocate("shared", &["new", "old"]);
    let mark = world.server.mark();
    world.pass(60).await;
    assert_eq!(world.reserved("shared"), ["new", "old"]);
    assert_eq!(world.calls_since(mark), ["get pods 200", "get pods 200"]);
}

#[rstest]
#[case::gone(false)]
#[case::replaced(true)]
#[tokio::test(start_paused = true)]
async fn a_pod_that_the_api_server_says_is_gone_gets_no_reservation_when_the_cache_shows_it(
    #[case] is_replaced: bool,
) {
    let world = sharing(&["stays"]);
    world.bind("stays");
    world.lag("pods", 20);
    let _controller = world.start_and_settle().await;
    world.pod_of("p", &[own("gpu", "shared")]);
    world.bind("p");
    world.pass(10).await;
    world.allocate("shared", &["stays", "p"]);
    world.delete("p");
    if is_replaced {
        world.pod_of("p", &[own("gpu", "shared")]);
    }
    world.pass(5).await;
    assert_eq!(world.reserved("shared"), ["stays"]);
    // Now the cache shows the pod on its node, and for ten seconds not that it is gone.
    let mark = world.server.mark();
    world.pass(60).await;
    assert_eq!(world.requests_since(mark), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn reservations_stay_as_long_as_the_api_server_does_not_say_that_the_pod_is_gone() {
    let world = sharing(&[]);
    world.pod("gone");
    world.allocate("shared", &["gone"]);
    world.delete("gone");
    world.fail_next(5, RequestVerb::Get, "pods", Fault::status(500, "InternalError"));
    let _controller = world.start();
    world.pass_millis(20).await;
    assert_eq!(world.reserved("shared"), ["gone"]);
    world.pass(10).await;
    assert_eq!(world.reserved("shared"), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn consumers_of_other_kinds_stay() {
    let world = sharing(&["p"]);
    world.allocate("shared", &["p"]);
    let other = json!({ "apiGroup": "example.com", "resource": "pods", "name": "p", "uid": "other" });
    world.edit_claim("shared", |claim| {
        claim["status"]["reservedFor"]
            .as_array_mut()
            .unwrap()
            .push(other.clone());
    });
    let _controller = world.start();
    world.delete("p");
    world.settle().await;
    let claim = world.get_claim("shared");
    assert_eq!(claim["status"]["reservedFor"], json!([other]));
    assert!(world.is_allocated("shared"));
}

#[tokio::test(start_paused = true)]
async fn a_full_claim_is_told_once_and_waited_for() {
    let world = sharing(&["late"]);
    world.allocate("shared", &[]);
    let others: Vec<_> = (0..256)
        .map(
            |n| json!({ "apiGroup": "example.com", "resource": "things", "name": "x", "uid": n.to_string() }),
        )
        .collect();
    world.edit_claim("shared", |claim| claim["status"]["reservedFor"] = json!(others));
    world.bind("late");
    let mark = world.server.mark();
    let _controller = world.start_and_pass(600).await;
    world.edit("late", |pod| pod["metadata"]["labels"] = json!({ "a": "b" }));
    world.edit_claim("shared", |claim| {
        claim["metadata"]["labels"] = json!({ "a": "b" });
    });
    world.pass(600).await;
    assert_eq!(world.requests_since(mark), Vec::<String>::new());
    assert_eq!(
        world.events(),
        [
            "shared Warning ResourceClaimFull It is reserved for 256 consumers, more than which it cannot have: pod late \
             waits for one of them to be done"
        ]
    );
    world.edit_claim("shared", |claim| {
        claim["status"]["reservedFor"] = json!(others[1..]);
    });
    world.settle().await;
    assert_eq!(world.reserved("shared")[0], "late");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_being_deleted_is_not_reserved_and_goes_when_nobody_uses_it() {
    let world = sharing(&["a", "b"]);
    world.allocate("shared", &["a"]);
    world.bind("a");
    world.delete_claim("shared");
    let mark = world.server.mark();
    let _controller = world.start();
    world.bind("b");
    world.pass(60).await;
    assert_eq!(world.requests_since(mark), Vec::<String>::new());
    world.finish("a");
    world.settle().await;
    assert_eq!(world.claims(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_allocated_claim_without_users_goes_when_it_is_deleted_and_not_before() {
    let world = sharing(&[]);
    world.allocate("shared", &[]);
    let _controller = world.start_and_pass(600).await;
    assert!(world.is_allocated("shared"));
    world.delete_claim("shared");
    world.settle().await;
    assert_eq!(world.claims(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn other_finalizers_stay() {
    let world = sharing(&["p"]);
    world.allocate("shared", &["p"]);
    let finalizers = json!(["example.com/a", FINALIZER, "example.com/b"]);
    world.edit_claim("shared", |claim| claim["metadata"]["finalizers"] = finalizers);
    let _controller = world.start();
    world.finish("p");
    world.pass(310).await;
    let claim = world.get_claim("shared");
    assert_eq!(
        claim["metadata"]["finalizers"],
        json!(["example.com/a", "example.com/b"])
    );
}

#[tokio::test(start_paused = true)]
async fn an_idle_finalizer_goes_after_five_minutes_in_which_nothing_changed() {
    let world = sharing(&[]);
    world.edit_claim("shared", |claim| {
        claim["metadata"]["finalizers"] = json!([FINALIZER]);
    });
    let _controller = world.start_and_pass(299).await;
    assert!(world.is_protected("shared"));
    // Any change of it starts the time anew, its age does not count.
    world.edit_claim("shared", |claim| {
        claim["metadata"]["labels"] = json!({ "a": "b" });
    });
    world.pass(300).await;
    assert!(world.is_protected("shared"));
    world.pass(10).await;
    assert!(!world.is_protected("shared"));
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_the_scheduler_has_just_added_stays() {
    let world = sharing(&["p"]);
    let _controller = world.start_and_pass(600).await;
    world.edit_claim("shared", |claim| {
        claim["metadata"]["finalizers"] = json!([FINALIZER]);
    });
    world.pass(290).await;
    world.allocate("shared", &["p"]);
    world.bind("p");
    world.pass(600).await;
    assert!(world.is_protected("shared"));
    assert_eq!(world.reserved("shared"), ["p"]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_stays_keeps_its_finalizer_for_a_while() {
    let world = sharing(&["first", "second"]);
    world.allocate("shared", &["first"]);
    world.bind("first");
    let _controller = world.start_and_settle().await;
    let mark = world.server.mark();
    world.finish("first");
    world.pass(290).await;
    assert_eq!(world.calls_since(mark), ["patch resourceclaims/status 200"]);
    assert!(!world.is_allocated("shared") && world.is_protected("shared"));
    world.pass(20).await;
    assert!(!world.is_protected("shared"));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_kept_its_finalizer_can_be_deleted_at_once() {
    let world = sharing(&["first", "second"]);
    world.allocate("shared", &["first"]);
    world.bind("first");
    let _controller = world.start_and_settle().await;
    world.finish("first");
    world.pass(1).await;
    world.delete_claim("shared");
    world.pass(1).await;
    assert_eq!(world.claims(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn the_claim_of_a_pod_that_was_never_scheduled_is_deleted_with_it() {
    let world = World::with_template();
    let _controller = world.start();
    world.pod("p");
    world.settle().await;
    let mark = world.server.mark();
    world.terminate("p");
    world.pass(60).await;
    assert_eq!(world.calls_since(mark), ["delete resourceclaims 200"]);
    assert_eq!(world.claims(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn the_claim_of_a_pod_that_the_cache_does_not_show_stays() {
    let world = World::with_template();
    world.pod("p");
    world.lag("pods", 3600);
    let controller = world.start_and_settle().await;
    let claim = world.claim_of("p");
    // The pod comes again, and another process makes its claim; our cache shows the pod before it.
    world.delete("p");
    let uid = world.pod("p");
    world.insert(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {
            "name": "p-gpu-other", "annotations": { "resource.kubernetes.io/pod-claim-name": "gpu" },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": true }],
        },
        "spec": {},
    }));
    world.pass(60).await;
    assert!(world.claims().contains(&"p-gpu-other".to_owned()), "not {claim}");
    drop(controller);
}

/// A pod with extended resources alone, whose claim the scheduler has made, and not yet told of in the pod's status.
fn with_extended_resources() -> World {
    let world = World::new();
    let uid = world.pod_with("p", &json!({ "containers": [] }));
    world.insert(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {
            "name": "p-extended", "annotations": { "resource.kubernetes.io/extended-resource-claim": "true" },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": true }],
        },
        "spec": {},
    }));
    world.allocate("p-extended", &["p"]);
    world
}

/// That such a pod ends we do not see: nothing of it is kept.
#[tokio::test(start_paused = true)]
async fn the_claim_of_a_pod_whose_status_never_named_it_is_freed_within_an_hour() {
    let world = with_extended_resources();
    let _controller = world.start_and_settle().await;
    world.finish("p");
    world.pass(60).await;
    assert_eq!(world.reserved("p-extended"), ["p"]);
    world.pass(3600).await;
    // It goes with the pod.
    assert!(!world.is_allocated("p-extended") && world.reserved("p-extended").is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_claim_of_a_pod_whose_status_never_named_it_is_freed_with_the_pod() {
    let world = with_extended_resources();
    let _controller = world.start_and_settle().await;
    world.delete("p");
    // As the garbage collector.
    world.delete_claim("p-extended");
    world.settle().await;
    assert_eq!(world.claims(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_extended_resource_claim_is_given_back_like_any_other() {
    let world = with_extended_resources();
    let mark = world.server.mark();
    let _controller = world.start_and_settle().await;
    // The scheduler has not told it in the pod yet, which is therefore none of ours.
    assert_eq!(world.calls_since(mark), ["get pods 200"]);
    world.edit("p", |pod| {
        pod["spec"]["nodeName"] = json!("n");
        pod["status"]["extendedResourceClaimStatus"] =
            json!({ "resourceClaimName": "p-extended", "requestMappings": [] });
    });
    world.pass(60).await;
    // It is told no more: the pod is there all the same.
    world.edit("p", |pod| {
        pod["status"]["extendedResourceClaimStatus"] = Value::Null;
    });
    world.pass(60).await;
    assert_eq!(world.reserved("p-extended"), ["p"]);
    world.edit("p", |pod| {
        pod["status"]["extendedResourceClaimStatus"] =
            json!({ "resourceClaimName": "p-extended", "requestMappings": [] });
    });
    world.finish("p");
    world.settle().await;
    assert_eq!(world.claims(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_write_that_races_the_scheduler_is_judged_again() {
    let world = sharing(&["done", "next"]);
    world.allocate("shared", &["done"]);
    world.bind("done");
    let _controller = world.start_and_settle().await;
    let mark = world.server.mark();
    let fault = Fault::Delay(std::time::Duration::from_millis(500));
    world.fail_next(1, RequestVerb::Patch, "resourceclaims", fault);
    world.finish("done");
    world.pass_millis(100).await;
    // While we want to free it, the scheduler gives it to the next pod, too.
    let next = world.consumer("next");
    world.edit_claim("shared", |claim| {
        claim["status"]["reservedFor"].as_array_mut().unwrap().push(next);
    });
    world.bind("next");
    world.pass(60).await;
    assert_eq!(world.reserved("shared"), ["next"]);
    assert!(world.is_allocated("shared") && world.is_protected("shared"));
    assert_eq!(
        world.calls_since(mark),
        [
            "patch resourceclaims/status 409",
            "patch resourceclaims/status 200",
        ]
    );
}

#[rstest]
#[case::of_another_pod("Pod", "v1", "mine")]
#[case::of_a_group("PodGroup", "scheduling.k8s.io/v1beta1", "p")]
#[tokio::test(start_paused = true)]
async fn a_claim_that_claims_the_uid_of_a_pod_takes_nothing_from_it(
    #[case] kind: &str,
    #[case] api_version: &str,
    #[case] owner: &str,
) {
    let world = sharing(&["p"]);
    world.pod_of("mine", &[own("gpu", "none")]);
    world.allocate("shared", &["p"]);
    world.bind("p");
    let _controller = world.start_and_settle().await;
    world.insert(claim(&json!({
        "name": "forged",
        "ownerReferences": [{
            "apiVersion": api_version, "kind": kind, "name": owner, "uid": world.uid("p"), "controller": true,
        }],
    })));
    world.pass(600).await;
    assert_eq!(world.reserved("shared"), ["p"]);
    assert!(world.is_allocated("shared"));
}
