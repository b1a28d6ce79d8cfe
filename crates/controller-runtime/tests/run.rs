//! The driver, with the dimmer on the embedded API server under paused time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::marker::PhantomData;
use std::time::Duration;

use controller_core::app::Failure;
use controller_core::cache::{SourceEvent, View, Wire};
use controller_core::config::CommonConfig;
use controller_runtime::api::limits::{Limits, Permits};
use controller_runtime::clock::Clock;
use controller_runtime::driver::{Env, Sources};
use controller_runtime::informer::{ListWatch, Source};
use controller_runtime::metrics::{Build, Metrics, encode};
use controller_runtime::shutdown::Trigger;
use controller_runtime::{driver, shutdown};
use controller_testing::Start;
use controller_testing::sim::START;
use embedded_apiserver::{Fault, RequestVerb, Resource, Server};
use serde_json::json;

use self::dimmer::Dimmer;

#[path = "../../controller-core/examples/dimmer.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a binary")]
mod dimmer;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

static CONFIGMAPS: Resource = Resource::namespaced("", "v1", "ConfigMap", "configmaps");

struct World {
    server: Server,
    clock: Clock,
    metrics: Metrics,
    stop: Trigger,
    env: Env,
}

impl World {
    fn new(limits: Limits, dry_run: bool) -> Self {
        let server = Server::starting_at(START);
        server.serve(&CONFIGMAPS);
        let clock = Clock::starting_at(START);
        let build = Build {
            version: "test",
            commit: "test",
        };
        let metrics = Metrics::new(build).unwrap();
        let (stop, shutdown) = shutdown::channel();
        let permits = Permits::new(limits, &clock);
        let env = Env::new(
            server.client(),
            permits,
            clock.clone(),
            &metrics,
            dry_run,
            shutdown,
        );
        Self {
            server,
            clock,
            metrics,
            stop,
            env,
        }
    }

    fn with_lamp(wanted: u8) -> Self {
        let world = Self::new(Limits { qps: 0.0, burst: 0 }, false);
        world.add("lamp", wanted);
        world
    }

    fn add(&self, name: &str, wanted: u8) {
        let lamp = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "ns", "name": name},
            "data": {"wanted": wanted.to_string(), "shines": "0"},
        });
        self.server.insert(lamp).unwrap();
    }

    fn want(&self, wanted: u8) {
        let edit = |lamp: &mut serde_json::Value| lamp["data"]["wanted"] = wanted.to_string().into();
        self.server.edit(&CONFIGMAPS, "ns", "lamp", edit).unwrap();
    }

    fn shines(&self) -> String {
        let lamp = self.server.get(&CONFIGMAPS, "ns", "lamp").unwrap();
        lamp["data"]["shines"].as_str().unwrap().to_owned()
    }

    fn patches(&self) -> usize {
        let requests = self.server.requests();
        requests
            .iter()
            .filter(|request| request.verb == RequestVerb::Patch)
            .count()
    }

    async fn run(&self) -> Result<(), Failure> {
        driver::run::<Dimmer>(CommonConfig::default(), self.env.clone()).await
    }

    /// Runs the dimmer for this time.
    async fn run_for(&self, time: Duration) {
        let ended = tokio::time::timeout(time, self.run()).await;
        assert!(ended.is_err(), "it has ended");
    }

    fn metric(&self, line: &str) -> bool {
        encode(self.metrics.registry())
            .unwrap()
            .lines()
            .any(|known| known == line)
    }
}

#[tokio::test(start_paused = true)]
async fn each_step_is_one_request_and_a_change_wakes() {
    let world = World::with_lamp(2);
    let others = async {
        world.clock.sleep(SECOND).await;
        assert_eq!((world.shines().as_str(), world.patches()), ("2", 2));
        world.want(1);
        world.clock.sleep(SECOND).await;
        assert_eq!((world.shines().as_str(), world.patches()), ("1", 3));
        // No further write comes, even much later.
        world.clock.sleep(3600 * SECOND).await;
        assert_eq!(world.patches(), 3);
        world.stop.advance();
    };
    let (ended, ()) = futures::join!(world.run(), others);
    ended.unwrap();
    assert!(world.metric("workqueue_depth{name=\"dimmer\"} 0"));
    assert!(world.metric("workqueue_retries_total{name=\"dimmer\"} 0"));
}

#[tokio::test(start_paused = true)]
async fn requests_keep_to_the_limit_of_the_process() {
    let world = World::new(Limits { qps: 1.0, burst: 2 }, false);
    world.add("lamp", 5);
    world.run_for(2_500 * MS).await;
    // Two permits at once, then one a second. The informer's list is a watch, which needs no permit.
    assert_eq!(world.shines(), "4");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_writes_nothing_and_counts_once() {
    let world = World::new(Limits { qps: 0.0, burst: 0 }, true);
    let others = async {
        world.clock.sleep(SECOND).await;
        assert!(world.metric("controller_planned_writes_total{action=\"dim\"} 0"));
        world.add("lamp", 5);
        world.clock.sleep(SECOND).await;
        world.want(4);
        world.clock.sleep(SECOND).await;
        assert!(world.metric("controller_planned_writes_undone 0"));
    };
    let (ended, ()) = futures::join!(tokio::time::timeout(311 * SECOND, world.run()), others);
    assert!(ended.is_err());
    assert_eq!(world.patches(), 0);
    assert!(world.metric("controller_planned_writes_total{action=\"dim\"} 1"));
    assert!(world.metric("controller_planned_writes_undone 1"));
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_is_counted_and_retried() {
    let world = World::with_lamp(1);
    world
        .server
        .fail_next(2, |request| request.verb == RequestVerb::Patch, Fault::DropBefore);
    world.run_for(SECOND).await;
    assert_eq!((world.shines().as_str(), world.patches()), ("1", 3));
    assert!(world.metric("controller_sync_failures_total{reason=\"Failed\"} 2"));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_lets_the_pass_under_way_run_to_its_end() {
    let world = World::with_lamp(2);
    let slow = Fault::Delay(5 * SECOND);
    world
        .server
        .fail_next(2, |request| request.verb == RequestVerb::Patch, slow);
    let stop = async {
        world.clock.sleep(SECOND).await;
        world.add("another", 1);
        world.stop.advance();
    };
    let (ended, ()) = futures::join!(world.run(), stop);
    ended.unwrap();
    assert_eq!(world.server.elapsed(), 10 * SECOND);
    assert_eq!((world.shines().as_str(), world.patches()), ("2", 2));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_before_the_caches_are_full_ends_it_at_once() {
    let world = World::with_lamp(2);
    world.server.down();
    let stop = async {
        world.clock.sleep(60 * SECOND).await;
        world.stop.advance();
    };
    let (ended, ()) = futures::join!(world.run(), stop);
    ended.unwrap();
    assert_eq!(world.server.elapsed(), 60 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_leader_looks_at_everything_again_every_hour() {
    let world = World::with_lamp(1);
    let gone = Fault::status(404, "NotFound");
    world
        .server
        .fail_next(2, |request| request.verb == RequestVerb::Patch, gone);
    let others = async {
        world.clock.sleep(3599 * SECOND).await;
        assert_eq!(world.patches(), 1);
        world.clock.sleep(2 * SECOND).await;
        assert_eq!((world.shines().as_str(), world.patches()), ("0", 2));
        world.clock.sleep(3600 * SECOND).await;
        assert_eq!((world.shines().as_str(), world.patches()), ("1", 3));
        world.stop.advance();
    };
    let (ended, ()) = futures::join!(world.run(), others);
    ended.unwrap();
}

/// A watch with a bug.
struct Broken<V>(PhantomData<fn() -> V>);

/// All watches have the bug.
struct AllBroken;

impl Sources for AllBroken {
    fn source<W: Wire>(&self, _: ListWatch<W>) -> impl Source<View = W::View> {
        Broken(PhantomData)
    }
}

impl<V: View> Source for Broken<V> {
    type View = V;

    async fn next(&mut self) -> SourceEvent<V> {
        panic!("expected by this test")
    }
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_panics_ends_it_as_a_failure() {
    let env = World::with_lamp(2).env;
    let run = driver::run_over::<Dimmer>(CommonConfig::default(), env, AllBroken);
    assert_eq!(run.await.unwrap_err().to_string(), "task informer panicked");
}

#[tokio::test(start_paused = true)]
async fn the_example_is_a_binary_and_leaves_what_is_no_lamp() {
    let world = World::with_lamp(2);
    let other =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": "other"}});
    world.server.insert(other).unwrap();
    let dimmer = Start::of::<Dimmer>().start(world.server.client(), &world.clock);
    world.clock.sleep(SECOND).await;
    assert_eq!((world.shines().as_str(), world.patches()), ("2", 2));
    assert_eq!(dimmer.metric("informer_objects"), 1);
    assert_eq!(dimmer.metric("informer_decode_errors_total"), 0);
    dimmer.stop().await;
}

/// The metrics measure each pass that waits for a permit.
#[tokio::test(start_paused = true)]
async fn the_metrics_tell_how_long_passes_waited_for_a_permit() {
    let world = World::with_lamp(5);
    let start = Start::of::<Dimmer>().limits(1.0, 2);
    let dimmer = start.start(world.server.client(), &world.clock);
    world.clock.sleep(10 * SECOND).await;
    assert_eq!((world.shines().as_str(), world.patches()), ("5", 5));
    // Two at once, then one a second; each pass queued for its permit after the answer to the previous one.
    let waits = |what: &str| {
        let name =
            format!("rest_client_rate_limiter_duration_seconds_{what}{{host=\"test\",verb=\"PATCH\"}} ");
        let text = dimmer.scrape();
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        line.unwrap().to_owned()
    };
    assert_eq!(waits("count"), "5");
    let seconds: f64 = waits("sum").parse().unwrap();
    assert!((2.9..3.1).contains(&seconds), "{seconds}");
    dimmer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_whose_metrics_are_taken_ends_it_as_a_failure() {
    let world = World::with_lamp(2);
    world.run_for(SECOND).await;
    let failure = world.run().await.unwrap_err();
    assert_eq!(
        failure.to_string(),
        "Duplicate metrics collector registration attempted"
    );
}
