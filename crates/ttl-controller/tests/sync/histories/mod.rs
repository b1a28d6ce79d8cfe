//! Histories drawn from seeds: `cargo xtask fault --suite ttl-controller --seed N` repeats one.

mod sabotage;
mod suite;

use controller_core::runtime::App;
use futures::FutureExt;
use harness::history;
use ttl_controller::TtlController;

use suite::Nodes;

const SOUND: Nodes = Nodes {
    run: |config, env| TtlController::run(config, env).boxed(),
};

#[test]
fn every_history_ends_as_it_would_without_its_faults() {
    history::assert_sound(&SOUND);
}

#[test]
#[ignore = "prints: cargo xtask fault"]
fn tell() {
    history::tell(&SOUND);
}

#[test]
fn a_seed_gives_the_same_requests_every_time() {
    history::assert_repeatable(&SOUND);
}
