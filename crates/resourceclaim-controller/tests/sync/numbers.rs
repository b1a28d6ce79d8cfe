//! What `/metrics` shows.

use embedded_apiserver::{Fault, RequestVerb};
use serde_json::json;

use crate::world::{World, made, own, process};

#[tokio::test(start_paused = true)]
async fn the_metrics() {
    let world = World::with_template();
    world.claim("own");
    world.claim("extended");
    world.edit_claim("extended", |claim| {
        claim["metadata"]["annotations"] =
            json!({ "resource.kubernetes.io/extended-resource-claim": "true" });
        claim["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = json!(true);
    });
    world.pod("p");
    // With a Lease and a failure, so that every family has a series.
    let fault = Fault::status(500, "InternalError");
    world.fail_next(1, RequestVerb::Create, "resourceclaims", fault);
    let controller = world.start_with(process().elected_as("us"));
    world.settle().await;
    world.schedule("p");
    world.settle().await;
    insta::assert_snapshot!(controller.families());
    let count = |allocated, admin_access, source| {
        controller.metric(&format!(
            "dynamic_resource_allocation_resource_claims{{admin_access=\"{admin_access}\",allocated=\"{allocated}\",\
             source=\"{source}\"}}"
        ))
    };
    assert_eq!(count(false, false, ""), 1);
    assert_eq!(count(false, true, "extended_resource"), 1);
    assert_eq!(count(true, false, "resource_claim_template"), 1);
    let stuck = || controller.metric("resourceclaim_controller_claims_stuck_deleting");
    world.delete_claim(&world.claim_of("p"));
    world.pass(299).await;
    assert_eq!(stuck(), 0);
    world.pass(2).await;
    assert_eq!(stuck(), 1);
    world.finish("p");
    world.settle().await;
    assert_eq!(stuck(), 0);
    assert_eq!(
        controller.metric("dynamic_resource_allocation_resource_claims"),
        2
    );
}

#[tokio::test(start_paused = true)]
async fn objects_that_we_have_deleted_are_counted_no_more() {
    let world = World::with_template();
    world.pod("p");
    let controller = world.start_and_settle().await;
    // The pod, its claim and the template.
    assert_eq!(controller.metric("informer_objects"), 3);
    world.finish("p");
    world.pass(10).await;
    assert_eq!(world.claims(), Vec::<String>::new());
    assert_eq!(controller.metric("informer_objects"), 2);
}

#[tokio::test(start_paused = true)]
async fn pods_that_wait_for_claims_are_counted() {
    let world = World::new();
    let controller = world.start();
    world.pod("p");
    world.pod("q");
    world.pod_of("users", &[own("a", "missing")]);
    world.settle().await;
    let waiting = || controller.metric("resourceclaim_controller_pods_waiting");
    assert_eq!(waiting(), 2);
    world.finish("q");
    world.settle().await;
    assert_eq!(waiting(), 1);
    world.template("t");
    world.settle().await;
    assert_eq!(waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_abusive_size_is_reported_now_and_then() {
    let world = World::with_template();
    let _controller = world.start_and_settle().await;
    let entries = |count: usize| -> Vec<_> { (0..count).map(|n| made(&format!("e{n}"), "t")).collect() };
    world.pod_of("many", &entries(128));
    world.settle().await;
    assert_eq!(world.count_events("ManyResourceClaims"), 0);
    for pod in ["a", "b"] {
        world.pod_of(pod, &entries(129));
    }
    world.settle().await;
    assert_eq!(
        world.events(),
        [
            "a Warning ManyResourceClaims It has 129 resourceClaims, more than 128: they are made 128 at a time, in turn \
          with what others wait for"
        ]
    );
    world.pass(60).await;
    world.pod_of("c", &entries(129));
    world.settle().await;
    assert_eq!(world.count_events("ManyResourceClaims"), 2);
}
