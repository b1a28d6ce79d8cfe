//! What suites of fault histories share: their tests, and what becomes of objects that a controller deletes at a time.

use std::collections::BTreeMap;

use serde_json::Value;
use testkit::history::{Shrink, State, Suite, first_failure, report, seeds_to_run};

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

/// Whether the API server refuses a write because the object is not the one that was judged: `judged` has its uid, its
/// resourceVersion or neither.
pub fn is_refused(object: &Value, judged: &Value) -> bool {
    let differs = |field: &str| !judged[field].is_null() && judged[field] != object["metadata"][field];
    differs("uid") || differs("resourceVersion")
}

/// What the rules make of an object in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was never due.
    Lives,
    /// It is due for good.
    Goes,
    /// It was due, for so many milliseconds at most, when it was saved: a controller that was held up, or that did not
    /// see, finds it saved.
    MayGo(i64),
}

/// By name what the rules make of each object, and whether it lives.
pub type Ends = BTreeMap<String, (Fate, bool)>;

/// Fails with the first object that should not be there, or should be.
pub fn settled(ends: &Ends) -> Result<(), String> {
    for (name, end) in ends {
        match end {
            (Fate::Goes, true) => return Err(format!("{name} is still there")),
            (Fate::Lives, false) => return Err(format!("{name} is gone")),
            _ => {}
        }
    }
    Ok(())
}

/// What is the same in the end without faults: what saved an object too late, or just in time, depends on what held the
/// controller up.
pub fn state(ends: Ends) -> State {
    let told = |end| match end {
        (Fate::MayGo(_), _) => "lives or is gone",
        (_, true) => "lives",
        (_, false) => "is gone",
    };
    ends.into_iter()
        .map(|(name, end)| (name, told(end).to_owned()))
        .collect()
}
