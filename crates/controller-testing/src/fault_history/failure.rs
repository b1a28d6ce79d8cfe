//! A broken rule, and the report on a failing seed.

use std::fmt;
use std::time::Duration;

use super::record::Recorded;

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// When the rule was broken, since the start.
    pub at: Duration,
    /// Description of what happened.
    pub what: String,
}

/// A failing seed with its shrunk history.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedSeed {
    /// Name of the suite for `cargo xtask fault`.
    pub suite: &'static str,
    /// The seed that fails.
    pub seed: u64,
    /// The flaw of the whole history.
    pub first: String,
    /// The flaw of the shrunk history.
    pub what: String,
    /// Number of replicas.
    pub replicas: usize,
    /// Descriptions of the faults that are needed.
    pub faults: Vec<String>,
    /// The shrunk history, one line per step or fault.
    pub timeline: Vec<String>,
    /// Number of steps and faults in the whole history.
    pub drawn: usize,
    /// How to run the shrunk history again.
    pub recorded: Recorded,
}

impl fmt::Display for FailedSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            suite, seed, what, ..
        } = self;
        writeln!(f, "{suite} fails with seed {seed}: {what}")?;
        if *what != self.first {
            writeln!(f, "  (in the whole history: {})", self.first)?;
        }
        writeln!(
            f,
            "  {} replica(s), {} of {} events are enough:",
            self.replicas,
            self.timeline.len(),
            self.drawn
        )?;
        for line in &self.timeline {
            writeln!(f, "  {line}")?;
        }
        write!(f, "  again: cargo xtask fault --suite {suite} --seed {seed}")
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at.as_secs_f64();
        write!(f, "{} ({seconds:.3} s after the start)", self.what)
    }
}
