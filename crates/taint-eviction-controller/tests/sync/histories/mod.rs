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

use controller_core::runtime::App;
use futures::FutureExt;
use harness::history;
use taint_eviction_controller::TaintEvictionController;

use suite::Pods;

fn sound() -> Pods {
    Pods::new(|config, env| TaintEvictionController::run(config, env).boxed())
}

#[test]
fn every_history_ends_as_it_would_without_its_faults() {
    history::assert_sound(&sound());
}

#[test]
#[ignore = "prints: cargo xtask fault"]
fn tell() {
    history::tell(&sound());
}

#[test]
fn a_seed_gives_the_same_requests_every_time() {
    history::assert_repeatable(&sound());
}
