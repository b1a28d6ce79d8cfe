//! What `/metrics` shows.

use embedded_apiserver::{Fault, RequestVerb};
use serde_json::json;

use crate::world::{World, process};

#[tokio::test(start_paused = true)]
async fn the_metrics() {
    let (world, _) = World::with_widget(3, 3);
    world.pdb("web", "maxUnavailable", &json!(1));
    world.pdb("all", "minAvailable", &json!("100%"));
    world.pdb("failed", "minAvailable", &json!(-1));
    // With a Lease and a failure, so that every family has a series.
    let fault = Fault::status(500, "InternalError");
    world.fail_those(1, |request| request.verb == RequestVerb::Patch, fault);
    let controller = world.start_with(process().elected_as("us"));
    world.pass(20).await;
    world.insert(json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" }, "spec": { "unschedulable": true } }));
    let observer = world.start_with(process().configured(|config| config.observe = true));
    world.pass(10).await;
    let mut families = controller.families();
    // What only an observer shows.
    let more = observer.families();
    for line in more.lines().filter(|line| line.contains("cordoned")) {
        families = format!("{families}\n{line}");
    }
    insta::assert_snapshot!(families);
    assert_eq!(controller.metric("disruption_controller_pdbs"), 3);
    for state in ["allowed", "blocked", "failed"] {
        let series = format!("disruption_controller_pdbs{{state=\"{state}\"}}");
        assert_eq!(controller.metric(&series), 1, "{state}");
    }
    assert_eq!(controller.metric("disruption_controller_scale_requests_total"), 1);
    world.ready("web-0", false);
    world.settle().await;
    assert!(controller.metric("disruption_controller_status_update_lag_seconds_count") > 0);
}
