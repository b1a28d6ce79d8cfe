//! The brake: what is due beyond its limits waits.

use std::time::Duration;

use controller_core::config::GoDuration;
use controller_runtime::clock::Clock;
use controller_testing::{ConfigOf, Start};
use embedded_apiserver::{Fault, LEASES, RequestVerb};
use serde_json::{Value, json};
use taint_eviction_controller::TaintEvictionController;

use crate::world::{DELETIONS, For, World, process};

pub(crate) const ENGAGED: &str = "taint_eviction_controller_brake_engaged";
const LEASE: (&str, &str) = ("kube-system", "taint-eviction-controller");

pub(crate) type Process = Start<ConfigOf<TaintEvictionController>>;

/// A leader whose brake lets five pods go within ten minutes.
pub(crate) fn limited() -> Process {
    let process = process().elected_as("a");
    process.configured(|config| config.eviction_brake_pods = Some("5".to_owned()))
}

/// The same, where a hold ends by itself after this many seconds.
fn released_after(seconds: u32) -> Process {
    limited().configured(move |config| {
        config.eviction_brake_release_after = Some(GoDuration::from_secs(seconds));
    })
}

impl World {
    fn lease(&self) -> Value {
        self.server.get(&LEASES, LEASE.0, LEASE.1).unwrap()
    }

    fn annotation(&self, name: &str) -> Option<String> {
        let value = &self.lease()["metadata"]["annotations"][name];
        value.as_str().map(str::to_owned)
    }

    fn annotate(&self, name: &str, value: &str) {
        let edit = |lease: &mut Value| lease["metadata"]["annotations"][name] = json!(value);
        self.server.edit(&LEASES, LEASE.0, LEASE.1, edit).unwrap();
    }

    /// Evicts this many pods of a node of its own, and waits until they are gone.
    async fn evict(&self, count: usize, node: &str) {
        self.node(node);
        self.pods(count, node, For::No);
        let before = self.alive();
        self.settle().await;
        self.taint(node);
        self.pass(4).await;
        assert_eq!(self.alive(), before - count);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_within_the_limit_goes() {
    let world = World::with_pods(5, For::No);
    let controller = world.start_with(limited());
    world.pass(20).await;
    world.taint("n");
    world.pass(4).await;
    assert_eq!(world.alive(), 0);
    assert_eq!(controller.metric(ENGAGED), 0);
}

#[tokio::test(start_paused = true)]
async fn a_mistake_that_makes_all_due_at_once_evicts_nothing() {
    let world = World::with_nodes(["a", "b"]);
    world.pods(4, "a", For::No);
    world.pods(2, "b", For::No);
    let controller = world.start_with(limited());
    world.pass(20).await;
    world.taint("a");
    world.pass(1).await;
    world.taint("b");
    world.pass(3_600).await;
    assert_eq!(world.alive(), 6);
    assert_eq!(controller.metric(ENGAGED), 1);
    // The mistake is mended in part.
    world.untaint("b");
    world.pass(8).await;
    assert_eq!(world.alive(), 2);
    assert_eq!(controller.metric(ENGAGED), 0);
}

/// Evictions that are paced, or whose nodes are read slowly, are due all the same.
#[tokio::test(start_paused = true)]
async fn a_mistake_is_seen_whole_however_slowly_pods_would_go() {
    let paced = limited().configured(|config| config.eviction_qps = 1.0);
    let slow = limited().limits(2.0, 2);
    for process in [paced, slow] {
        let world = World::with_nodes([]);
        for number in 0..30 {
            let node = format!("n{number}");
            world.node(&node);
            world.pod(&format!("p{number}"), &node, For::Seconds(300));
        }
        let controller = world.start_with(process);
        world.pass(20).await;
        for number in 0..30 {
            world.taint(&format!("n{number}"));
        }
        world.pass(900).await;
        assert_eq!(world.alive(), 30);
        assert_eq!(controller.metric(ENGAGED), 1);
    }
}

/// The Lease says by the API server's clock until when a leader may evict.
#[tokio::test(start_paused = true)]
async fn a_leader_whose_clock_is_slow_makes_the_next_one_wait_as_long() {
    let world = World::with_nodes([]);
    let slow = Clock::starting_at(world.seconds(-3_600).parse().unwrap());
    let first = limited().start(world.client(), &slow);
    world.pass(20).await;
    world.evict(5, "n1").await;
    drop(first);
    let _second = world.start_with(limited());
    world.pass(30).await;
    world.node("n2");
    world.pod("late", "n2", For::No);
    world.settle().await;
    world.taint("n2");
    assert!(world.lives_after(500, "late").await);
    assert!(!world.lives_after(300, "late").await);
}

#[tokio::test(start_paused = true)]
async fn a_trickle_stops_at_the_limit_and_goes_on_as_the_window_moves() {
    let world = World::with_nodes([]);
    let controller = world.start_with(limited());
    world.pass(20).await;
    for number in 0..5 {
        world.evict(1, &format!("n{number}")).await;
        world.pass(56).await;
    }
    world.node("late");
    world.pod("late", "late", For::No);
    world.settle().await;
    world.taint("late");
    // The first went ten minutes before.
    world.pass(290).await;
    assert!(world.lives("late"));
    assert_eq!(controller.metric(DELETIONS), 5);
    assert!(!world.lives_after(20, "late").await);
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_nodes_counts_the_nodes_of_what_is_due() {
    let world = World::with_nodes(["a", "b", "c"]);
    for node in ["a", "b", "c"] {
        world.pods(10, node, For::No);
    }
    let two = |config: &mut ConfigOf<TaintEvictionController>| {
        // Of three nodes.
        config.eviction_brake_nodes = Some("67%".to_owned());
    };
    let _controller = world.start_with(process().elected_as("a").configured(two));
    world.pass(20).await;
    world.taint("a");
    world.taint("b");
    world.pass(4).await;
    assert_eq!(world.alive(), 10);
    world.taint("c");
    world.pass(300).await;
    assert_eq!(world.alive(), 10);
}

#[tokio::test(start_paused = true)]
async fn an_exempt_taint_never_waits_and_does_not_count() {
    let world = World::with_pods(20, For::No);
    world.pods(5, "n2", For::No);
    world.node("n2");
    let exempt = limited().configured(|config| config.eviction_brake_exempt_taints = Some("k".to_owned()));
    let _controller = world.start_with(exempt);
    world.pass(20).await;
    world.taint("n");
    world.settle().await;
    assert_eq!(world.alive(), 5);
    world.set_taints("n2", json!([{ "key": "other", "effect": "NoExecute" }]));
    world.pass(4).await;
    assert_eq!(world.alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_person_lets_all_go_by_an_annotation() {
    let world = World::with_pods(6, For::No);
    let controller = world.start_with(limited());
    world.pass(20).await;
    world.taint("n");
    world.pass(60).await;
    world.annotate("eviction-brake-off-until", &world.seconds(25 * 3600));
    world.pass(60).await;
    assert_eq!(world.alive(), 6, "more than a day ahead");
    assert_eq!(world.count_events("BrakeAnnotationRefused"), 1);
    world.annotate("eviction-brake-off-until", &world.seconds(3600));
    world.pass(8).await;
    assert_eq!(world.alive(), 0);
    assert_eq!(controller.metric(ENGAGED), 0);
    assert_eq!(world.count_events("BrakeReleased"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_hold_ends_by_itself_where_the_flag_says_so() {
    let world = World::with_pods(6, For::No);
    let _controller = world.start_with(released_after(900));
    world.pass(20).await;
    world.taint("n");
    world.pass(899).await;
    assert_eq!(world.alive(), 6);
    world.pass(10).await;
    assert_eq!(world.alive(), 0);
}

/// What is due once the demand has fallen is another matter.
#[tokio::test(start_paused = true)]
async fn a_hold_that_ended_by_itself_lets_no_later_mistake_go() {
    let world = World::with_pods(6, For::No);
    let _controller = world.start_with(released_after(900));
    world.pass(20).await;
    world.taint("n");
    assert_eq!(world.alive_after(910).await, 0);
    world.node("later");
    world.pods(6, "later", For::No);
    // What has gone counts no more.
    world.pass(601).await;
    world.taint("later");
    assert_eq!(world.alive_after(899).await, 6);
}

#[tokio::test(start_paused = true)]
async fn each_pod_has_been_due_for_two_seconds_before_it_goes() {
    let world = World::with_nodes(["a", "b", "c"]);
    world.pods(1, "a", For::No);
    world.pods(3, "b", For::No);
    world.pods(4, "c", For::No);
    let _controller = world.start_with(limited());
    world.pass(20).await;
    world.taint("a");
    world.clock.sleep(Duration::from_millis(1_900)).await;
    world.taint("b");
    world.clock.sleep(Duration::from_millis(200)).await;
    world.taint("c");
    assert_eq!(world.alive_after(600).await, 7);
}

#[tokio::test(start_paused = true)]
async fn the_lease_and_each_node_have_an_event() {
    let world = World::with_nodes(["a", "b"]);
    world.pods(4, "a", For::No);
    world.pods(4, "b", For::No);
    let _controller = world.start_with(limited());
    world.pass(20).await;
    world.taint("a");
    world.taint("b");
    world.pass(60).await;
    let note = "Warning BrakeEngaged The brake holds evictions back: 8 pods of 2 nodes are due or were evicted within \
                10m, and the limit is 5 pods";
    let told: Vec<_> = world
        .events()
        .into_iter()
        .filter(|event| event.contains("BrakeEngaged"))
        .collect();
    assert_eq!(
        told,
        ["a", "b", "taint-eviction-controller"].map(|object| format!("{object} {note}"))
    );
    assert!(world.annotation("eviction-brake-engaged-since").is_some());
    world.untaint("a");
    world.pass(8).await;
    assert_eq!(world.annotation("eviction-brake-engaged-since"), None);
}

/// The next leader cannot know how many the one before has evicted, and waits for one window.
#[tokio::test(start_paused = true)]
async fn a_new_leader_waits_until_nothing_that_another_evicted_counts() {
    let world = World::with_nodes([]);
    let first = world.start_with(limited());
    world.pass(20).await;
    world.evict(3, "n1").await;
    drop(first);
    let second = process()
        .elected_as("b")
        .configured(|config| config.eviction_brake_pods = Some("5".to_owned()));
    let _second = world.start_with(second);
    world.pass(20).await;
    world.node("n2");
    world.pods(3, "n2", For::No);
    world.settle().await;
    world.taint("n2");
    world.pass(600).await;
    assert_eq!(world.alive(), 3);
    world.pass(95).await;
    assert_eq!(world.alive(), 0);
}

/// It holds back what is too much, also where others evicted, and waits as long for what is left.
#[tokio::test(start_paused = true)]
async fn a_new_leader_that_holds_back_forgets_no_eviction_of_another() {
    let world = World::with_nodes(["n2"]);
    let first = world.start_with(limited());
    world.pass(20).await;
    world.evict(3, "n1").await;
    drop(first);
    world.pods(6, "n2", For::No);
    let second = process()
        .elected_as("b")
        .configured(|config| config.eviction_brake_pods = Some("5".to_owned()));
    let _second = world.start_with(second);
    world.pass(20).await;
    world.taint("n2");
    world.pass(20).await;
    assert!(world.annotation("eviction-brake-engaged-since").is_some());
    (0..3).for_each(|number| world.delete(&format!("n2-000{number}")));
    world.pass(580).await;
    assert_eq!(world.alive(), 3);
    world.pass(95).await;
    assert_eq!(world.alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_after_a_quiet_one_need_not_wait() {
    let world = World::with_nodes([]);
    let first = world.start_with(limited());
    world.pass(20).await;
    world.evict(3, "n1").await;
    world.pass(700).await;
    first.stop().await;
    let _second = world.start_with(limited());
    world.pass(20).await;
    world.evict(5, "n2").await;
}

#[tokio::test(start_paused = true)]
async fn without_an_election_each_start_waits_for_one_window() {
    let world = World::with_pods(3, For::No);
    world.taint("n");
    let alone = process().configured(|config| config.eviction_brake_pods = Some("5".to_owned()));
    let _controller = world.start_with(alone);
    world.pass(599).await;
    assert_eq!(world.alive(), 3);
    world.pass(10).await;
    assert_eq!(world.alive(), 0);
}

/// Before anything goes, the Lease says so.
#[tokio::test(start_paused = true)]
async fn nothing_goes_while_the_lease_cannot_be_read_or_written() {
    for verb in [RequestVerb::Get, RequestVerb::Update] {
        let world = World::with_pods(3, For::No);
        let _controller = world.start_with(limited());
        world.pass(20).await;
        let agent = move |request: &embedded_apiserver::RecordedRequest| {
            let is_note = !request.body["metadata"]["annotations"].is_null();
            request.verb == verb && request.resource == "leases" && (verb == RequestVerb::Get || is_note)
        };
        world.fail_those(
            usize::MAX,
            agent,
            Fault::Status {
                code: 403,
                reason: "Forbidden".into(),
                retry_after: None,
            },
        );
        world.taint("n");
        world.pass(300).await;
        assert_eq!(world.alive(), 3, "{verb:?}");
    }
}

/// A delete whose answer is lost may have been carried out.
#[tokio::test(start_paused = true)]
async fn a_delete_without_an_answer_counts_once_the_pod_is_gone() {
    let world = World::with_pods(5, For::No);
    let controller = world.start_with(limited());
    world.pass(20).await;
    world.fail_next(5, RequestVerb::Delete, "pods", Fault::DropAfterEffect);
    world.taint("n");
    world.pass(60).await;
    assert_eq!(world.alive(), 0);
    world.node("n2");
    world.pod("late", "n2", For::No);
    world.settle().await;
    world.taint("n2");
    assert!(world.lives_after(60, "late").await);
    assert_eq!(controller.metric(ENGAGED), 1);
}
