//! Pods that come, change and go.

use serde_json::json;

use crate::budget::numbers;
use crate::world::World;

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_being_deleted_is_expected_but_not_healthy() {
    let (world, _) = World::with_set(3, 3);
    world.pdb("web", "minAvailable", &json!("50%"));
    let _controller = world.start_and_settle().await;
    assert_eq!(world.numbers("web"), numbers(1, 3, 2, 3));
    world.terminate("web-0");
    world.settle().await;
    assert_eq!(world.numbers("web"), numbers(0, 2, 2, 3));
}

#[tokio::test(start_paused = true)]
async fn a_namespace_of_many_pods_is_right_after_a_burst() {
    let (world, _) = World::with_set(1000, 1000);
    world.pdb("web", "minAvailable", &json!("90%"));
    let _controller = world.start_and_settle().await;
    assert_eq!(world.numbers("web"), numbers(100, 1000, 900, 1000));
    for number in 0..300 {
        world.ready(&format!("web-{number}"), false);
    }
    world.settle().await;
    assert_eq!(world.numbers("web"), numbers(0, 700, 900, 1000));
    for number in 0..250 {
        world.ready(&format!("web-{number}"), true);
    }
    world.settle().await;
    assert_eq!(world.numbers("web"), numbers(50, 950, 900, 1000));
}
