//! Histories that failed once: each test keeps the seeds, faults and steps of its own in `histories.txt`, so that they
//! are run again without a search.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::{env, fs, thread};

use parking_lot::Mutex;

use super::kind::FaultKind;
use super::{History, Suite};

/// The file of a crate's tests.
const FILE: &str = "tests/sync/histories.txt";
/// Variable that makes tests look for their histories anew, and note them in [`FILE`].
const RECORD: &str = "FAULT_RECORD";

/// One test at a time changes the file.
static WRITING: Mutex<()> = Mutex::new(());

/// What is left of a seed's history once it is shrunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub(super) seed: u64,
    /// The number of the draw.
    pub(super) draw: u64,
    /// The kind that all faults are drawn of, if there is one.
    pub(super) only: Option<String>,
    pub(super) replicas: usize,
    /// The places of the faults.
    pub(super) faults: Vec<usize>,
    /// The places of the steps.
    pub(super) steps: Vec<usize>,
    /// Of the lines of the history: another step or fault changes what is drawn.
    pub(super) digest: u64,
}

impl Recorded {
    /// Those of the test that runs.
    pub fn of_this_test() -> Vec<Self> {
        let (name, known) = (this_test(), fs::read_to_string(file()).unwrap_or_default());
        let lines = known.lines().filter_map(|line| line.split_once(' '));
        let of_this = lines.filter(|(of, _)| *of == name);
        let read = |line: &str| {
            line.parse()
                .unwrap_or_else(|()| panic!("{FILE} has no history in {line:?}"))
        };
        of_this.map(|(_, line)| read(line)).collect()
    }

    /// Notes the history for the test that runs, in the place of an earlier one if there can be but `one`. Returns what
    /// to do if notes are not taken.
    pub fn note(&self, one: bool) -> Option<String> {
        let name = this_test();
        let line = format!("{name} {self}");
        if env::var_os(RECORD).is_none() {
            return Some(format!("{RECORD}=1 keeps it, in {FILE}: {line}"));
        }
        let _guard = WRITING.lock();
        let known = fs::read_to_string(file()).unwrap_or_default();
        let is_of_this = |line: &str| line.split(' ').next() == Some(&*name);
        let mut lines: Vec<_> = known.lines().filter(|line| !one || !is_of_this(line)).collect();
        lines.push(&line);
        lines.sort_unstable();
        lines.dedup();
        let written = fs::write(file(), lines.join("\n") + "\n");
        written.err().map(|error| format!("cannot write {FILE}: {error}"))
    }

    /// The history, if it is still drawn as it was, and of how many steps and faults it is what is left.
    pub(super) fn history<S: Suite>(&self, suite: &S) -> Option<(History<S::Action>, usize)> {
        let named = |kind: &FaultKind| Some(&format!("{kind:?}")) == self.only.as_ref();
        let only = FaultKind::all::<S>().find(named);
        let drawn = History::drawn_steps(suite, self.seed).with_drawn_faults::<S>(self.draw, only);
        let history = History {
            replicas: self.replicas,
            ..drawn.with_faults(&self.faults).with_actions(&self.steps)
        };
        let whole = drawn.actions.len() + drawn.faults.len();
        (digest(&history.lines()) == self.digest).then_some((history, whole))
    }
}

/// FNV-1a: the same for all time.
pub(super) fn digest(lines: &[String]) -> u64 {
    let bytes = lines.iter().flat_map(|line| line.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Whether tests look for histories that they know.
pub fn searches() -> bool {
    env::var_os(RECORD).is_some() || crate::long_or_short(true, false)
}

fn file() -> PathBuf {
    let root = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    root.unwrap_or_default().join(FILE)
}

fn this_test() -> String {
    let name = thread::current().name().unwrap_or_default().to_owned();
    name.strip_prefix("histories::")
        .map(str::to_owned)
        .unwrap_or(name)
}

fn list(places: &[usize]) -> String {
    let places: Vec<_> = places.iter().map(ToString::to_string).collect();
    places.join(",")
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed,
            draw,
            only,
            replicas,
            faults,
            steps,
            digest,
        } = self;
        let only = only.as_deref().unwrap_or("any");
        let (faults, steps) = (list(faults), list(steps));
        write!(
            f,
            "seed={seed} draw={draw} kind={only} replicas={replicas} faults={faults} steps={steps} digest={digest}"
        )
    }
}

impl FromStr for Recorded {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let field = |name: &str| {
            let mut fields = text.split(' ').filter_map(|field| field.split_once('='));
            fields
                .find(|(field, _)| *field == name)
                .map(|(_, value)| value)
                .ok_or(())
        };
        let number = |name| field(name)?.parse().map_err(|_| ());
        let places = |name| -> Result<Vec<usize>, ()> {
            let places = field(name)?.split(',').filter(|place| !place.is_empty());
            places.map(|place| place.parse().map_err(|_| ())).collect()
        };
        Ok(Self {
            seed: number("seed")?,
            draw: number("draw")?,
            only: Some(field("kind")?.to_owned()).filter(|only| only != "any"),
            replicas: field("replicas")?.parse().map_err(|_| ())?,
            faults: places("faults")?,
            steps: places("steps")?,
            digest: number("digest")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let recorded = Recorded {
            seed: 7,
            draw: 1,
            only: Some("Crash".to_owned()),
            replicas: 2,
            faults: vec![0, 3],
            steps: vec![],
            digest: 2748,
        };
        let line = "seed=7 draw=1 kind=Crash replicas=2 faults=0,3 steps= digest=2748";
        assert_eq!(recorded.to_string(), line);
        assert_eq!(line.parse(), Ok(recorded));
    }
}
