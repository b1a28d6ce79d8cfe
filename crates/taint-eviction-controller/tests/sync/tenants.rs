//! What the writes of one tenant meet keeps no other tenant waiting.

use std::time::Duration;

use controller_testing::fault_history::refusals;
use controller_testing::objects::stays;
use embedded_apiserver::PODS;
use serde_json::json;

use crate::world::{For, World, process};

/// Three times as many as may be evicted at a time.
const HELD: usize = 200;
const AT_MOST: Duration = Duration::from_secs(2);

/// From the first tries on, and when they have been tried again.
#[tokio::test(start_paused = true)]
async fn evictions_of_one_tenant_that_fail_keep_no_other_pod_waiting() {
    let mut late = Vec::new();
    for fault in refusals() {
        for after in [1, 20, 100, 305] {
            let world = World::with_pods(HELD, For::No);
            world.node("other");
            world.insert(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "other" } }));
            world.insert(json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "other", "namespace": "other" },
                "spec": { "nodeName": "other", "containers": [] },
            }));
            world.fail_in("default", &fault);
            let _controller = world.start_with(process().limits(50.0, 100));
            world.settle().await;
            world.taint("n");
            world.pass(after).await;
            world.taint("other");
            world.clock.sleep(AT_MOST).await;
            let left = world.server.get(&PODS, "other", "other");
            if stays(left.as_ref()) {
                late.push(format!("{fault:?} after {after} s"));
            }
        }
    }
    assert_eq!(late, Vec::<String>::new());
}
