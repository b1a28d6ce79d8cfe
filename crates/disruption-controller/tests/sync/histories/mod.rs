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
use testkit::history::{self, first_failure, seeds_to_run};

use suite::Budgets;

/// How many seeds a run of the tests tries; `$FAULT_SEEDS` asks for others.
const SEEDS: u64 = 200;

fn sound() -> Budgets {
    Budgets::new(|config, env| DisruptionController::run(config, env).boxed())
}

#[test]
fn every_history_ends_as_it_would_without_its_faults() {
    if let Some(failure) = first_failure(&sound(), seeds_to_run(SEEDS).unwrap()) {
        panic!("{failure}");
    }
}

#[test]
#[ignore = "prints: cargo xtask fault"]
#[allow(clippy::print_stdout, reason = "what it prints is its result")]
fn tell() {
    let mut failed = Vec::new();
    for seed in seeds_to_run(1).unwrap() {
        let report = history::report(&sound(), seed);
        println!("{report}");
        failed.extend(report.failure.map(|failure| failure.seed));
    }
    assert_eq!(failed, Vec::<u64>::new(), "these seeds fail");
}

#[test]
fn a_seed_gives_the_same_requests_every_time() {
    for seed in 0..5 {
        let first = history::report(&sound(), seed);
        let second = history::report(&sound(), seed);
        assert_eq!(first.timeline, second.timeline);
        assert!(first.run.requests.len() > 50, "{first}");
        for (number, (a, b)) in first
            .run
            .requests
            .iter()
            .zip(second.run.requests.iter())
            .enumerate()
        {
            assert_eq!(a, b, "request {number} of seed {seed}");
        }
        assert_eq!(first.run.requests.len(), second.run.requests.len());
    }
}
