//! Pods that come, change and go.

use serde_json::json;

use crate::budget::numbers;
use crate::world::World;

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_relabelled_out_and_in_is_counted_where_it_is() {
    let world = World::with_budget(3, "minAvailable", &json!(1));
    let selector = json!({ "matchLabels": { "app": "db" } });
    world.pdb_of("db", "minAvailable", &json!(0), &selector);
    let _controller = world.start_and_settle().await;
    assert_eq!(world.numbers("web"), numbers(2, 3, 1, 3));
    world.relabel("web-0", "db");
    world.settle().await;
    assert_eq!(world.numbers("web"), numbers(1, 2, 1, 2));
    assert_eq!(world.numbers("db"), numbers(1, 1, 0, 1));
    world.relabel("web-0", "web");
    world.settle().await;
    assert_eq!(world.numbers("web"), numbers(2, 3, 1, 3));
    assert_eq!(world.numbers("db"), numbers(0, 0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_several_budgets_match_counts_for_all() {
    let world = World::new();
    world.pods(3, None);
    for (name, amount) in [("one", 1), ("two", 2), ("three", 3)] {
        world.pdb(name, "minAvailable", &json!(amount));
    }
    let _controller = world.start_and_settle().await;
    assert_eq!(["one", "two", "three"].map(|name| world.allowed(name)), [2, 1, 0]);
    world.ready("web-0", false);
    world.settle().await;
    assert_eq!(["one", "two", "three"].map(|name| world.allowed(name)), [1, 0, 0]);
    assert_eq!(world.numbers("three"), numbers(0, 2, 3, 3));
}

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
