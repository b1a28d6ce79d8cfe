//! Many seeds, and what becomes of one.

use std::fmt;
use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::failure::Failure;
use super::run::{Run, Violation, run};
use super::shrink::fewest;
use super::{History, State, Suite};

/// Names the seeds to run: a number of them, or `FROM..TO`.
const SEEDS: &str = "FAULT_SEEDS";

/// Asks for every request of the controller in what [`report`] prints.
const VERBOSE: &str = "FAULT_VERBOSE";

/// One seed, told in full.
#[derive(Clone, Debug)]
pub struct Report {
    /// The history that it draws, a line each.
    pub timeline: Vec<String>,
    /// How many replicas run.
    pub replicas: usize,
    /// The run.
    pub run: Run,
    /// What is wrong, if something is.
    pub failure: Option<Failure>,
    seed: u64,
}

/// The seeds that `$FAULT_SEEDS` names; the first `otherwise` where it says nothing.
pub fn seeds_to_run(otherwise: u64) -> Result<Range<u64>, String> {
    match std::env::var(SEEDS) {
        Ok(text) => parse(&text).ok_or_else(|| format!("{SEEDS}={text}: neither a number nor FROM..TO")),
        Err(_) => Ok(0..otherwise),
    }
}

fn parse(text: &str) -> Option<Range<u64>> {
    match text.split_once("..") {
        Some((from, to)) => Some(from.trim().parse().ok()?..to.trim().parse().ok()?),
        None => Some(0..text.trim().parse().ok()?),
    }
}

/// Runs the histories of `seeds` on all processors, and shrinks that of the lowest seed that fails.
pub fn first_failure<S: Suite>(suite: &S, seeds: Range<u64>) -> Option<Failure> {
    let next = AtomicU64::new(seeds.start);
    let lowest = AtomicU64::new(seeds.end);
    let search = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= lowest.load(Ordering::Relaxed) {
            return;
        }
        if fault_of(suite, &History::draw(suite, seed)).is_some() {
            lowest.fetch_min(seed, Ordering::Relaxed);
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(search);
        }
    });
    let seed = lowest.into_inner();
    if seed == seeds.end {
        return None;
    }
    let history = History::draw(suite, seed);
    let first = fault_of(suite, &history)?;
    Some(shrunk(suite, &history, &first))
}

/// Runs one seed and tells everything about it.
pub fn report<S: Suite>(suite: &S, seed: u64) -> Report {
    let history = History::draw(suite, seed);
    let failure = fault_of(suite, &history).map(|first| shrunk(suite, &history, &first));
    Report {
        timeline: history.lines(),
        replicas: history.replicas,
        run: run(suite, &history),
        failure,
        seed,
    }
}

/// What is wrong with a history, if something is.
fn fault_of<S: Suite>(suite: &S, history: &History<S::Action>) -> Option<String> {
    match run(suite, &history.without_troubles()).outcome {
        Ok(expected) => difference(suite, history, &expected),
        Err(violation) => Some(without_faults(&violation)),
    }
}

fn difference<S: Suite>(suite: &S, history: &History<S::Action>, expected: &State) -> Option<String> {
    match run(suite, history).outcome {
        Err(violation) => Some(violation.to_string()),
        Ok(state) if state == *expected => None,
        Ok(state) => Some(first_difference(&state, expected)),
    }
}

fn without_faults(violation: &Violation) -> String {
    format!("without any fault {violation}")
}

fn first_difference(state: &State, expected: &State) -> String {
    let name =
        |value: Option<&String>| value.map_or_else(|| "not there".to_owned(), |value| format!("{value:?}"));
    let mut keys: Vec<&String> = state.keys().chain(expected.keys()).collect();
    keys.sort();
    let differs = keys.into_iter().find(|key| state.get(*key) != expected.get(*key));
    differs.map_or_else(String::new, |key| {
        format!(
            "{key} ends as {}, without the faults as {}",
            name(state.get(key)),
            name(expected.get(key))
        )
    })
}

/// The fewest troubles, then the fewest steps with which it still fails.
fn shrunk<S: Suite>(suite: &S, history: &History<S::Action>, first: &str) -> Failure {
    let mut smaller = history.clone();
    if let Ok(expected) = run(suite, &history.without_troubles()).outcome {
        let kept = fewest(history.troubles.len(), |kept| {
            difference(suite, &history.with_troubles(kept), &expected).is_some()
        });
        smaller = history.with_troubles(&kept);
    } else {
        smaller = smaller.without_troubles();
    }
    let kept = fewest(smaller.actions.len(), |kept| {
        fault_of(suite, &smaller.with_actions(kept)).is_some()
    });
    smaller = smaller.with_actions(&kept);
    Failure {
        suite: S::NAME,
        seed: history.seed,
        first: first.to_owned(),
        what: fault_of(suite, &smaller).unwrap_or_default(),
        replicas: smaller.replicas,
        troubles: smaller
            .troubles
            .iter()
            .map(|trouble| trouble.what.to_string())
            .collect(),
        timeline: smaller.lines(),
        drawn: history.actions.len() + history.troubles.len(),
    }
}

/// The history and how it ended; with `$FAULT_VERBOSE` every request of the controller, too.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, {} replica(s)", self.seed, self.replicas)?;
        for line in &self.timeline {
            writeln!(f, "{line}")?;
        }
        if std::env::var_os(VERBOSE).is_some() {
            for request in &*self.run.requests {
                let code = request
                    .code
                    .map_or_else(|| "-".to_owned(), |code| code.to_string());
                let time = request.arrived.as_secs_f64();
                writeln!(f, "{time:>9.3} s  {code:>3} {} {request}", request.user_agent)?;
            }
        }
        match (&self.failure, &self.run.outcome) {
            (Some(failure), _) => writeln!(f, "{failure}"),
            (None, Ok(state)) => writeln!(f, "passes: {} objects end as without the faults", state.len()),
            (None, Err(violation)) => writeln!(f, "{violation}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_number_or_a_range() {
        assert_eq!(parse("1000"), Some(0..1000));
        assert_eq!(parse("7..8"), Some(7..8));
        assert_eq!(parse("7-8"), None);
    }

    #[test]
    fn the_first_object_that_differs_is_named() {
        let state = |pairs: &[(&str, &str)]| -> State {
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        assert_eq!(
            first_difference(
                &state(&[("a", "1"), ("b", "2")]),
                &state(&[("a", "1"), ("b", "3")])
            ),
            r#"b ends as "2", without the faults as "3""#
        );
        assert_eq!(
            first_difference(&state(&[]), &state(&[("a", "1")])),
            r#"a ends as not there, without the faults as "1""#
        );
    }
}
