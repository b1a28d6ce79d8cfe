use super::*;

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
    // It is not reported any more: the pod is there all the same.
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
