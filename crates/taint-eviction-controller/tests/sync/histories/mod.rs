//! Histories drawn from seeds: `cargo xtask fault --suite taint-eviction-controller --seed N` repeats one.
//!
//! ```text
//! steps ── world ── ledger     what happens, drawn; taken; written down, and what the rules make of it
//! suite ── sabotage            what must have become of the pods; bugs that must show
//! ```

mod ledger;
mod sabotage;
mod steps;
mod suite;
mod world;

use harness::run_of;
use taint_eviction_controller::TaintEvictionController;

use suite::Pods;

harness::histories!(Pods::new(run_of::<TaintEvictionController>()));
