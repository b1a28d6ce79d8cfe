//! Stories that the loop owns. Each Job is deleted once.

use controller_testing::objects::stays;
use controller_testing::stories::LoopScene;
use embedded_apiserver::{JOBS, RequestVerb};
use serde_json::json;
use ttl_after_finished_controller::TtlAfterFinishedController;

use crate::world::{World, job};

controller_testing::loop_stories!(Expired);
// More than there are workers, and as many as took them all for ever.
controller_testing::tenant_story!(Expired, 40);

struct Expired;

impl LoopScene for Expired {
    type App = TtlAfterFinishedController;
    type World = World;

    const WRITE: (RequestVerb, &'static str) = (RequestVerb::Delete, "jobs");
    const SLOW: (usize, u64) = (15, 600);
    const PLANNED: &'static [(&'static str, u64)] = &[("delete", 1)];

    fn world() -> World {
        World::new()
    }

    fn make(world: &World, namespace: &str, number: usize) {
        let mut job = job(&format!("job-{number}"), Some(0));
        job["metadata"]["namespace"] = json!(namespace);
        job["status"]["conditions"] =
            json!([{ "type": "Complete", "status": "True", "lastTransitionTime": world.seconds(0) }]);
        world.insert(job);
    }

    fn is_done(world: &World, namespace: &str, number: usize) -> bool {
        let job = world.server.get(&JOBS, namespace, &format!("job-{number}"));
        !stays(job.as_ref())
    }

    async fn occasions(world: &World) {
        world.finished_job("due", 10, 0);
        world.job("undated", 0);
        world.edit("undated", |job| {
            job["status"]["conditions"] = json!([{ "type": "Failed", "status": "True" }]);
        });
    }
}
