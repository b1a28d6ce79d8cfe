//! The tests that every suite of fault histories has.

use testkit::history::{Shrink, Suite, first_failure, report, seeds_to_run};

/// How many seeds a run of the tests tries; `$FAULT_SEEDS` asks for others.
const SEEDS: u64 = 50;
/// How many seeds are run twice.
const REPEATED: u64 = 5;
/// A history with fewer requests shows little.
const FEWEST_REQUESTS: usize = 50;

/// The tests of a suite, as its module's own: `harness::histories!(Nodes::new(run_of::<TtlController>()))`.
///
/// `cargo xtask fault` runs `tell`.
#[macro_export]
macro_rules! histories {
    ($sound:expr) => {
        #[test]
        fn every_history_ends_as_it_would_without_its_faults() {
            $crate::history::assert_sound(&$sound);
        }

        #[test]
        #[ignore = "prints: cargo xtask fault"]
        fn tell() {
            $crate::history::tell(&$sound);
        }

        #[test]
        fn a_seed_gives_the_same_requests_every_time() {
            $crate::history::assert_repeatable(&$sound);
        }
    };
}

/// Fails with the first seed whose history ends otherwise than without its faults, shrunk.
pub fn assert_sound(suite: &impl Suite) {
    if let Some(failure) = first_failure(suite, seeds_to_run(SEEDS).unwrap(), Shrink::Everything) {
        panic!("{failure}");
    }
}

/// Fails unless a seed gives the same requests every time.
pub fn assert_repeatable(suite: &impl Suite) {
    for seed in 0..REPEATED {
        let (first, second) = (report(suite, seed), report(suite, seed));
        assert_eq!(first.timeline, second.timeline);
        assert!(first.run.requests.len() > FEWEST_REQUESTS, "{first}");
        let pairs = first.run.requests.iter().zip(second.run.requests.iter());
        for (number, (a, b)) in pairs.enumerate() {
            assert_eq!(a, b, "request {number} of seed {seed}");
        }
        assert_eq!(first.run.requests.len(), second.run.requests.len());
    }
}

/// Prints the history of each seed that `$FAULT_SEEDS` names, for `cargo xtask fault`; fails when one of them does.
pub fn tell(suite: &impl Suite) {
    let mut failed = Vec::new();
    for seed in seeds_to_run(1).unwrap() {
        let report = report(suite, seed);
        println!("{report}");
        failed.extend(report.failure.map(|failure| failure.seed));
    }
    assert_eq!(failed, Vec::<u64>::new(), "these seeds fail");
}
