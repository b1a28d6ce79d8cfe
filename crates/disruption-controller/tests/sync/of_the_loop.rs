//! Stories that the loop owns. Each budget has one status.

use controller_testing::stories::LoopScene;
use disruption_controller::DisruptionController;
use embedded_apiserver::RequestVerb;
use serde_json::json;

use crate::world::World;

controller_testing::loop_stories!(Computed);

struct Computed;

impl LoopScene for Computed {
    type App = DisruptionController;
    type World = World;

    const WRITE: (RequestVerb, &'static str) = (RequestVerb::Patch, "poddisruptionbudgets");
    const SLOW: (usize, u64) = (30, 310);
    const PLANNED: &'static [(&'static str, u64)] = &[("reset-condition", 1), ("update-status", 2)];

    fn world() -> World {
        World::new()
    }

    fn make(world: &World, _namespace: &str, number: usize) {
        let app = format!("app-{number}");
        world.pod_of(&app, &app, None);
        let selector = json!({ "matchLabels": { "app": app } });
        world.pdb_of(&app, "minAvailable", &json!(0), &selector);
    }

    fn is_done(world: &World, _namespace: &str, number: usize) -> bool {
        world.allowed(&format!("app-{number}")) == 1
    }

    async fn occasions(world: &World) {
        world.pods(3, None);
        world.pdb("web", "minAvailable", &json!(1));
        let selector = json!({ "matchLabels": { "app": "none" } });
        world.pdb_of("none", "minAvailable", &json!(1), &selector);
        let since = world.seconds(0);
        world.edit("web-0", |pod| {
            pod["status"]["conditions"] =
                json!([{ "type": "DisruptionTarget", "status": "True", "lastTransitionTime": since }]);
        });
    }
}
