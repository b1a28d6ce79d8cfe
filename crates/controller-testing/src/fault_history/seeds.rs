//! Runs many seeds, and reports on one.

use std::fmt;
use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use parking_lot::Mutex;

use super::failure::{FailedSeed, Violation};
use super::kind::FaultKind;
use super::record::{Recorded, digest};
use super::run::{Run, run};
use super::shrink::{minimal, shortest};
use super::strikes::Strikes;
use super::{EndState, History, Suite, UNDECIDED};

/// Variable with the seeds to run: their number, or `FROM..TO`.
const SEEDS: &str = "FAULT_SEEDS";

/// Variable that adds every request of the controller to what [`report`] prints.
const VERBOSE: &str = "FAULT_VERBOSE";

/// A history without a fault that strikes is drawn again, at most this often.
const DRAWS: u64 = 8;

/// The parts to leave out of a failing history, as long as it still fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shrink {
    /// Faults, replicas and steps: for a reader who looks for the bug.
    Everything,
    /// Faults and replicas only, which takes far fewer runs: for a known bug.
    Faults,
}

/// The full report on one seed.
#[derive(Clone, Debug)]
pub struct SeedsReport {
    /// The history that the seed draws, one line per step or fault.
    pub timeline: Vec<String>,
    /// Number of replicas.
    pub replicas: usize,
    /// The result of the history.
    pub run: Run,
    /// The kinds of its faults, and whether they struck.
    pub strikes: Strikes,
    /// The failure, if the seed fails.
    pub failure: Option<FailedSeed>,
    seed: u64,
}

/// A flaw of a history.
enum Flaw {
    /// The steps alone break a rule.
    EvenWithoutFaults(Violation),
    /// A rule is broken.
    Violation(Violation),
    /// The end differs from the end without the faults.
    OtherEnd(String),
}

/// The seeds in `$FAULT_SEEDS`; if it is not set, the first `otherwise` seeds.
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

/// Runs the histories of `seeds` on all processors, with faults of all kinds or of one `only`, and shrinks that of the
/// lowest failing seed. Returns also how often faults struck.
pub fn search<S: Suite>(
    suite: &S,
    seeds: Range<u64>,
    only: Option<FaultKind>,
    shrink: Shrink,
) -> (Strikes, Option<FailedSeed>) {
    let strikes = Mutex::new(Strikes::default());
    let next = AtomicU64::new(seeds.start);
    let lowest: Mutex<Option<(u64, Flaw)>> = Mutex::default();
    let search = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        let is_lower = |found: &Option<(u64, Flaw)>| found.as_ref().is_none_or(|(lowest, _)| seed < *lowest);
        if seed >= seeds.end || !is_lower(&lowest.lock()) {
            return;
        }
        let Judged {
            history, run, flaw, ..
        } = drawn(suite, seed, only);
        strikes.lock().add(&history, &run);
        if let Some(flaw) = flaw {
            let mut lowest = lowest.lock();
            if is_lower(&lowest) {
                *lowest = Some((seed, flaw));
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(search);
        }
    });
    let failure = lowest.into_inner().map(|(seed, first)| {
        let Judged { history, draw, .. } = drawn(suite, seed, only);
        let drawn = Drawn { draw, only };
        shrunk(suite, history, &first, (shrink, &drawn))
    });
    (strikes.into_inner(), failure)
}

/// A history that was run.
struct Judged<A> {
    /// The number of the draw.
    draw: u64,
    history: History<A>,
    run: Run,
    flaw: Option<Flaw>,
}

/// How the faults of a seed were drawn.
struct Drawn {
    draw: u64,
    only: Option<FaultKind>,
}

/// Runs a recorded history again; returns what is wrong with it. `None` if it is no longer drawn as it was.
pub fn replay<S: Suite>(suite: &S, recorded: &Recorded) -> Option<Option<FailedSeed>> {
    let (history, drawn) = recorded.history(suite)?;
    let flaw = flaw(suite, &history).map(|flaw| flaw.to_string());
    Some(flaw.map(|what| {
        FailedSeed {
            suite: S::TITLE,
            seed: recorded.seed,
            first: what.clone(),
            what,
            replicas: history.replicas,
            faults: history
                .faults
                .iter()
                .map(|fault| fault.what.to_string())
                .collect(),
            timeline: history.lines(),
            drawn,
            recorded: recorded.clone(),
        }
    }))
}

/// Draws and judges the history of a seed, whose faults are drawn again as long as none strikes.
fn drawn<S: Suite>(suite: &S, seed: u64, only: Option<FaultKind>) -> Judged<S::Action> {
    let steps = History::drawn_steps(suite, seed);
    let expected = run(suite, &steps).outcome;
    let judged = |draw| {
        let history = steps.with_drawn_faults::<S>(draw, only);
        let run = run(suite, &history);
        let flaw = flaw_of(&run, &expected);
        Judged {
            draw,
            history,
            run,
            flaw,
        }
    };
    let strikes = |judged: &Judged<_>| !judged.run.struck.is_empty() || judged.flaw.is_some();
    (0..DRAWS - 1)
        .map(judged)
        .find(strikes)
        .unwrap_or_else(|| judged(DRAWS - 1))
}

/// Runs one seed and reports on it in full.
pub fn report<S: Suite>(suite: &S, seed: u64) -> SeedsReport {
    let Judged {
        draw,
        history,
        run,
        flaw,
    } = drawn(suite, seed, None);
    let mut strikes = Strikes::default();
    strikes.add(&history, &run);
    SeedsReport {
        timeline: history.lines(),
        replicas: history.replicas,
        run,
        strikes,
        failure: flaw.map(|flaw| {
            let drawn = Drawn { draw, only: None };
            shrunk(suite, history, &flaw, (Shrink::Everything, &drawn))
        }),
        seed,
    }
}

/// Runs a history, and compares its end with that of the same steps without the faults.
fn flaw<S: Suite>(suite: &S, history: &History<S::Action>) -> Option<Flaw> {
    let expected = run(suite, &history.without_faults()).outcome;
    flaw_of(&run(suite, history), &expected)
}

/// The flaw of a run, whose end should be `expected`.
fn flaw_of(run: &Run, expected: &Result<EndState, Violation>) -> Option<Flaw> {
    match (expected, &run.outcome) {
        (Err(violation), _) => Some(Flaw::EvenWithoutFaults(violation.clone())),
        (Ok(_), Err(violation)) => Some(Flaw::Violation(violation.clone())),
        (Ok(expected), Ok(state)) => first_difference(state, expected).map(Flaw::OtherEnd),
    }
}

/// The first object whose end is another one, unless the rules leave it [`UNDECIDED`].
fn first_difference(state: &EndState, expected: &EndState) -> Option<String> {
    let name =
        |value: Option<&String>| value.map_or_else(|| "not there".to_owned(), |value| format!("{value:?}"));
    let mut keys: Vec<&String> = state.keys().chain(expected.keys()).collect();
    keys.sort();
    let is_decided = |end: Option<&String>| end.is_none_or(|end| end != UNDECIDED);
    let mut ends = keys
        .into_iter()
        .map(|key| (key, state.get(key), expected.get(key)));
    let (key, end, without) =
        ends.find(|(_, end, without)| end != without && is_decided(*end) && is_decided(*without))?;
    Some(format!(
        "{key} ends as {}, without the faults as {}",
        name(end),
        name(without)
    ))
}

/// Finds the fewest faults, then one replica if that is enough, then, if `shrink` says so, steps of which none can be
/// left out.
fn shrunk<S: Suite>(
    suite: &S,
    history: History<S::Action>,
    first: &Flaw,
    (shrink, how): (Shrink, &Drawn),
) -> FailedSeed {
    let (seed, drawn) = (history.seed, history.actions.len() + history.faults.len());
    // If the whole history breaks a rule, the smaller one must break one, too: no comparison is needed.
    let fails = |smaller: &History<S::Action>| match first {
        Flaw::EvenWithoutFaults(_) | Flaw::Violation(_) => run(suite, smaller).outcome.is_err(),
        Flaw::OtherEnd(_) => flaw(suite, smaller).is_some(),
    };
    let mut smaller = match first {
        Flaw::EvenWithoutFaults(violation) => history.without_faults().until(violation.at),
        Flaw::Violation(violation) => history.until(violation.at),
        Flaw::OtherEnd(_) => history,
    };
    let faults = shortest(smaller.faults.len(), |kept| fails(&smaller.with_faults(kept)));
    smaller = smaller.with_faults(&faults);
    smaller = smaller
        .with_one_replica()
        .filter(|alone| fails(alone))
        .unwrap_or(smaller);
    let mut steps: Vec<_> = (0..smaller.actions.len()).collect();
    if shrink == Shrink::Everything {
        steps = minimal(steps.len(), |kept| fails(&smaller.with_actions(kept)));
        smaller = smaller.with_actions(&steps);
    }
    let what = flaw(suite, &smaller).map(|flaw| flaw.to_string());
    FailedSeed {
        recorded: Recorded {
            seed,
            draw: how.draw,
            only: how.only.map(|only| format!("{only:?}")),
            replicas: smaller.replicas,
            faults,
            steps,
            digest: digest(&smaller.lines()),
        },
        suite: S::TITLE,
        seed,
        first: first.to_string(),
        what: what.unwrap_or_default(),
        replicas: smaller.replicas,
        faults: smaller
            .faults
            .iter()
            .map(|fault| fault.what.to_string())
            .collect(),
        timeline: smaller.lines(),
        drawn,
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EvenWithoutFaults(violation) => write!(f, "without any fault {violation}"),
            Self::Violation(violation) => write!(f, "{violation}"),
            Self::OtherEnd(difference) => f.write_str(difference),
        }
    }
}

/// The history and its end; with `$FAULT_VERBOSE` also every request of the controller.
impl fmt::Display for SeedsReport {
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
        write!(f, "{}", self.strikes)?;
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
        let state = |pairs: &[(&str, &str)]| -> EndState {
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        let differs = |end: &[(&str, &str)], without: &[(&str, &str)]| {
            first_difference(&state(end), &state(without)).unwrap_or_default()
        };
        assert_eq!(
            differs(&[("a", "1"), ("b", "2")], &[("a", "1"), ("b", "3")]),
            r#"b ends as "2", without the faults as "3""#
        );
        assert_eq!(
            differs(&[], &[("a", "1")]),
            r#"a ends as not there, without the faults as "1""#
        );
        assert_eq!(differs(&[("a", "1")], &[("a", "1")]), "");
        assert_eq!(
            differs(&[("a", UNDECIDED), ("b", "1")], &[("a", "1"), ("b", UNDECIDED)]),
            "",
            "the rules permit either"
        );
    }
}
