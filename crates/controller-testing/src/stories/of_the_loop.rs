//! Stories that the loop owns: they hold for every controller, and are written here alone.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Duration;

use controller_core::app::App;
use controller_core::config::ControllerConfig;
use embedded_apiserver::{Fault, RecordedRequest, RecordedRequests, RequestVerb};
use serde_json::json;

use crate::fault_history::refusals;
use crate::process::{ConfigOf, Running, Start};
use crate::world;

/// The namespace of all stories that have one tenant.
const HOME: &str = "default";
/// The namespace of a tenant whose writes are answered.
const OTHER: &str = "other";
/// Within which another tenant has what it needs.
const AT_MOST: Duration = Duration::from_secs(2);

/// What the stories of the loop need to know of a controller: it has one decisive write about each of many things.
pub trait LoopScene: 'static {
    type App: App<Config: Default>;
    type World: Deref<Target = world::World<ConfigOf<Self::App>>>;

    /// Verb and resource of the decisive write.
    const WRITE: (RequestVerb, &'static str);
    /// How many things are done with a tenth of a request a second, and within how many seconds.
    const SLOW: (usize, u64);
    /// The writes that a dry run plans for the [`occasions`](Self::occasions), by action, in the order of the names.
    const PLANNED: &'static [(&'static str, u64)];

    /// A decisive write that is answered with 404 means that the thing is gone.
    const IS_GONE_BY_404: bool = true;

    /// A decisive write whose answer is lost is not repeated before its object has been read; others name the version
    /// for which they are, or the uid.
    const READS_BEFORE_IT_REPEATS: bool = false;

    /// A world in which each thing can be made.
    fn world() -> Self::World;

    /// Makes the thing of this number, about which there is something to write, in a namespace if it has one.
    fn make(world: &Self::World, namespace: &str, number: usize);

    /// Returns whether the decisive write about a thing has been carried out.
    fn is_done(world: &Self::World, namespace: &str, number: usize) -> bool;

    /// Makes an occasion for each action of the controller.
    fn occasions(world: &Self::World) -> impl Future<Output = ()>;
}

/// The tests of the stories that the loop owns, for the scene of a controller.
#[macro_export]
macro_rules! loop_stories {
    ($scene:ty) => {
        $crate::loop_stories!($scene:
            a_429_is_waited_out_as_long_as_it_says,
            a_5xx_is_retried_and_nothing_is_forgotten,
            a_write_whose_answer_is_lost_is_not_repeated_once_it_took_effect,
            a_write_that_never_arrived_is_made_again,
            what_was_wrongly_said_to_be_gone_is_written_within_the_hour,
            a_tenth_of_a_request_a_second_is_slow_and_never_stuck,
            a_dry_run_shows_each_action_before_it_plans_one_and_writes_nothing_at_all,
            a_standby_writes_nothing_until_it_leads,
            only_the_leader_writes_and_its_successor_goes_on,
            a_stopped_controller_finishes_the_write_under_way,
            closed_watches_are_opened_again_without_a_relist,
            a_compaction_leads_to_a_relist_and_nothing_is_missed,
        );
    };
    ($scene:ty: $($story:ident),* $(,)?) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $story() {
                $crate::stories::LoopStory::<$scene>::new().$story().await;
            }
        )*
    };
}

/// Tests that writes of one tenant which fail keep no other tenant waiting, for the scene of a controller and this many
/// things of the one.
#[macro_export]
macro_rules! tenant_story {
    ($scene:ty, $held:expr) => {
        #[tokio::test(start_paused = true)]
        async fn writes_of_one_tenant_that_fail_keep_no_other_waiting() {
            $crate::stories::writes_of_one_tenant_that_fail_keep_no_other_waiting::<$scene>($held).await;
        }
    };
}

/// A story of the loop at its beginning.
pub struct LoopStory<S: LoopScene> {
    world: S::World,
}

impl<S: LoopScene<App: 'static>> LoopStory<S> {
    #[allow(clippy::new_without_default, reason = "it begins a story")]
    pub fn new() -> Self {
        Self { world: S::world() }
    }

    fn process(&self) -> Start<ConfigOf<S::App>> {
        self.world.process()
    }

    fn elected(&self, identity: &str) -> Start<ConfigOf<S::App>> {
        self.process().elected_as(identity)
    }

    fn make(&self, number: usize) {
        S::make(&self.world, HOME, number);
    }

    /// Fails unless the decisive writes about all these things, and no others, have been carried out, each once.
    fn assert_done_once(&self, count: usize) {
        self.assert_done(0..count);
        let accepted = self.decisive();
        let accepted = accepted.only(|write| write.code.is_some_and(|code| code < 300));
        assert_eq!(accepted.len(), count, "{:#?}", accepted.lines());
    }

    fn assert_done(&self, numbers: impl IntoIterator<Item = usize>) {
        let left = numbers.into_iter().filter(|number| !self.is_done(*number));
        assert_eq!(left.collect::<Vec<_>>(), [0_usize; 0], "not done");
    }

    /// Fails if a standby works on anything that was made; it may look at what there is once.
    fn assert_idle(standby: &Running) {
        for metric in ["workqueue_adds_total", "workqueue_work_duration_seconds_count"] {
            assert!(standby.metric(metric) <= 1, "{metric}");
        }
    }

    fn is_done(&self, number: usize) -> bool {
        S::is_done(&self.world, HOME, number)
    }

    fn decisive(&self) -> RecordedRequests {
        self.world.ours().only(is_decisive::<S>)
    }

    fn fail(&self, count: usize, fault: Fault) {
        self.world.fail_those(count, is_decisive::<S>, fault);
    }

    /// The number of lists of what is written. A list of one object asks for the time or for that object.
    fn lists(&self) -> usize {
        let reads = self.world.ours().to(S::WRITE.1);
        let is_of_one = |read: &RecordedRequest| read.query.split('&').any(|part| part == "limit=1");
        let lists = reads.only(|read| read.lists() && !is_of_one(read));
        lists.len()
    }

    pub async fn a_429_is_waited_out_as_long_as_it_says(self) {
        let _controller = self.world.start_and_pass(10).await;
        let retry_after = Duration::from_secs(20);
        let status = Fault::Status {
            code: 429,
            reason: "TooManyRequests".into(),
            retry_after: Some(retry_after),
        };
        self.fail(1, status);
        // As API Priority and Fairness answers.
        self.fail(1, Fault::Throttled { retry_after });
        self.make(0);
        let begun = self.world.clock.instant();
        self.world.until(|| self.decisive().len() >= 3).await;
        let waited = self.world.clock.instant() - begun;
        assert!(
            (Duration::from_secs(40)..Duration::from_secs(42)).contains(&waited),
            "waited {waited:?}"
        );
        self.world.pass(1).await;
        self.assert_done_once(1);
        assert_eq!(self.decisive().len(), 3);
    }

    pub async fn a_5xx_is_retried_and_nothing_is_forgotten(self) {
        (0..20).for_each(|number| self.make(number));
        self.fail(50, Fault::status(500, "InternalError"));
        let _controller = self.world.start_and_pass(3600).await;
        self.assert_done_once(20);
    }

    pub async fn a_write_whose_answer_is_lost_is_not_repeated_once_it_took_effect(self) {
        if S::READS_BEFORE_IT_REPEATS {
            // The watch shows the effect too late to tell.
            self.world.lag(S::WRITE.1, 5);
        }
        let _controller = self.world.start_and_pass(10).await;
        self.fail(1, Fault::DropAfterEffect);
        self.make(0);
        self.world.pass(600).await;
        self.assert_done([0]);
        assert_eq!(self.decisive().len(), 1);
    }

    pub async fn a_write_that_never_arrived_is_made_again(self) {
        let _controller = self.world.start_and_pass(10).await;
        self.fail(1, Fault::DropBefore);
        self.make(0);
        self.world.pass(60).await;
        self.assert_done_once(1);
    }

    pub async fn what_was_wrongly_said_to_be_gone_is_written_within_the_hour(self) {
        let _controller = self.world.start_and_pass(10).await;
        self.fail(1, Fault::status(404, "NotFound"));
        self.make(0);
        self.world.pass(3500).await;
        assert_eq!(self.is_done(0), !S::IS_GONE_BY_404);
        self.world.pass(200).await;
        self.assert_done_once(1);
    }

    pub async fn a_tenth_of_a_request_a_second_is_slow_and_never_stuck(self) {
        let (count, seconds) = S::SLOW;
        (0..count).for_each(|number| self.make(number));
        let controller = self.world.start_with(self.process().limits(0.1, 1));
        self.world.pass(seconds).await;
        self.assert_done_once(count);
        assert_eq!(controller.metric("controller_sync_failures_total"), 0);
    }

    pub async fn a_dry_run_shows_each_action_before_it_plans_one_and_writes_nothing_at_all(self) {
        let dry = || {
            // A standby: it takes no Lease.
            let dry = self.elected("dry");
            let dry = dry.configured(|config| config.common_mut().dry_run = true);
            self.world.start_with(dry)
        };
        let planned = |count: fn(u64) -> u64| -> Vec<(String, u64)> {
            let each = S::PLANNED.iter();
            each.map(|(action, planned)| ((*action).to_owned(), count(*planned)))
                .collect()
        };
        let first = dry();
        self.world.pass(10).await;
        assert_eq!(first.planned(), planned(|_| 0));
        drop(first);
        S::occasions(&self.world).await;
        let before = self.world.all_writes();
        let second = dry();
        self.world.pass(600).await;
        assert_eq!(self.world.all_writes(), before);
        assert_eq!(second.planned(), planned(|planned| planned));
        // What comes later is planned as well.
        self.make(1);
        self.world.pass(600).await;
        assert_eq!(self.world.all_writes(), before);
        let all: u64 = S::PLANNED.iter().map(|(_, planned)| planned).sum();
        assert!(second.metric("controller_planned_writes_total") > all);
    }

    pub async fn a_standby_writes_nothing_until_it_leads(self) {
        (0..3).for_each(|number| self.make(number));
        self.world.lease_held_by("somebody-else");
        let mark = self.world.server.mark();
        let standby = self.world.start_with(self.elected("us"));
        self.world.pass(10).await;
        assert_eq!(self.world.sent_since(mark).lines(), Vec::<String>::new());
        assert!(standby.metric("informer_objects") >= 3, "its caches are full");
        Self::assert_idle(&standby);
        self.world.pass(60).await;
        self.assert_done_once(3);
    }

    pub async fn only_the_leader_writes_and_its_successor_goes_on(self) {
        let first = self.world.start_with(self.elected("first"));
        self.world.pass(10).await;
        let second = self.world.start_with(self.elected("second"));
        self.world.pass(60).await;
        (0..3).for_each(|number| self.make(number));
        self.world.pass(1).await;
        self.assert_done_once(3);
        assert_eq!(self.decisive().len(), 3);
        Self::assert_idle(&second);
        first.stop().await;
        self.make(3);
        self.world.pass(5).await;
        self.assert_done_once(4);
        assert_eq!(self.world.lease_holder().as_deref(), Some("second"));
    }

    pub async fn a_stopped_controller_finishes_the_write_under_way(self) {
        let controller = self.world.start_and_pass(10).await;
        self.fail(1, Fault::Delay(Duration::from_secs(5)));
        self.make(0);
        self.world.pass(1).await;
        assert!(!self.is_done(0));
        controller.stop().await;
        self.assert_done_once(1);
    }

    pub async fn closed_watches_are_opened_again_without_a_relist(self) {
        let _controller = self.world.start_and_pass(10).await;
        for number in 0..5 {
            self.world.server.close_watches();
            self.make(number);
            self.world.pass(60).await;
            self.assert_done_once(number + 1);
        }
        assert_eq!(self.lists(), 1);
    }

    pub async fn a_compaction_leads_to_a_relist_and_nothing_is_missed(self) {
        let _controller = self.world.start_and_pass(10).await;
        self.make(0);
        self.world.pass(10).await;
        self.world.server.down();
        self.world.pass(10).await;
        self.make(1);
        self.world.server.compact();
        self.world.server.up();
        self.world.pass(120).await;
        self.assert_done(0..2);
        assert_eq!(self.lists(), 2);
    }
}

fn is_decisive<S: LoopScene>(request: &RecordedRequest) -> bool {
    request.verb == S::WRITE.0 && request.resource == S::WRITE.1
}

/// Fails unless another tenant is served at once while all writes of `held` things of one meet each kind of refusal:
/// from the first tries on, and when they have been tried again.
pub async fn writes_of_one_tenant_that_fail_keep_no_other_waiting<S: LoopScene<App: 'static>>(held: usize) {
    let mut late = BTreeMap::new();
    for fault in refusals() {
        for after in [1, 20, 100, 305] {
            let world = S::world();
            world.insert(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": OTHER } }));
            world.fail_in(HOME, &fault);
            (0..held).for_each(|number| S::make(&world, HOME, number));
            let _controller = world.start_with(world.process().limits(50.0, 100));
            world.pass(after).await;
            S::make(&world, OTHER, 0);
            world.clock.sleep(AT_MOST).await;
            if !S::is_done(&world, OTHER, 0) {
                late.insert(format!("{fault:?}"), after);
            }
        }
    }
    assert_eq!(late, BTreeMap::new(), "late after so many seconds");
}
