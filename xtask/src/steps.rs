//! Names and times the steps of a tool.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// The steps so far. Displays as a table of name, seconds, and which one failed.
#[derive(Debug, Default)]
pub struct Steps(Vec<(String, Duration, bool)>);

impl Steps {
    /// Runs the next step; an error names it.
    pub fn run<T>(&mut self, name: &str, step: impl FnOnce() -> Result<T>) -> Result<T> {
        println!("\n=== {name}");
        let started = now();
        let outcome = step().with_context(|| format!("step \"{name}\" failed"));
        self.0.push((name.to_owned(), started.elapsed(), outcome.is_ok()));
        outcome
    }

    /// Adds the steps of `others`.
    pub fn append(&mut self, others: Self) {
        self.0.extend(others.0);
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self
            .0
            .iter()
            .map(|(name, ..)| name.len())
            .max()
            .unwrap_or(0)
            .max(26);
        write!(f, "{:<width$} {:>9}", "step", "seconds")?;
        for (name, took, passed) in &self.0 {
            let verdict = if *passed { "" } else { "  FAILED" };
            write!(f, "\n{name:<width$} {:>9.1}{verdict}", took.as_secs_f64())?;
        }
        Ok(())
    }
}

/// The time of this machine, to measure durations.
#[allow(
    clippy::disallowed_methods,
    reason = "how long a step takes: no test owns this time"
)]
pub fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_table_names_the_step_that_failed() {
        let steps = Steps(vec![
            ("format".to_owned(), Duration::from_millis(420), true),
            ("lints".to_owned(), Duration::from_secs(90), false),
        ]);
        assert_eq!(
            steps.to_string(),
            "step                         seconds\n\
             format                           0.4\n\
             lints                           90.0  FAILED"
        );
    }

    #[test]
    fn an_error_names_its_step() {
        let failed = Steps::default().run("lints", || -> Result<()> { anyhow::bail!("a lint") });
        assert_eq!(
            format!("{:#}", failed.unwrap_err()),
            "step \"lints\" failed: a lint"
        );
    }
}
