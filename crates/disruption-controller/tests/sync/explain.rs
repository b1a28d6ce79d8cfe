//! What `explain` prints.

use controller_core::app::Failure;
use controller_core::config::Encoding;
use controller_core::meta::ObjectKey;
use controller_runtime::driver;
use controller_runtime::sender::{Caller, Sender};
use disruption_controller::decide::OwnerRules;
use disruption_controller::explain::explain;
use serde_json::json;

use crate::world::World;

async fn tried(world: &World, rules: &OwnerRules) -> Result<String, Failure> {
    let client = world.server.client_as("explain/test");
    let sender = Sender::new(client, Caller::new(world.clock.clone()), Encoding::default());
    let (key, rules) = (ObjectKey::namespaced("default", "web"), rules.clone());
    driver::explain(sender, |pass, now| explain(pass, &key, &rules, now.wall)).await
}

async fn explained(world: &World) -> String {
    explained_by(world, &OwnerRules::default()).await
}

pub(crate) async fn explained_by(world: &World, rules: &OwnerRules) -> String {
    tried(world, rules).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_number_is_reported_with_where_it_comes_from() {
    let world = World::new();
    world.define_widgets(true);
    let deployment = world.workload("Deployment", "web", 4);
    let set = world.replica_set("web-1", 9, Some(&deployment));
    world.pods(5, Some(&set));
    let widget = world.workload("Widget", "w", 2);
    world.pod("widget", Some(&widget));
    world.pod("naked", None);
    world.pod_of("db", "db", None);
    world.ready("web-0", false);
    world.terminate("web-1");
    world.pdb("web", "maxUnavailable", &json!("30%"));
    let entries = json!({ "web-2": world.seconds(-30), "gone": world.seconds(-30) });
    world.edit_pdb("web", |pdb| pdb["status"]["disruptedPods"] = entries);
    assert_eq!(
        explained(&world).await,
        "PodDisruptionBudget default/web: maxUnavailable 30%\n\
         selects 7 pods by app=web\n\
         \x20 Deployment web wants 4, has 5, 1 of them being deleted\n\
         \x20 Widget w wants 2 (read from its scale), has 1\n\
         \x20 1 has no controller, so it is not expected, though it counts when healthy: naked\n\
         expectedPods 6: what the controllers of its pods want\n\
         desiredHealthy 4: 6 expected less 2 that may be unavailable (30%, rounded up)\n\
         currentHealthy 4: 7 selected less 3 that do not count\n\
         \x20 web-0 does not count: not ready\n\
         \x20 web-1 does not count: being deleted\n\
         \x20 web-2 does not count: its eviction was approved at 2025-12-31T23:59:30Z; should it stay, it counts again \
         at 2026-01-01T00:01:30Z\n\
         disruptionsAllowed 0: 4 healthy less 4 desired\n\
         its status does not say so yet; to be written: currentHealthy 4 (now 0), desiredHealthy 4 (now 0), \
         expectedPods 6 (now 0), observedGeneration 1 (now 0), DisruptionAllowed=False (InsufficientPods), \
         disruptedPods without gone\n"
    );
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_is_right_is_left_alone() {
    let world = World::with_budget(3, "minAvailable", &json!(1));
    let _controller = world.start_and_settle().await;
    assert_eq!(
        explained(&world).await,
        "PodDisruptionBudget default/web: minAvailable 1\n\
         selects 3 pods by app=web\n\
         expectedPods 3: as many as it selects\n\
         desiredHealthy 1: minAvailable\n\
         currentHealthy 3: all that it selects\n\
         disruptionsAllowed 2: 3 healthy less 1 desired\n\
         its status says so\n"
    );
}

#[tokio::test(start_paused = true)]
async fn the_readme_shows_what_it_prints() {
    let world = World::with_budget(3, "minAvailable", &json!(3));
    world.ready("web-0", false);
    let _controller = world.start_and_settle().await;
    let printed = explained(&world).await;
    let readme = include_str!("../../../../README.md");
    assert!(readme.contains(&printed), "{printed}");
}

#[tokio::test(start_paused = true)]
async fn why_a_budget_cannot_be_computed_is_reported() {
    let world = World::new();
    let set =
        world.insert(json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "ds" } }));
    world.pods(1, Some(&set));
    world.ready("web-0", false);
    world.pdb("web", "minAvailable", &json!("50%"));
    assert_eq!(
        explained(&world).await,
        "PodDisruptionBudget default/web: minAvailable 50%\n\
         selects 1 pod by app=web\n\
         \x20 DaemonSet ds has 1; how many it wants is not known: daemonsets.apps does not implement the scale \
         subresource\n\
         \x20 web-0 does not count: not ready\n\
         disruptionsAllowed 0, for it cannot be computed: daemonsets.apps does not implement the scale subresource\n\
         its status does not say so yet; to be written: observedGeneration 1 (now 0), DisruptionAllowed=False \
         (SyncFailed)\n\
         no state of its pods lets one go: PodDisruptionBudget web cannot be computed: daemonsets.apps does not \
         implement the scale subresource. Fix: set minAvailable: 0 in web.\n"
    );
}

#[tokio::test(start_paused = true)]
async fn the_replica_sets_of_a_deployment_are_one_and_what_is_gone_is_reported() {
    let world = World::new();
    let deployment = world.workload("Deployment", "web", 4);
    let old = world.replica_set("web-1", 1, Some(&deployment));
    let new = world.replica_set("web-2", 3, Some(&deployment));
    world.pod("old", Some(&old));
    world.pod("new", Some(&new));
    let gone = world.workload("StatefulSet", "gone", 1);
    world.pod("gone-0", Some(&gone));
    world.remove(&gone);
    world.terminate("gone-0");
    world.pod("naked-1", None);
    world.pod("naked-2", None);
    world.edit("naked-2", |pod| pod["status"] = json!({ "phase": "Failed" }));
    world.pdb("web", "maxUnavailable", &json!(1));
    let explained = explained(&world).await;
    let numbers = explained.split_once("its status").unwrap().0;
    assert_eq!(
        numbers,
        "PodDisruptionBudget default/web: maxUnavailable 1\n\
         selects 5 pods by app=web\n\
         \x20 Deployment web wants 4, has 2\n\
         \x20 StatefulSet gone is gone and wants 0, has 1, all being deleted\n\
         \x20 2 have no controller, so they are not expected, though they count when healthy: naked-1, naked-2\n\
         expectedPods 4: what the controllers of its pods want\n\
         desiredHealthy 3: 4 expected less 1 that may be unavailable\n\
         currentHealthy 3: 5 selected less 2 that do not count\n\
         \x20 gone-0 does not count: being deleted\n\
         \x20 naked-2 does not count: it has ended\n\
         disruptionsAllowed 0: 3 healthy less 3 desired\n"
    );
}

#[tokio::test(start_paused = true)]
async fn pods_that_other_budgets_select_are_named_for_they_cannot_be_evicted() {
    let world = World::new();
    world.pods(3, None);
    world.pod_of("db", "db", None);
    let app =
        |apps: &[&str]| json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": apps }] });
    world.pdb_of("web", "minAvailable", &json!(5), &app(&["web", "db"]));
    world.pdb_of("all", "minAvailable", &json!(1), &json!({}));
    world.pdb_of("db", "minAvailable", &json!(1), &app(&["db"]));
    let explained = explained(&world).await;
    let numbers = explained.split_once("its status").unwrap().0;
    assert_eq!(
        numbers,
        "PodDisruptionBudget default/web: minAvailable 5\n\
         selects 4 pods by app in (db,web)\n\
         \x20 the Eviction API refuses these, for PodDisruptionBudget all selects them, too: web-0, web-1, web-2\n\
         \x20 the Eviction API refuses these, for PodDisruptionBudgets all, db select them, too: db\n\
         expectedPods 4: as many as it selects\n\
         desiredHealthy 5: minAvailable\n\
         currentHealthy 4: all that it selects\n\
         disruptionsAllowed 0: 4 healthy, 1 fewer than desired\n"
    );
}

#[tokio::test(start_paused = true)]
async fn of_many_pods_that_do_not_count_some_are_named() {
    let world = World::new();
    world.pods(25, None);
    for number in 0..22 {
        world.ready(&format!("web-{number}"), false);
    }
    world.pdb("web", "maxUnavailable", &json!("10%"));
    let explained = explained(&world).await;
    assert!(
        explained.contains("though they count when healthy: web-0, web-1, web-10, "),
        "{explained}"
    );
    assert!(explained.contains(", web-3, web-4 and 5 more\n"), "{explained}");
    assert!(explained.contains("\n  nor do 2 more\n"), "{explained}");
    assert!(
        explained.contains("\ndisruptionsAllowed 0: no pods are expected\n"),
        "{explained}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_selector_that_selects_nothing_is_reported() {
    let world = World::new();
    world.pods(1, None);
    world.pdb_of("web", "minAvailable", &json!(1), &json!(null));
    let without = explained(&world).await;
    assert!(
        without.contains("\nselects no pods: it has no selector\n"),
        "{without}"
    );
    let invalid = json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": [] }] });
    world.edit_pdb("web", |pdb| pdb["spec"]["selector"] = invalid);
    let invalid = explained(&world).await;
    assert!(
        invalid.contains("\ndisruptionsAllowed 0, for it cannot be computed: invalid selector: In of \"app\" needs values\n"),
        "{invalid}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_is_not_there_is_none() {
    let world = World::new();
    assert_eq!(
        tried(&world, &OwnerRules::default())
            .await
            .unwrap_err()
            .to_string(),
        "no PodDisruptionBudget default/web"
    );
}
