//! Seeded fault histories: what happens in a world and what goes wrong in it, both drawn from one number.
//!
//! A controller's [`Suite`] says what can happen in its world, how its process is run, and what must be true.
//! The rest is here: drawing a [`History`] from a seed, running it on the embedded server under paused time,
//! comparing how it ends with how it ends without the faults, and, where it fails, finding the fewest
//! faults that still make it fail.
//!
//! ```text
//! seeds ── draw ── timeline        seed → steps and troubles, each at its time
//!    │        └─── trouble         what can go wrong
//!    ├── run ── fence, refusals    one history from beginning to end
//!    └── shrink ── failure         the fewest steps and troubles; the message
//! ```
//!
//! One seed gives one run, request by request: the generators are `ChaCha8` (whose output is fixed for all
//! time), each run has a runtime, a clock and a server of its own, and what draws from its thread's
//! generator (the waits of kube's watcher) finds it seeded. A seed names a history of one revision of this
//! repository: a new trouble or another step changes what is drawn.

mod draw;
mod drawn_fault;
mod failure;
mod fence;
mod refusals;
mod run;
mod seeds;
mod shrink;
mod timeline;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::oneshot;

use crate::embedded::{Request, Resource, Server};

pub use draw::Draw;
pub use drawn_fault::{DrawnFault, Moment, Which, refusals};
pub use failure::Failure;
pub use run::{Run, run};
pub use seeds::{Report, Shrink, first_failure, report, seeds_to_run};
pub use timeline::{At, History};

/// What is compared at the end: for each object what the suite cares about, in words.
pub type State = BTreeMap<String, String>;

/// What a controller brings to have its fault histories run.
///
/// A suite is a small description that is copied into each run.
pub trait Suite: Clone + Send + Sync + 'static {
    /// A step of the world, e.g. `3 nodes are added`.
    type Action: Clone + fmt::Display + Send + Sync;

    /// The controller's name: its crate, its Lease in `kube-system`, its field manager.
    const NAME: &'static str;
    /// The resources that the controller works on: those whose requests fail.
    const RESOURCES: &'static [&'static Resource];
    /// How long steps are taken and things go wrong.
    const LENGTH: Duration = Duration::from_mins(2);
    /// How long after the last fault everything must have settled.
    const SETTLES_WITHIN: Duration = Duration::from_mins(20);

    /// The suite for another run: what it noted of the last one is not in it.
    #[must_use]
    fn fresh(&self) -> Self {
        self.clone()
    }

    /// Draws the steps of a history, in the order of their times. Those at time zero come before the
    /// controller's start: they furnish the world.
    fn actions(&self, draw: &mut Draw) -> Vec<At<Self::Action>>;

    /// Takes a step. It must bear that earlier steps are missing: a history that is shrunk leaves some out.
    fn act(&self, server: &Server, action: &Self::Action);

    /// Runs one process of the controller until it is asked to stop. Dropping the
    /// future kills the process. An error says why it ended of itself.
    fn process(&self, life: Life) -> impl Future<Output = Result<(), String>> + Send + 'static;

    /// Whether everything is as the rules want it, whatever happened before; an error names the first
    /// thing that is not.
    fn settled(&self, server: &Server, actions: &[At<Self::Action>]) -> Result<(), String>;

    /// What must be the same in the end as without the faults.
    fn state(&self, server: &Server) -> State;

    /// Whether the controller may make this request now; asked at the moment when it is carried out. That a
    /// write is made by the holder of the Lease is checked for all suites.
    fn permits(&self, server: &Server, request: &Request) -> Result<(), String> {
        let _ = (server, request);
        Ok(())
    }

    /// What else must hold of the whole run: how much was written, for example.
    fn afterwards(&self, server: &Server, history: &History<Self::Action>) -> Result<(), String> {
        let _ = (server, history);
        Ok(())
    }
}

/// What a process of the controller is started with.
pub struct Life {
    /// Its identity in the election, another one after each start: `replica-1.2` is the second life of the
    /// first replica. None where nothing goes wrong: it runs without election.
    pub identity: Option<String>,
    /// Its way to the server.
    pub client: kube::Client,
    /// The wall clock at the start.
    pub now: Timestamp,
    /// Completes when the process is asked to stop, as by SIGTERM.
    pub stop: oneshot::Receiver<()>,
}
