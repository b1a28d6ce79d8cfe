//! Changes of leader.

use serde_json::json;

use crate::budget::numbers;
use crate::world::{World, process};

#[tokio::test(start_paused = true)]
async fn a_successor_is_late_from_its_term_on() {
    let world = World::with_budget(3, "minAvailable", &json!(1));
    let first = world.start_with(process().elected_as("first"));
    let second = world.start_with(process().elected_as("second"));
    world.pass(10).await;
    world.ready("web-0", false);
    world.pass(100_000).await;
    first.stop().await;
    world.ready("web-1", false);
    world.pass(60).await;
    assert_eq!(world.numbers("web"), numbers(0, 1, 1, 3));
    let lag = "disruption_controller_status_update_lag_seconds";
    assert_eq!(second.metric(&format!("{lag}_count")), 1);
    assert!(second.metric(&format!("{lag}_sum")) < 60);
}

#[tokio::test(start_paused = true)]
async fn a_standby_remembers_what_becomes_stale() {
    let world = World::new();
    world.pod("p", None);
    let since = world.seconds(0);
    world.edit("p", |pod| {
        pod["status"]["conditions"] =
            json!([{ "type": "DisruptionTarget", "status": "True", "lastTransitionTime": since }]);
    });
    let first = world.start_with(process().elected_as("first"));
    world.pass(10).await;
    let _second = world.start_with(process().elected_as("second"));
    world.pass(60).await;
    first.stop().await;
    world.pass(60).await;
    let pod = world.get_of(&embedded_apiserver::PODS, "p");
    assert_eq!(pod["status"]["conditions"][0]["status"], "False");
}
