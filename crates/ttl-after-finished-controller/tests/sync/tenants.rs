//! What the writes of one tenant meet keeps no other tenant waiting.

use std::time::Duration;

use controller_testing::fault_history::refusals;
use controller_testing::objects::stays;
use embedded_apiserver::JOBS;
use serde_json::json;

use crate::world::{World, job};

/// More than there are workers, and as many as took them all for ever.
const HELD: usize = 40;
const AT_MOST: Duration = Duration::from_secs(2);

/// From the first tries on, and when they have been tried again.
#[tokio::test(start_paused = true)]
async fn deletes_of_one_tenant_that_fail_keep_no_other_job_waiting() {
    let mut late = Vec::new();
    for fault in refusals() {
        for after in [1, 20, 100, 305] {
            let world = World::new();
            world.insert(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "other" } }));
            world.fail_in("default", &fault);
            for number in 0..HELD {
                world.finished_job(&format!("held-{number}"), 0, 0);
            }
            let _controller = world.start_and_pass(after).await;
            let mut other = job("other", Some(0));
            other["metadata"]["namespace"] = json!("other");
            other["status"]["conditions"] =
                json!([{ "type": "Complete", "status": "True", "lastTransitionTime": world.seconds(0) }]);
            world.insert(other);
            world.clock.sleep(AT_MOST).await;
            let left = world.server.get(&JOBS, "other", "other");
            if stays(left.as_ref()) {
                late.push(format!("{fault:?} after {after} s"));
            }
        }
    }
    assert_eq!(late, Vec::<String>::new());
}
