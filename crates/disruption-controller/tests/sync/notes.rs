//! Events.

use embedded_apiserver::POD_DISRUPTION_BUDGETS;
use serde_json::json;

use crate::world::World;

#[tokio::test(start_paused = true)]
async fn a_budget_without_pods_is_reported_once() {
    let world = World::new();
    world.pdb("web", "minAvailable", &json!(1));
    let _controller = world.start_and_pass(10).await;
    assert_eq!(world.events(), ["web Normal NoPods No matching pods found"]);
    for _ in 0..10 {
        world.edit_pdb("web", |pdb| {
            let amount = pdb["spec"]["minAvailable"].as_i64().unwrap();
            pdb["spec"]["minAvailable"] = json!(amount + 1);
        });
        world.pass(1).await;
    }
    assert_eq!(world.count_events("NoPods"), 1);
    world.pod("web-0", None);
    world.pass(1).await;
    world.delete("web-0");
    // Past the time in which equal events are one.
    world.pass(600).await;
    assert_eq!(world.count_events("NoPods"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_selects_anew_gets_no_second_event() {
    let world = World::new();
    world.pdb("web", "minAvailable", &json!(1));
    let _controller = world.start_and_pass(400).await;
    world.edit_pdb("web", |pdb| {
        pdb["spec"]["selector"]["matchLabels"]["app"] = json!("db");
    });
    world.pass(400).await;
    assert_eq!(world.count_events("NoPods"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_restart_repeats_no_event() {
    let world = World::new();
    world.pdb("web", "minAvailable", &json!(1));
    world.pod_of("naked", "naked", None);
    world.pdb_of(
        "naked",
        "maxUnavailable",
        &json!(1),
        &json!({ "matchLabels": { "app": "naked" } }),
    );
    let gone = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": { "name": "gone", "uid": "gone" },
    });
    world.pod_of("gone", "gone", Some(&gone));
    let selector = json!({ "matchLabels": { "app": "gone" } });
    world.pdb_of("gone", "maxUnavailable", &json!(1), &selector);
    let first = world.start_and_pass(10).await;
    let events = world.events();
    assert_eq!(events.len(), 3, "{events:?}");
    first.stop().await;
    let _second = world.start_and_pass(700).await;
    assert_eq!(world.events(), events);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_several_budgets_match_is_reported_once() {
    let world = World::new();
    world.pdb("one", "minAvailable", &json!(1));
    let _controller = world.start_and_pass(10).await;
    world.pod("web-0", None);
    world.pdb("two", "minAvailable", &json!(1));
    world.pass(10).await;
    let note = "Pod default/web-0 matches multiple PodDisruptionBudgets, so the eviction API refuses to evict it: one, two";
    let told = format!("web-0 Warning MultiplePodDisruptionBudgets {note}");
    assert_eq!(world.events().last(), Some(&told));
    for ready in [false, true, false] {
        world.ready("web-0", ready);
        world.pass(10).await;
    }
    assert_eq!(world.count_events("MultiplePodDisruptionBudgets"), 1);
    world.pod("web-1", None);
    world.pass(10).await;
    assert_eq!(world.count_events("MultiplePodDisruptionBudgets"), 2);
    world.delete_of(&POD_DISRUPTION_BUDGETS, "two");
    world.pass(400).await;
    assert_eq!(world.count_events("MultiplePodDisruptionBudgets"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_selector_of_more_than_a_thousand_values_is_reported_once() {
    let world = World::new();
    let selector = |count: usize| {
        let values: Vec<_> = (0..count).map(|value| value.to_string()).collect();
        json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": values }] })
    };
    world.pdb_of("usual", "minAvailable", &json!(1), &selector(1_000));
    world.pdb_of("large", "minAvailable", &json!(1), &selector(1_001));
    let _controller = world.start_and_pass(10).await;
    let note = "Its selector names 1001 values: select by a label that its pods share instead";
    let told = format!("large Warning LargeSelector {note}");
    assert!(world.events().contains(&told), "{:?}", world.events());
    world.pass(400).await;
    assert_eq!(world.count_events("LargeSelector"), 1);
}

#[tokio::test(start_paused = true)]
async fn pods_without_a_controller_are_told_once() {
    let world = World::with_budget(2, "minAvailable", &json!("28%"));
    // To an integer it does not matter.
    world.pdb_of("all", "minAvailable", &json!(1), &json!({}));
    let _controller = world.start_and_pass(10).await;
    for ready in [false, true, false] {
        world.ready("web-0", ready);
        world.pass(400).await;
    }
    let told: Vec<_> = world
        .events()
        .into_iter()
        .filter(|event| event.contains("UnmanagedPods"))
        .collect();
    assert_eq!(
        told,
        [
            "web Warning UnmanagedPods 2 of the pods that this PodDisruptionBudget selects are unmanaged: no controller \
          says how many of them there should be, so they do not count as expected. To account for them, set \
          \".spec.minAvailable\" to an integer."
        ]
    );
}
