//! What the tests of controllers need.
//!
//! [`Start`] runs a process of a controller inside the test: what `main` assembles, on a client and a clock of the test.
//! [`Replica`] runs its binary next to a real API server. Both panic if the process cannot start: a test fails by
//! panicking. [`world::World`] and [`cluster::Cluster`] are their surroundings.
//!
//! A module uses those below it; no two use each other:
//!
//! ```text
//! stories                        stories next to the embedded and a real API server
//! seeded_bugs · history · world  histories and their bugs; tests next to the embedded API server
//! sim · scripted · surface       the loop alone; an informer alone; the binary alone
//! process                        a controller inside the test
//! upgrades · rivals · preflight  hand-overs of binaries; the built-in loop next to ours, and before
//! admission · silence            refused requests; requests without an answer
//! cluster · large_cluster        binaries next to a real API server, and next to a large cluster
//! fault_history                  steps and faults of a world, drawn from a seed
//! chart                          the permissions that a chart grants
//! permissions · policies         allowed and used; refused nevertheless
//! audit · replica · kinds        requests of all; a binary; objects of an API server
//! account · scrape · objects     names, numbers, fields
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::missing_panics_doc,
    reason = "only tests use it: they fail by panicking, and one prints a history"
)]

mod account;
mod admission;
pub mod audit;
pub mod chart;
pub mod cluster;
pub mod encodings;
pub mod fault_history;
pub mod history;
mod kinds;
pub mod large_cluster;
pub mod objects;
pub mod past;
pub mod permissions;
pub mod policies;
pub mod preflight;
mod process;
pub mod proxy;
mod replica;
mod rivals;
mod scrape;
pub mod scripted;
pub mod seeded_bugs;
pub mod silence;
pub mod sim;
pub mod stories;
pub mod surface;
mod surroundings;
pub mod upgrades;
pub mod world;

pub use process::{ConfigOf, Ran, RunController, Running, Start, run_of};
pub use replica::{Pulse, QUICK_LEASE, Replica, SOON, soon};

/// Selects `all` in [`long_or_short`].
const LONG_TESTS: &str = "LONG_TESTS";

/// Chooses the length of a test that gains from length, or how strict it is about time: `all` if `$LONG_TESTS` is set,
/// as every night, else `some`, which suits a machine with other tests to run.
pub fn long_or_short<T>(all: T, some: T) -> T {
    if std::env::var_os(LONG_TESTS).is_some() {
        all
    } else {
        some
    }
}
