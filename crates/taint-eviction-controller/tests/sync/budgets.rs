//! Evictions that wait for budgets.

use std::time::Duration;

use controller_testing::objects::stays;
use embedded_apiserver::{POD_DISRUPTION_BUDGETS, PODS, RequestVerb};
use rstest::rstest;
use serde_json::{Value, json};
use taint_eviction_controller::decide::tries_again_after;

use crate::world::{DELETIONS, For, World, process};

const WAITING: &str = "taint_eviction_controller_evictions_waiting_for_budgets";
const LONGEST: &str = "taint_eviction_controller_longest_wait_for_budgets_seconds";

impl World {
    /// A budget over the pods labelled so, which lets this many go.
    fn budget(&self, name: &str, allowed: i64) {
        self.insert(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": name, "namespace": "default" },
            "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { "app": name } } },
            "status": { "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1,
                        "expectedPods": 1 },
        }));
    }

    fn allow(&self, budget: &str, allowed: i64) {
        self.edit_of(&POD_DISRUPTION_BUDGETS, budget, |pdb| {
            pdb["status"]["disruptionsAllowed"] = json!(allowed);
        });
    }

    fn labelled(&self, pod: &str, app: &str) {
        self.edit_of(&PODS, pod, |pod| {
            pod["metadata"]["labels"] = json!({ "app": app });
            pod["status"]["phase"] = json!("Running");
            pod["status"]["conditions"] = json!([{ "type": "Ready", "status": "True" }]);
        });
    }

    /// With this many pods of the budget `app`, on the node `n`.
    pub(crate) fn with_budget(pods: usize, allowed: i64) -> Self {
        let world = Self::with_pods(pods, For::No);
        (0..pods).for_each(|number| world.labelled(&format!("n-{number:04}"), "app"));
        world.budget("app", allowed);
        world
    }

    fn evictions(&self) -> usize {
        let requests = self.server.requests();
        let evictions =
            requests.only(|request| request.subresource == "eviction" && request.verb == RequestVerb::Create);
        evictions.len()
    }
}

fn through(entries: &str) -> crate::brake::Process {
    let entries = entries.to_owned();
    process().configured(|config| config.evict_through_budgets = Some(entries))
}

#[tokio::test(start_paused = true)]
async fn pods_go_as_their_budget_allows_and_are_deleted_after_the_longest_wait() {
    let world = World::with_budget(3, 1);
    let controller = world.start_with(through("k:10m"));
    world.pass(20).await;
    world.taint("n");
    world.pass(300).await;
    assert_eq!(world.alive(), 2);
    assert_eq!(controller.metric(WAITING), 2);
    assert!((299..=301).contains(&controller.metric(LONGEST)));
    world.allow("app", 1);
    world.pass(10).await;
    assert_eq!(world.alive(), 1);
    world.pass(285).await;
    assert_eq!(world.alive(), 1);
    world.pass(10).await;
    assert_eq!(world.alive(), 0);
    assert_eq!(controller.metric(WAITING), 0);
    assert_eq!(controller.metric(DELETIONS), 3);
}

#[tokio::test(start_paused = true)]
async fn forever_waits_as_long_as_the_budget_refuses() {
    let world = World::with_budget(1, 0);
    let _controller = world.start_with(through("k"));
    world.pass(20).await;
    world.taint("n");
    assert!(world.lives_after(100_000, "n-0000").await);
    world.allow("app", 1);
    assert!(!world.lives_after(6, "n-0000").await);
}

#[tokio::test(start_paused = true)]
async fn a_taint_that_goes_ends_the_wait() {
    let world = World::with_budget(1, 0);
    let controller = world.start_with(through("k:10m"));
    world.pass(20).await;
    world.taint("n");
    world.pass(60).await;
    world.untaint("n");
    world.settle().await;
    assert_eq!(controller.metric(WAITING), 0);
    let tries = world.evictions();
    assert!(world.lives_after(3_600, "n-0000").await);
    assert_eq!(world.evictions(), tries);
}

/// The first entry that selects the taint counts; other taints do not wait.
#[tokio::test(start_paused = true)]
async fn other_taints_delete_at_once() {
    let world = World::with_budget(1, 0);
    let _controller = world.start_with(through("other:forever,k=v:1h"));
    world.pass(20).await;
    world.taint("n");
    assert!(!world.lives_after(1, "n-0000").await);
    assert_eq!(world.evictions(), 0);
}

/// The API server writes the condition of an eviction, we write that of a delete; neither twice.
#[tokio::test(start_paused = true)]
async fn the_condition_is_written_once_when_the_pod_goes() {
    let world = World::with_budget(2, 1);
    for pod in ["n-0000", "n-0001"] {
        world.edit(pod, |pod| {
            pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
        });
    }
    let _controller = world.start_with(through("k:1m"));
    world.pass(20).await;
    world.taint("n");
    world.pass(30).await;
    let reasons = |pod: &str| -> Vec<String> {
        let pod = world.get(pod);
        let conditions = pod["status"]["conditions"].as_array().unwrap().iter();
        let disrupted = conditions.filter(|condition| condition["type"] == "DisruptionTarget");
        disrupted
            .map(|condition| condition["reason"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(reasons("n-0000"), ["EvictionByEvictionAPI"]);
    assert_eq!(reasons("n-0001"), [""; 0]);
    world.pass(60).await;
    assert_eq!(reasons("n-0001"), ["DeletionByTaintManager"]);
}

/// Two budgets on one pod are a mistake that the Eviction API answers with 500.
#[tokio::test(start_paused = true)]
async fn a_pod_with_two_budgets_waits_as_well() {
    let world = World::with_budget(1, 1);
    world.insert(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "second", "namespace": "default" },
        "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { "app": "app" } } },
    }));
    let _controller = world.start_with(through("k:10m"));
    world.pass(20).await;
    world.taint("n");
    assert!(world.lives_after(599, "n-0000").await);
    assert!(!world.lives_after(10, "n-0000").await);
}

#[tokio::test(start_paused = true)]
async fn two_thousand_refused_pods_cost_ten_requests_a_second_and_keep_no_other_waiting() {
    let world = World::with_budget(2_000, 0);
    let _controller = world.start_with(through("k"));
    world.pass(20).await;
    world.taint("n");
    for _ in 0..30 {
        let before = world.evictions();
        world.pass(1).await;
        assert!(world.evictions() - before <= 11, "{}", world.evictions() - before);
    }
    let tries = world.evictions();
    assert!((290..=320).contains(&tries), "{tries}");
    world.node("other");
    world.insert(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "other" } }));
    world.insert(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "free", "namespace": "other" },
        "spec": { "nodeName": "other", "containers": [] },
    }));
    world.settle().await;
    world.taint("other");
    world.pass(2).await;
    assert!(!stays(world.server.get(&PODS, "other", "free").as_ref()));
}

/// The more are refused, the longer each waits, so that all together cost five tries a second.
#[rstest]
#[case::few(25, 5)]
#[case::many(2_000, 400)]
fn a_refused_pod_is_tried_again_the_later_the_more_there_are(#[case] refused: usize, #[case] seconds: u64) {
    assert_eq!(tries_again_after(refused), Duration::from_secs(seconds));
}

/// What no budget refuses goes as fast as the API server answers.
#[tokio::test(start_paused = true)]
async fn pods_that_no_budget_refuses_do_not_wait() {
    let world = World::with_pods(500, For::No);
    let _controller = world.start_with(through("k"));
    world.pass(20).await;
    world.taint("n");
    world.pass(2).await;
    assert_eq!(world.alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_person_sees_that_a_pod_waits() {
    let world = World::with_budget(1, 0);
    let _controller = world.start_with(through("k:1h"));
    world.pass(20).await;
    world.taint("n");
    world.pass(120).await;
    let events = world.events_of("n-0000");
    assert_eq!(events.len(), 1);
    assert!(events[0].starts_with(
        "Normal EvictionWaits waits for a budget that refuses its eviction, until 2026-01-01T01:00:20Z at most, then it \
         is deleted: create pods/eviction default/n-0000: Cannot evict pod as it would violate the pod's disruption \
         budget."
    ), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn the_brake_holds_back_what_budgets_would_let_go() {
    let world = World::with_budget(6, 6);
    let both =
        crate::brake::limited().configured(|config| config.evict_through_budgets = Some("k".to_owned()));
    let _controller = world.start_with(both);
    world.pass(20).await;
    world.taint("n");
    world.pass(60).await;
    assert_eq!((world.alive(), world.evictions()), (6, 0));
    world.delete("n-0005");
    world.pass(10).await;
    assert_eq!((world.alive(), world.evictions()), (0, 5));
}

/// The brake looks at what budgets refuse once a minute, and forgets no try.
#[tokio::test(start_paused = true)]
async fn what_a_budget_refuses_for_long_goes_through_the_brake_once_it_may() {
    let world = World::with_budget(3, 0);
    let both =
        crate::brake::limited().configured(|config| config.evict_through_budgets = Some("k".to_owned()));
    let _controller = world.start_with(both);
    world.pass(20).await;
    world.taint("n");
    world.pass(1_800).await;
    assert_eq!(world.alive(), 3);
    world.allow("app", 3);
    world.pass(30).await;
    assert_eq!(world.alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_plans_no_more_than_the_brake_lets() {
    let world = World::with_pods(6, For::No);
    let dry = crate::brake::limited().configured(|config| config.common.dry_run = true);
    let controller = world.start_with(dry);
    world.pass(20).await;
    world.taint("n");
    world.pass(300).await;
    assert_eq!(controller.planned(), [("evict".to_owned(), 0)]);
    world.delete("n-0005");
    world.pass(10).await;
    assert_eq!(controller.planned(), [("evict".to_owned(), 5)]);
    assert_eq!(world.alive(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_goes_on_where_the_last_one_was() {
    let world = World::with_budget(1, 0);
    let first = world.start_with(through("k:10m").elected_as("a"));
    world.pass(20).await;
    world.taint_added("n", 0);
    world.pass(100).await;
    first.stop().await;
    let _second = world.start_with(through("k:10m").elected_as("b"));
    assert!(world.lives_after(495, "n-0000").await);
    assert!(!world.lives_after(10, "n-0000").await);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_plans_one_eviction_a_pod_and_writes_nothing() {
    let world = World::with_budget(3, 0);
    let dry = through("k:10m").configured(|config| config.common.dry_run = true);
    let controller = world.start_with(dry);
    world.pass(20).await;
    world.taint("n");
    world.pass(60).await;
    assert_eq!(controller.planned(), [("evict".to_owned(), 3)]);
    assert_eq!(world.all_writes(), Vec::<String>::new());
}

/// A toleration that a webhook adds after the taint.
#[tokio::test(start_paused = true)]
async fn a_toleration_that_is_lengthened_counts_only_where_the_flag_says_so() {
    for (extends, dies_at) in [(false, 60), (true, 300)] {
        let world = World::with_pod(For::Seconds(60));
        let process = process().configured(|config| config.toleration_extensions = extends);
        let _controller = world.start_with(process);
        world.pass(20).await;
        world.taint("n");
        world.pass(30).await;
        world.edit("p", |pod: &mut Value| {
            pod["spec"]["tolerations"][0]["tolerationSeconds"] = json!(300);
        });
        assert!(world.lives_after(dies_at - 32, "p").await, "{extends}");
        assert!(!world.lives_after(5, "p").await, "{extends}");
    }
}
