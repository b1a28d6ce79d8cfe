//! What the writes of one tenant meet keeps no other tenant waiting.

use std::time::Duration;

use controller_testing::fault_history::refusals;
use embedded_apiserver::{POD_DISRUPTION_BUDGETS, PODS};
use serde_json::json;

use crate::world::{World, process};

const HELD: usize = 200;
const AT_MOST: Duration = Duration::from_secs(2);

/// From the first tries on, and when they have been tried again.
#[tokio::test(start_paused = true)]
async fn statuses_of_one_tenant_that_are_refused_put_off_no_other_decrease() {
    let mut late = Vec::new();
    for fault in refusals() {
        for after in [10, 20, 100, 305] {
            let world = World::new();
            world.insert(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "other" } }));
            let metadata = json!({ "name": "other", "namespace": "other", "labels": { "app": "web" } });
            let selector = json!({ "matchLabels": { "app": "web" } });
            world.insert(json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
                "spec": { "nodeName": "n", "containers": [] },
                "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
            }));
            world.insert(json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata,
                "spec": { "selector": selector, "minAvailable": 0 },
            }));
            world.pods(1, None);
            for number in 0..HELD {
                world.pdb(&format!("held-{number}"), "minAvailable", &json!(0));
            }
            world.fail_in("default", &fault);
            let _controller = world.start_with(process().limits(50.0, 100));
            world.pass(after).await;
            let allowed = || {
                let budget = world
                    .server
                    .get(&POD_DISRUPTION_BUDGETS, "other", "other")
                    .unwrap();
                budget["status"]["disruptionsAllowed"].as_i64()
            };
            if allowed() != Some(1) {
                late.push(format!("{fault:?} for the first time after {after} s"));
            }
            let unready = json!([{ "type": "Ready", "status": "False" }]);
            let edit = |pod: &mut serde_json::Value| pod["status"]["conditions"] = unready;
            world.server.edit(&PODS, "other", "other", edit).unwrap();
            world.clock.sleep(AT_MOST).await;
            if allowed() != Some(0) {
                late.push(format!("{fault:?} after {after} s"));
            }
        }
    }
    assert_eq!(late, Vec::<String>::new());
}
