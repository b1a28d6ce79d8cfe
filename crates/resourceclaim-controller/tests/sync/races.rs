//! Two processes, lost answers, crashes, and others in between.

use std::time::Duration;

use embedded_apiserver::{Fault, FaultRule, RESOURCE_CLAIMS, RecordedRequest, RequestVerb};
use rstest::rstest;
use serde_json::json;

use crate::world::{World, made, own};

fn makes_a_claim(request: &RecordedRequest) -> bool {
    request.verb == RequestVerb::Create && request.resource == "resourceclaims"
}

fn records_claims(request: &RecordedRequest) -> bool {
    request.verb == RequestVerb::Patch && request.resource == "pods"
}

#[rstest]
#[case::held_back(Fault::Delay(Duration::from_millis(700)))]
#[case::lost(Fault::DropAfterEffect)]
#[case::garbage(Fault::Garbage { takes_effect: true })]
#[case::cut(Fault::CutAnswer)]
#[case::refused(Fault::DropBefore)]
#[case::late(Fault::Timeout { after: Duration::from_secs(30), takes_effect: true })]
#[tokio::test(start_paused = true)]
async fn a_create_whose_answer_is_lost_is_not_made_twice(
    #[case] fault: Fault,
    #[values(0, 20)] claims_lag: u64,
    #[values(0, 20)] pods_lag: u64,
) {
    let world = World::with_template();
    world.lag("resourceclaims", claims_lag);
    world.lag("pods", pods_lag);
    let _controller = world.start_and_settle().await;
    world.fail_those(3, makes_a_claim, fault.clone());
    world.fail_those(3, records_claims, fault);
    world.pod_of("p", &[made("a", "t"), made("b", "t")]);
    world.pass(300).await;
    assert_eq!(world.claims_of("p").len(), 2);
    assert_eq!(world.claims().len(), 2);
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn a_process_that_is_killed_after_any_request_leaves_no_second_claim(
    #[values(0, 1, 2, 3, 4, 5, 6)] after: usize,
    #[values(false, true)] answered: bool,
    #[values(0, 20)] lag: u64,
) {
    let world = World::with_template();
    let first = world.start_and_settle().await;
    let never = if answered {
        Fault::NoAnswer { takes_effect: true }
    } else {
        Fault::NoAnswer { takes_effect: false }
    };
    let writes = |request: &RecordedRequest| makes_a_claim(request) || records_claims(request);
    world
        .server
        .fail(FaultRule::new(never).matching(writes).after(after));
    world.pod_of("p", &[made("a", "t"), made("b", "t"), made("c", "t")]);
    world.pass(3).await;
    drop(first);
    world.server.clear_faults();
    world.lag("resourceclaims", lag);
    let _second = world.start_and_pass(120).await;
    assert_eq!(world.claims_of("p").len(), 3);
    assert_eq!(world.claims().len(), 3);
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn two_processes_at_once_make_one_claim_an_entry(
    #[values(0, 1, 3)] lag: u64,
    #[values(1, 2, 3, 4, 5)] seed: u64,
) {
    let world = World::new();
    world.server.seed_faults(seed);
    world.template("t");
    world.lag("resourceclaims", lag);
    let _first = world.start();
    let _second = world.start_and_settle().await;
    for fault in [
        Fault::Delay(Duration::from_millis(30)),
        Fault::DropAfterEffect,
        Fault::status(500, "InternalError"),
    ] {
        let writes = |request: &RecordedRequest| makes_a_claim(request) || records_claims(request);
        world
            .server
            .fail(FaultRule::new(fault).matching(writes).probability(0.2));
    }
    for n in 0..10 {
        world.pod_of(&format!("p{n}"), &[made("a", "t"), made("b", "t")]);
    }
    world.pass(5).await;
    // One is deleted by hand: both make it again.
    let lost = world.claims_of("p3")["a"].clone();
    world.delete_claim(&lost);
    world.pass(120).await;
    assert_eq!(world.claims().len(), 20);
    for n in 0..10 {
        assert_eq!(world.claims_of(&format!("p{n}")).len(), 2);
    }
    assert_ne!(world.claims_of("p3")["a"], lost);
}

#[tokio::test(start_paused = true)]
async fn a_recorded_claim_that_the_cache_does_not_show_is_looked_for() {
    let world = World::with_template();
    world.lag("resourceclaims", 3600);
    let _controller = world.start_and_settle().await;
    // Another process makes and records the claim; our cache shows the record alone.
    let uid = world.pod("p");
    world.pass_millis(1).await;
    let claim = world.claims().pop();
    let claim = claim.unwrap_or_else(|| panic!("no claim for {uid}"));
    world.settle().await;
    let mark = world.server.mark();
    let uid = world.insert(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "q" },
        "spec": { "containers": [], "resourceClaims": [made("gpu", "t")] },
    }))["metadata"]["uid"]
        .clone();
    world.insert(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {
            "name": "q-gpu-theirs", "annotations": { "resource.kubernetes.io/pod-claim-name": "gpu" },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "q", "uid": uid, "controller": true }],
        },
        "spec": {},
    }));
    world.edit("q", |pod| {
        pod["status"]["resourceClaimStatuses"] =
            json!([{ "name": "gpu", "resourceClaimName": "q-gpu-theirs" }]);
    });
    world.pass(60).await;
    assert_eq!(world.claims(), [claim, "q-gpu-theirs".to_owned()]);
    assert!(
        world
            .calls_since(mark)
            .iter()
            .all(|call| matches!(&**call, "get pods 200" | "get resourceclaims 200")),
        "{:?}",
        world.calls_since(mark)
    );
}

#[tokio::test(start_paused = true)]
async fn the_scheduler_binds_while_claims_are_given_back_and_no_reservation_is_lost() {
    let world = World::new();
    world.claim("shared");
    let _controller = world.start();
    for n in 0..40 {
        let pod = format!("p{n}");
        world.pod_of(&pod, &[own("gpu", "shared")]);
        if n == 0 || !world.is_allocated("shared") {
            world.allocate("shared", &[&pod]);
        } else {
            let consumer = world.consumer(&pod);
            world.edit_claim("shared", |claim| {
                claim["status"]["reservedFor"]
                    .as_array_mut()
                    .unwrap()
                    .push(consumer);
            });
        }
        world.bind(&pod);
        world.pass_millis(n % 7).await;
        if n > 0 {
            world.finish(&format!("p{}", n - 1));
        }
        world.pass_millis(n % 3).await;
        assert!(
            world.reserved("shared").contains(&pod),
            "{pod}: {:?}",
            world.reserved("shared")
        );
    }
    world.settle().await;
    assert_eq!(world.reserved("shared"), ["p39"]);
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn a_process_that_is_killed_while_it_gives_claims_back_leaves_none(
    #[values(0, 1, 2, 3)] after: usize,
    #[values(false, true)] takes_effect: bool,
) {
    let world = World::with_template();
    let first = world.start();
    world.pod("p");
    world.settle().await;
    world.schedule("p");
    world.settle().await;
    let rule = FaultRule::new(Fault::NoAnswer { takes_effect });
    let gives_back = |request: &RecordedRequest| {
        request.resource == "resourceclaims"
            && matches!(request.verb, RequestVerb::Patch | RequestVerb::Delete)
    };
    world.server.fail(rule.matching(gives_back).after(after));
    world.finish("p");
    world.pass(3).await;
    drop(first);
    world.server.clear_faults();
    let _second = world.start_and_pass(10).await;
    assert_eq!(
        world.server.list(&RESOURCE_CLAIMS),
        Vec::<serde_json::Value>::new()
    );
}
