//! Stories that the loop owns. Each node is written once.

use controller_testing::stories::LoopScene;
use embedded_apiserver::RequestVerb;
use ttl_controller::TtlController;

use crate::world::{TTL, World, name};

controller_testing::loop_stories!(Annotated);

struct Annotated;

impl LoopScene for Annotated {
    type App = TtlController;
    type World = World;

    const WRITE: (RequestVerb, &'static str) = (RequestVerb::Patch, "nodes");
    const SLOW: (usize, u64) = (30, 310);
    const PLANNED: &'static [(&'static str, u64)] = &[("annotate", 120), ("remove", 0)];

    const READS_BEFORE_IT_REPEATS: bool = true;

    fn world() -> World {
        World::new()
    }

    fn make(world: &World, _namespace: &str, number: usize) {
        world.add([number], None);
    }

    fn is_done(world: &World, _namespace: &str, number: usize) -> bool {
        world.get(&name(number))["metadata"]["annotations"][TTL] == "0"
    }

    async fn occasions(world: &World) {
        world.add(1000..1120, None);
    }
}
