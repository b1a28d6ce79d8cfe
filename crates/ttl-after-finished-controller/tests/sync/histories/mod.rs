//! Histories drawn from seeds: `cargo xtask fault --suite ttl-after-finished-controller --seed N` repeats one.

mod ledger;
mod sabotage;
mod suite;

use controller_core::runtime::App;
use futures::FutureExt;
use harness::history;
use ttl_after_finished_controller::TtlAfterFinishedController;

use suite::Jobs;

fn sound() -> Jobs {
    Jobs::new(|config, env| TtlAfterFinishedController::run(config, env).boxed())
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
