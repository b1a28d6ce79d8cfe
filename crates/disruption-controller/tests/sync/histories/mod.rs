//! Histories drawn from seeds: `cargo xtask fault --suite disruption-controller --seed N` repeats one.
//!
//! ```text
//! steps ── world              what happens, drawn; taken
//! ledger ── tap               what the rules make of what there is; what a process was shown of it
//! suite ── sabotage           what may be written, and what must have been; bugs that must show
//! ```

mod ledger;
mod sabotage;
mod steps;
mod suite;
mod tap;
mod world;

use controller_core::runtime::App;
use disruption_controller::DisruptionController;
use futures::FutureExt;
use harness::history;

use suite::Budgets;

fn sound() -> Budgets {
    Budgets::new(|config, env| DisruptionController::run(config, env).boxed())
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
