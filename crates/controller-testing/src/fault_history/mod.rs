//! Seeded fault histories: the steps and faults of a world, both drawn from one number.
//!
//! A controller's [`Suite`] says what can happen in its world, how its process runs, and what must be true. The rest is
//! here: drawing a [`History`] from a seed, running it on the embedded server under paused time, comparing its end with
//! the end without faults, and, if it fails, finding the fewest faults that still make it fail.
//!
//! ```text
//! seeds ── draw ── timeline            seed → steps and faults, each at its time
//!    │        └─── kind                what can go wrong, and how often: drawn_fault, which
//!    ├── run ── fence, refusals        one history from beginning to end
//!    │    └─── strike ── strikes       a fault happens; whether it met anything
//!    └── shrink ── failure ── record   the fewest steps and faults; the message; kept to be run again
//! ```
//!
//! One seed gives one run, request by request: the generators are `ChaCha8` (whose output is fixed for all time), each
//! run has its own runtime, clock and server, and code that draws from its thread's generator (the waits of kube's
//! watcher) finds it seeded. A seed names a history of one revision of this repository: a new fault or another step
//! changes the draws.

mod draw;
mod drawn_fault;
mod failure;
mod fence;
mod kind;
mod record;
mod refusals;
mod run;
mod seeds;
mod shrink;
mod strike;
mod strikes;
mod timeline;
mod which;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::time::Duration;

use controller_runtime::clock::Clock;
use tokio::sync::oneshot;

use embedded_apiserver::{RecordedRequest, Resource, Server};

pub use draw::Draw;
pub use drawn_fault::{DeathPoint, DrawnFault};
pub use failure::FailedSeed;
pub use kind::{FaultKind, refusals};
pub use record::{Recorded, searches};
pub use run::{Run, run};
pub use seeds::{SeedsReport, Shrink, replay, report, search, seeds_to_run};
pub use strikes::Strikes;
pub use timeline::{At, History};
pub use which::Which;

/// The state compared at the end: for each object a description of what the suite cares about.
pub type EndState = BTreeMap<String, String>;

/// The end of an object for which the rules permit more than one. It may be decided in the run without faults.
pub const UNDECIDED: &str = "one of several";

/// A controller's part of its fault histories.
///
/// A suite is a small description that is copied into each run.
pub trait Suite: Clone + Send + Sync + 'static {
    /// A step of the world, e.g. `3 nodes are added`.
    type Action: Clone + fmt::Display + Send + Sync;

    /// The controller's name: its crate, its Lease in `kube-system`, its field manager.
    const NAME: &'static str;
    /// The name of the suite for `cargo xtask fault --suite`.
    const TITLE: &'static str = Self::NAME;
    /// The resources that the controller lists and watches.
    const READS: &'static [&'static Resource];
    /// The resources that the controller writes.
    const WRITES: &'static [&'static Resource];
    /// True if the controller reads single objects past its cache.
    const GETS: bool;
    /// True if nobody else acts between the steps, so that etcd can be set back to the last one.
    const REWINDS: bool;
    /// True if a rival may undo what the controller writes.
    const HAS_RIVAL: bool;
    /// Time in which steps are taken and faults happen.
    const LENGTH: Duration = Duration::from_mins(2);
    /// Time after the last fault by which everything must have settled.
    const SETTLES_WITHIN: Duration = Duration::from_mins(20);
    /// Objects in a hundred, at most, of which the rules need not say how they end.
    const MOST_OPEN: usize = 15;

    /// The suite for another run, without anything it recorded in the last one.
    #[must_use]
    fn fresh(&self) -> Self {
        self.clone()
    }

    /// Draws the steps of a history, in the order of their times. Steps at time zero come before the controller's
    /// start: they set up the world.
    fn actions(&self, draw: &mut Draw) -> Vec<At<Self::Action>>;

    /// Takes a step. Earlier steps may be missing, because a shrunk history leaves some out.
    fn act(&self, server: &Server, action: &Self::Action);

    /// Another writer undoes what the controller has written; returns false if there is nothing to undo.
    fn undo(&self, server: &Server) -> bool;

    /// Runs one process of the controller until it is stopped. Dropping the future kills the process. An error says why
    /// the process ended by itself.
    fn process(&self, life: Life) -> impl Future<Output = Result<(), String>> + Send + 'static;

    /// Checks that everything is as the rules want it, whatever happened before; the error names the first exception.
    fn settled(&self, server: &Server, actions: &[At<Self::Action>]) -> Result<(), String>;

    /// The state that must be the same in the end as without the faults.
    fn state(&self, server: &Server) -> EndState;

    /// Checks that the controller may make this request now; called when the request is carried out. All suites check
    /// in addition that only the holder of the Lease writes.
    fn permits(&self, server: &Server, request: &RecordedRequest) -> Result<(), String> {
        let _ = (server, request);
        Ok(())
    }

    /// Checks the run as a whole, for example the number of writes.
    fn afterwards(&self, server: &Server, history: &History<Self::Action>) -> Result<(), String> {
        let _ = (server, history);
        Ok(())
    }
}

/// The surroundings of a starting process.
pub struct Life {
    /// Its identity in the election, a new one after each start: `replica-1.2` is the second life of the first replica.
    /// `None` in a run without faults: the process runs without election.
    pub identity: Option<String>,
    /// Its client of the server.
    pub client: kube::Client,
    /// Its clock.
    pub clock: Clock,
    /// It runs with `--dry-run`.
    pub dry_run: bool,
    /// Completes when the process must stop, as on SIGTERM.
    pub stop: oneshot::Receiver<()>,
}
