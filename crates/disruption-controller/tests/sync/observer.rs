//! What the metrics show of drains, and what an observer adds.

use controller_testing::Running;
use embedded_apiserver::{NODES, POD_DISRUPTION_BUDGETS, RequestVerb};
use rstest::rstest;
use serde_json::{Value, json};

use crate::world::{World, process};

/// The samples about drains that are not 0, without the prefix of the controller.
fn blocked(controller: &Running) -> Vec<String> {
    let families = [
        "budgets{",
        "node_blockers{",
        "pods_blocked_for_an_hour ",
        "budget_never_allows{",
        "cordoned_node_blockers{",
        "status_disagrees ",
    ];
    let scrape = controller.scrape();
    let samples = { scrape.lines() }.filter_map(|line| line.strip_prefix("disruption_controller_"));
    let samples = samples.filter(|line| families.iter().any(|family| line.starts_with(family)));
    samples
        .filter(|line| !line.ends_with(" 0"))
        .map(str::to_owned)
        .collect()
}

fn node(name: &str, cordoned: bool) -> Value {
    json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name }, "spec": { "unschedulable": cordoned } })
}

#[rstest]
#[case::none(&[], "", &["node_blockers{verdict=\"now\"} 1"])]
#[case::one_may_go(
    &[("minAvailable", json!(1))],
    "",
    &["budgets{cause=\"Evictable\",verdict=\"now\"} 1", "node_blockers{verdict=\"now\"} 1"],
)]
#[case::too_few_are_ready(
    &[("minAvailable", json!(1))],
    "unready",
    &["budgets{cause=\"NotEnoughHealthy\",verdict=\"waits\"} 1", "node_blockers{verdict=\"waits\"} 1"],
)]
#[case::none_may_ever_go(
    &[("minAvailable", json!(2))],
    "",
    &[
        "budget_never_allows{budget=\"default/web-0\",cause=\"MinAvailableTooHigh\"} 1",
        "budgets{cause=\"MinAvailableTooHigh\",verdict=\"never\"} 1",
        "node_blockers{verdict=\"never\"} 1",
    ],
)]
#[case::a_percentage_of_all(
    &[("maxUnavailable", json!("0%"))],
    "",
    &[
        "budget_never_allows{budget=\"default/web-0\",cause=\"MaxUnavailableZero\"} 1",
        "budgets{cause=\"MaxUnavailableZero\",verdict=\"never\"} 1",
        "node_blockers{verdict=\"never\"} 1",
    ],
)]
#[case::two_budgets(
    &[("minAvailable", json!(1)), ("minAvailable", json!(0))],
    "",
    &[
        "budget_never_allows{budget=\"default/web-0\",cause=\"SeveralBudgets\"} 1",
        "budget_never_allows{budget=\"default/web-1\",cause=\"SeveralBudgets\"} 1",
        "budgets{cause=\"SeveralBudgets\",verdict=\"never\"} 2",
        "node_blockers{verdict=\"never\"} 1",
    ],
)]
#[case::pods_that_have_ended(
    &[("minAvailable", json!(2))],
    "over",
    // The new pods of the controller may all be ready, and then none may go.
    &[
        "budget_never_allows{budget=\"default/web-0\",cause=\"MinAvailableTooHigh\"} 1",
        "budgets{cause=\"MinAvailableTooHigh\",verdict=\"never\"} 1",
        "node_blockers{verdict=\"now\"} 1",
    ],
)]
#[tokio::test(start_paused = true)]
async fn each_budget_has_a_verdict_and_each_node_its_worst(
    #[case] budgets: &[(&str, Value)],
    #[case] pods: &str,
    #[case] shown: &[&str],
) {
    let (world, _) = World::with_set(2, 2);
    for (number, (field, amount)) in budgets.iter().enumerate() {
        world.pdb(&format!("web-{number}"), field, amount);
    }
    for pod in ["web-0", "web-1"] {
        match pods {
            "unready" => world.ready(pod, false),
            "over" => world.edit(pod, |pod| pod["status"] = json!({ "phase": "Failed" })),
            _ => {}
        }
    }
    let controller = world.start_and_settle().await;
    assert_eq!(blocked(&controller), shown);
}

#[tokio::test(start_paused = true)]
async fn a_budget_for_nothing_blocks_nothing() {
    let world = World::new();
    world.pdb("web", "minAvailable", &json!(1));
    let controller = world.start_and_settle().await;
    assert_eq!(
        blocked(&controller),
        ["budgets{cause=\"NoPods\",verdict=\"now\"} 1"]
    );
}

#[tokio::test(start_paused = true)]
async fn the_other_pods_of_a_controller_change_whether_a_budget_ever_allows() {
    let (world, set) = World::with_set(2, 1);
    world.pdb("web", "minAvailable", &json!(1));
    let controller = world.start_and_settle().await;
    let never = "budgets{cause=\"MinAvailableTooHigh\",verdict=\"never\"} 1".to_owned();
    let waits = "budgets{cause=\"NotEnoughHealthy\",verdict=\"waits\"} 1".to_owned();
    assert!(blocked(&controller).contains(&waits));
    // The replica set has all its pods now, and the budget selects one of them.
    world.pod_of("other", "other", Some(&set));
    world.settle().await;
    assert!(
        blocked(&controller).contains(&never),
        "{:?}",
        blocked(&controller)
    );
    world.edit("other", |pod| pod["status"] = json!({ "phase": "Failed" }));
    world.settle().await;
    assert!(blocked(&controller).contains(&waits));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_blocked_for_an_hour_is_counted() {
    let (world, set) = World::with_set(2, 1);
    world.pdb("web", "minAvailable", &json!(1));
    let controller = world.start_and_settle().await;
    let long = "disruption_controller_pods_blocked_for_an_hour";
    world.pass(3_500).await;
    assert_eq!(controller.metric(long), 0);
    world.pod("late", Some(&set));
    world.ready("late", false);
    world.pass(200).await;
    assert_eq!(
        controller.metric(long),
        1,
        "the budget blocks the late one for minutes"
    );
    world.ready("late", true);
    world.settle().await;
    assert_eq!(controller.metric(long), 0);
}

#[tokio::test(start_paused = true)]
async fn an_observer_counts_what_blocks_a_cordoned_node() {
    let (world, _) = World::with_set(2, 2);
    world.pdb("web", "minAvailable", &json!(2));
    world.insert(node("n", false));
    world.insert(node("empty", true));
    let controller = world.start_and_settle().await;
    controller.stop().await;
    let mark = world.server.mark();
    let observer = world.start_with(
        process()
            .configured(|config| config.observe = true)
            .elected_as("us"),
    );
    world.pass(10).await;
    let cordoned = |observer: &Running| {
        let mut shown = blocked(observer);
        shown.retain(|sample| sample.starts_with("cordoned"));
        shown
    };
    assert_eq!(cordoned(&observer), Vec::<String>::new());
    world.edit_of(&NODES, "n", |node| node["spec"]["unschedulable"] = json!(true));
    world.settle().await;
    assert_eq!(cordoned(&observer), ["cordoned_node_blockers{node_name=\"n\"} 2"]);
    world.edit_of(&NODES, "n", |node| node["spec"]["unschedulable"] = json!(false));
    world.settle().await;
    assert_eq!(cordoned(&observer), Vec::<String>::new());
    let requests = world.server.requests_since(mark);
    assert!(requests.iter().any(|request| request.verb == RequestVerb::Watch));
    assert!(requests.iter().all(|request| !request.verb.is_write()));
}

#[tokio::test(start_paused = true)]
async fn an_observer_counts_statuses_that_differ_for_a_minute() {
    let (world, _) = World::with_set(2, 2);
    world.pdb("web", "minAvailable", &json!(1));
    let observer = world.start_with(process().configured(|config| config.observe = true));
    let disagrees = "disruption_controller_status_disagrees";
    world.pass(50).await;
    assert_eq!(observer.metric(disagrees), 0, "the other controller has a minute");
    world.pass(20).await;
    assert_eq!(observer.metric(disagrees), 1);
    // Somebody writes what we would.
    let controller = world.start_and_settle().await;
    assert_eq!(observer.metric(disagrees), 0);
    controller.stop().await;
    world.edit_of(&POD_DISRUPTION_BUDGETS, "web", |pdb| {
        pdb["status"]["disruptionsAllowed"] = json!(2);
    });
    world.pass(30).await;
    world.edit_of(&POD_DISRUPTION_BUDGETS, "web", |pdb| {
        pdb["status"]["disruptionsAllowed"] = json!(0);
    });
    world.pass(40).await;
    assert_eq!(
        observer.metric(disagrees),
        1,
        "it differs since the first of the two"
    );
}
