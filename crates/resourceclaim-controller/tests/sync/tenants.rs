//! What the writes of one tenant meet keeps no other tenant waiting.

use std::time::Duration;

use controller_testing::fault_history::refusals;
use controller_testing::objects::each;
use embedded_apiserver::PODS;
use serde_json::json;

use crate::world::{World, made, process};

/// As many as took all workers for ever.
const HELD: usize = 400;
const AT_MOST: Duration = Duration::from_secs(2);

/// From the first tries on, and when they have been tried again.
#[tokio::test(start_paused = true)]
async fn creates_of_one_tenant_that_fail_keep_no_other_pod_waiting() {
    let mut late = Vec::new();
    for fault in refusals() {
        for after in [1, 20, 100, 305] {
            let world = World::with_template();
            world.insert(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "other" } }));
            world.insert(json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
                "metadata": { "name": "t", "namespace": "other" },
                "spec": { "spec": { "devices": {} } },
            }));
            world.fail_in("default", &fault);
            for number in 0..HELD {
                world.pod(&format!("held-{number}"));
            }
            let _controller = world.start_with(process().limits(50.0, 100));
            world.pass(after).await;
            world.insert(json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "other", "namespace": "other" },
                "spec": { "resourceClaims": [made("gpu", "t")], "containers": [] },
            }));
            world.clock.sleep(AT_MOST).await;
            let pod = world.server.get(&PODS, "other", "other").unwrap();
            if each(&pod["status"]["resourceClaimStatuses"]).count() == 0 {
                late.push(format!("{fault:?} after {after} s"));
            }
        }
    }
    assert_eq!(late, Vec::<String>::new());
}
