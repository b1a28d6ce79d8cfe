//! A controller's loop against a model of the API server: requests arrive late or never, answers get lost, watches lag
//! and are listed anew, terms end, processes crash. Everything is a value, so a run needs no time and no task.
//!
//! [`run`] takes the steps of a run and holds two properties at each of them, for every controller:
//!
//! - *wake completeness*: a change that alters what is to be done for a key wakes it;
//! - *done contract*: where nothing is left to do, every key says so, and comes back at the time that it names, and
//!   says the same until then.
//!
//! [`run_through`] is one long run of one process.
//!
//! In the end everything that was on its way has come, and the model says whether its world is right.

mod flying;
mod model;
mod permits;
mod properties;
mod resource;
mod run;

pub use self::model::{AnswerOf, KeyOf, Model, NOW, Op, START, accepted, conflict, failed, gone, op, ops};
pub use self::permits::{NoPermits, Unlimited};
pub use self::resource::{Object, Resource, Watch, decoded, observed};
pub use self::run::{Sim, run, run_through};
