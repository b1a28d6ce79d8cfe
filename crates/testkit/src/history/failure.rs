//! What is said of a seed that fails.

use std::fmt;

/// A seed that fails, shrunk.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The suite: the controller's name.
    pub suite: &'static str,
    /// The seed.
    pub seed: u64,
    /// What is wrong in the whole history.
    pub first: String,
    /// What is wrong in the shrunk one.
    pub what: String,
    /// How many replicas run.
    pub replicas: usize,
    /// The troubles that are needed, in words.
    pub faults: Vec<String>,
    /// The shrunk history, a line each: what happens, and what goes wrong.
    pub timeline: Vec<String>,
    /// How many steps and troubles the whole history has.
    pub drawn: usize,
}

impl fmt::Display for Failure {
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
