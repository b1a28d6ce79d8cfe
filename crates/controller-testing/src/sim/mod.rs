//! A controller's loop against a model of the API server: requests arrive late or never, answers get lost, watches lag
//! and are listed anew, terms end, processes crash. Everything is a value, so a run needs no time and no task.
//!
//! [`run`] takes the steps of a run and checks two properties after each of them, for every controller:
//!
//! - *requeue completeness*: a change that alters `reconcile(key)` enqueues the key;
//! - *done contract*: once nothing is left to do, every key says so, comes back at the time that it names, and says the
//!   same until then.
//!
//! [`run_among`] is a run of several processes: a standby, whose term another one may take, or one in dry run, which
//! must send no write. [`run_through`] is one long run of one process.
//!
//! [`assert_sound`] takes every run within bounds, the shortest first.
//!
//! At the end, everything in flight has arrived, and the model checks its world.

mod bounds;
mod explore;
mod failure;
mod flying;
mod model;
mod permits;
mod phrased;
mod planted;
mod process;
mod properties;
mod resource;
mod run;
mod settle;
mod trace;

pub use self::bounds::Bounds;
pub use self::explore::Explored;
pub use self::failure::SimFailure;
pub use self::model::{
    KeyOf, Model, ModelAnswerOf, NOW, Op, START, StepOf, conflict, deleted_before, failed, gone, op, ops,
    runs,
};
pub use self::permits::{NoPermits, Unlimited};
pub use self::phrased::{server, stored};
pub use self::process::{Process, ProcessBug, Role};
pub use self::resource::{SimObject, SimResource, Watch, accepted, decoded, observed};
pub use self::run::{Sim, run, run_among, run_through};
pub use self::trace::{assert_drawn, assert_found, assert_sound};
