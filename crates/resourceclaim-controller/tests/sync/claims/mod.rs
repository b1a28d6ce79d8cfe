//! Pods get their claims.

mod known;

use std::time::Duration;

use controller_testing::objects::text;
use embedded_apiserver::{Fault, RecordedRequest, RequestVerb};
use serde_json::{Value, json};

use crate::world::{FINALIZER, World, claim, made, own, request};

#[tokio::test(start_paused = true)]
async fn the_requests_of_one_pods_life() {
    let world = World::new();
    world.insert(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": { "name": "t" },
        "spec": {
            "metadata": { "labels": { "l": "1" }, "annotations": { "a": "2" } },
            "spec": { "devices": { "requests": [request()] } },
        },
    }));
    let _controller = world.start_and_settle().await;
    let mark = world.server.mark();
    let uid = world.pod("p");
    world.pass(60).await;
    let claim = world.claim_of("p");
    assert!(claim.starts_with("p-gpu-") && claim.len() == 11, "{claim}");
    let create = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {
            "name": claim, "generateName": "p-gpu-", "labels": { "l": "1" },
            "annotations": { "a": "2", "resource.kubernetes.io/pod-claim-name": "gpu" },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": true }],
        },
        "spec": { "devices": { "requests": [request()] } },
    });
    let record = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "namespace": "default", "name": "p", "uid": uid },
        "status": { "resourceClaimStatuses": [{ "name": "gpu", "resourceClaimName": claim }] },
    });
    assert_eq!(
        world.requests_since(mark),
        [
            format!("create default/resourceclaims {create}"),
            format!("patch default/pods/p/status {record}"),
        ]
    );
    let mark = world.server.mark();
    world.schedule("p");
    world.pass(60).await;
    assert_eq!(world.requests_since(mark), Vec::<String>::new());
    world.finish("p");
    let of = |claim: &Value| json!({ "uid": claim["metadata"]["uid"], "resourceVersion": claim["metadata"]["resourceVersion"] });
    let allocated = of(&world.get_claim(&claim));
    world.pass(60).await;
    let lines = world.requests_since(mark);
    let release = json!({ "metadata": allocated, "status": { "allocation": null, "reservedFor": null } });
    assert_eq!(
        lines[0],
        format!("patch default/resourceclaims/{claim}/status {release}")
    );
    assert!(lines[1].contains("preconditions"), "{}", lines[1]);
    assert!(
        lines[2].contains(&format!(
            r#""$deleteFromPrimitiveList/finalizers":["{FINALIZER}"]"#
        )),
        "{}",
        lines[2]
    );
    assert_eq!(
        world.calls_since(mark),
        [
            "patch resourceclaims/status 200",
            "delete resourceclaims 200",
            "patch resourceclaims 200",
        ]
    );
    assert_eq!(world.claims(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn each_entry_gets_a_claim_of_its_own_and_all_are_recorded_at_once() {
    let world = World::with_template();
    world.claim("shared");
    let _controller = world.start_and_settle().await;
    let mark = world.server.mark();
    let entries: Vec<_> = (0..5).map(|n| made(&format!("e{n}"), "t")).collect();
    world.pod_of("five", &entries);
    world.pod_of("two", &[made("a", "t"), own("b", "shared"), made("c", "t")]);
    world.settle().await;
    let names = world.claims_of("five");
    assert_eq!(names.keys().collect::<Vec<_>>(), ["e0", "e1", "e2", "e3", "e4"]);
    assert_eq!(world.claims_of("two").len(), 2);
    assert_eq!(world.claims().len(), 8);
    let records = world.calls_since(mark);
    let records = records.iter().filter(|call| call.contains("pods/status"));
    assert_eq!(records.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_missing_template_is_reported_once_and_its_creation_helps_at_once() {
    let world = World::with_template();
    let _controller = world.start_and_settle().await;
    world.pod_of("p", &[made("here", "t"), made("later", "u")]);
    world.pass(600).await;
    assert_eq!(world.claims_of("p").keys().collect::<Vec<_>>(), ["here"]);
    assert_eq!(
        world.events(),
        [
            "p Warning FailedResourceClaimCreation PodResourceClaim later: ResourceClaimTemplate \"u\" not found"
        ]
    );
    let before = world.claims_of("p");
    world.template("u");
    world.settle().await;
    assert_eq!(world.claims_of("p").keys().collect::<Vec<_>>(), ["here", "later"]);
    assert_eq!(world.claims_of("p")["here"], before["here"]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_deleted_by_hand_comes_back_and_the_others_stay_recorded() {
    let world = World::with_template();
    let _controller = world.start();
    world.pod_of("p", &[made("a", "t"), made("b", "t"), made("c", "t")]);
    world.settle().await;
    let before = world.claims_of("p");
    let mut names = vec![before["b"].clone()];
    for _ in 0..3 {
        world.delete_claim(names.last().unwrap());
        world.settle().await;
        let now = world.claims_of("p");
        assert_eq!((&now["a"], &now["c"]), (&before["a"], &before["c"]));
        assert!(!names.contains(&now["b"]), "{now:?} after {names:?}");
        names.push(now["b"].clone());
    }
    assert_eq!(world.claims().len(), 3);
}

/// Its kubelet goes by the name that is recorded.
#[tokio::test(start_paused = true)]
async fn what_is_recorded_of_a_pod_on_a_node_stays() {
    let world = World::with_template();
    let _controller = world.start();
    world.pod_of("p", &[made("a", "t"), made("b", "t")]);
    world.settle().await;
    let before = world.claims_of("p");
    world.bind("p");
    world.delete_claim(&before["a"]);
    let mark = world.server.mark();
    world.pass(7200).await;
    assert_eq!(world.requests_since(mark), Vec::<String>::new());
    assert_eq!(world.claims_of("p"), before);
}

/// It came after the pod had got another claim, with which the scheduler bound it.
#[tokio::test(start_paused = true)]
async fn a_late_record_of_a_pod_on_a_node_is_corrected() {
    let world = World::with_template();
    let _controller = world.start();
    let records =
        |request: &RecordedRequest| request.verb == RequestVerb::Patch && request.resource == "pods";
    world
        .server
        .fail_next(1, records, Fault::LateEffect(Duration::from_secs(50)));
    world.pod_of("p", &[made("gpu", "t")]);
    world.pass(5).await;
    let first = world.claim_of("p");
    world.delete_claim(&first);
    world.settle().await;
    let second = world.claim_of("p");
    assert_ne!(first, second);
    world.allocate(&second, &["p"]);
    world.bind("p");
    world.pass(20).await;
    let mark = world.server.mark();
    world.pass(7200).await;
    assert_eq!(world.claim_of("p"), second);
    assert_eq!(world.calls_since(mark), ["get pods 200", "patch pods/status 200"]);
}

/// More than are looked for in one pass.
#[tokio::test(start_paused = true)]
async fn all_claims_of_a_large_pod_that_are_deleted_by_hand_come_back() {
    let world = World::with_template();
    let _controller = world.start();
    let entries: Vec<_> = (0..300).map(|number| made(&format!("e{number}"), "t")).collect();
    world.pod_of("p", &entries);
    world.pass(60).await;
    let before = world.claims_of("p");
    assert_eq!(before.len(), 300);
    for claim in before.values() {
        world.delete_claim(claim);
    }
    let mark = world.server.mark();
    world.pass(60).await;
    let after = world.claims_of("p");
    assert!(after.iter().all(|(entry, claim)| before[entry] != *claim));
    assert_eq!(world.claims().len(), 300);
    let calls = world.calls_since(mark);
    let count = |verb| calls.iter().filter(|call| call.starts_with(verb)).count();
    // A look for each, and one at the pod for each pass.
    assert_eq!((count("create"), count("patch")), (300, 1));
    assert!(count("get") < 340, "{}", count("get"));
}

/// It has more entries than a pass makes requests.
#[tokio::test(start_paused = true)]
async fn a_dry_run_plans_all_claims_of_a_large_pod_once() {
    let world = World::with_template();
    let controller = world.start_with(world.process().configured(|config| config.common.dry_run = true));
    let entries: Vec<_> = (0..300).map(|number| made(&format!("e{number}"), "t")).collect();
    world.pod_of("p", &entries);
    world.pass(60).await;
    let planned = controller.planned();
    assert!(planned.contains(&("create-claim".to_owned(), 300)), "{planned:?}");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_being_deleted_still_counts_until_it_is_gone() {
    let world = World::with_template();
    let _controller = world.start();
    world.pod("p");
    world.settle().await;
    let claim = world.claim_of("p");
    world.edit_claim(&claim, |claim| {
        claim["metadata"]["finalizers"] = json!(["example.com/hold"]);
    });
    world.delete_claim(&claim);
    world.pass(60).await;
    assert_eq!(world.claims(), *std::slice::from_ref(&claim));
    world.edit_claim(&claim, |claim| claim["metadata"]["finalizers"] = json!(null));
    world.settle().await;
    assert_ne!(world.claim_of("p"), claim);
    assert_eq!(world.claims(), [world.claim_of("p")]);
}

#[tokio::test(start_paused = true)]
async fn a_recorded_claim_of_another_owner_is_left_alone_and_a_new_one_made() {
    let world = World::with_template();
    world.claim("theirs");
    world.pod("p");
    world.edit("p", |pod| {
        pod["status"]["resourceClaimStatuses"] = json!([{ "name": "gpu", "resourceClaimName": "theirs" }]);
    });
    let _controller = world.start_and_settle().await;
    let claim = world.claim_of("p");
    assert!(claim.starts_with("p-gpu-"), "{claim}");
    assert_eq!(world.claims(), [claim, "theirs".to_owned()]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_upstream_made_is_adopted_under_its_name() {
    let world = World::with_template();
    let uid = world.pod("p");
    world.insert(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {
            "name": "p-gpu-random", "annotations": { "resource.kubernetes.io/pod-claim-name": "gpu" },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": true }],
        },
        "spec": {},
    }));
    let _controller = world.start_and_settle().await;
    assert_eq!(world.claim_of("p"), "p-gpu-random");
    assert_eq!(world.claims().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_needs_no_claim_gets_none_and_stays_recorded() {
    let world = World::with_template();
    world.pod_of("p", &[made("a", "t"), made("b", "t")]);
    world.edit("p", |pod| {
        pod["status"]["resourceClaimStatuses"] = json!([{ "name": "a" }]);
    });
    let _controller = world.start_and_settle().await;
    let recorded = world.claims_of("p");
    assert_eq!((recorded.len(), recorded["a"].as_str()), (2, ""));
    assert_eq!(world.claims().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_done_or_on_their_way_out_get_no_claims() {
    let world = World::with_template();
    for pod in ["done", "unscheduled", "leaving"] {
        world.pod(pod);
    }
    world.finish("done");
    world.terminate("unscheduled");
    world.bind("leaving");
    world.terminate("leaving");
    let mark = world.server.mark();
    let _controller = world.start_and_pass(60).await;
    assert_eq!(world.requests_since(mark), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_again_under_its_name_gets_another_claim() {
    let world = World::with_template();
    let _controller = world.start();
    world.pod("p");
    world.settle().await;
    let first = world.claim_of("p");
    world.delete("p");
    let uid = world.pod("p");
    world.settle().await;
    let second = world.claim_of("p");
    assert_ne!(first, second);
    let owner = &world.get_claim(&second)["metadata"]["ownerReferences"][0];
    assert_eq!(owner["uid"], *uid);
    // The claim of the pod that was replaced is nobody's.
    assert_eq!(world.claims(), [second]);
}
