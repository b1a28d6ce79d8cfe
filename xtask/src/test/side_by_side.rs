//! Runs test binaries in parallel: live tests mostly wait, the others compute.

use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context, Result, bail};

use super::binary::Binary;
use super::cost::{self, Cost};
use super::passed::Passed;

/// Number of binaries with live tests that run at a time.
const LIVE: usize = 2;
/// Number of other binaries that run meanwhile, at low priority. After the live ones, all slots are for these.
const OTHERS: usize = 1;
/// What computes takes the time that live tests, which have deadlines, leave.
const GIVES_WAY_BY: i32 = 10;

/// What ran: the failed binaries, and the cost of each.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) failed: Vec<String>,
    pub(super) costs: Vec<(String, Cost)>,
    /// The number of binaries that passed before with the same content.
    pub(super) passed_before: usize,
}

/// Runs `command` for each binary, also after a failure.
///
/// Prints the output of a binary when it has ended. With `passed`, a binary that passed before is not run again.
pub(super) fn run<'a>(
    live: Vec<&'a Binary>,
    others: Vec<&'a Binary>,
    passed: Option<&Passed<'_>>,
    command: impl Fn(&Binary) -> Command + Sync,
) -> Result<Outcome> {
    let (live, others) = (Mutex::new(live.into_iter()), Mutex::new(others.into_iter()));
    let next_live = || live.lock().ok()?.next();
    let next_other = || others.lock().ok()?.next();
    let work = |next: &dyn Fn() -> Option<&'a Binary>| {
        let mut outcome = Outcome::default();
        while let Some(binary) = next() {
            outcome.add(binary, passed, &mut command(binary))?;
        }
        anyhow::Ok(outcome)
    };
    let mut all = Outcome::default();
    std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for _ in 0..LIVE {
            workers.push(scope.spawn(|| work(&|| next_live().or_else(next_other))));
        }
        for _ in 0..OTHERS {
            workers.push(scope.spawn(|| {
                give_way();
                work(&next_other)
            }));
        }
        for worker in workers {
            let Ok(result) = worker.join() else {
                bail!("a thread that ran tests panicked");
            };
            let outcome = result?;
            all.failed.extend(outcome.failed);
            all.costs.extend(outcome.costs);
            all.passed_before += outcome.passed_before;
        }
        Ok(())
    })?;
    Ok(all)
}

/// Gives the programs that this thread starts a low priority. They run in any case.
pub(super) fn give_way() {
    // On Linux, each thread has a priority of its own.
    if let Err(error) = rustix::process::nice(GIVES_WAY_BY) {
        println!("The priority stays as it is: {error}");
    }
}

impl Outcome {
    fn add(&mut self, binary: &Binary, passed: Option<&Passed<'_>>, tests: &mut Command) -> Result<()> {
        let known = passed.map(|passed| (passed, passed.content(binary, tests)));
        if let Some((passed, content)) = &known
            && let Some(output) = passed.find(binary, content)
        {
            println!("\nThe tests of {binary} passed before with the same content:\n{output}");
            self.passed_before += 1;
            return Ok(());
        }
        println!("Started {binary}");
        let ended = cost::run(tests).with_context(|| format!("start {binary}"))?;
        println!("\nThe tests of {binary}: {}\n{}", ended.status, ended.said);
        let success = ended.status.success();
        if let Some((passed, content)) = &known {
            passed.keep(binary, content, success.then_some(&ended.said))?;
        }
        if !success {
            self.failed.push(binary.to_string());
        }
        self.costs.push((binary.to_string(), ended.cost));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::binary::Live;
    use super::*;

    fn binary(target: &str) -> Binary {
        Binary {
            folder: PathBuf::from("/crates/some"),
            sources: PathBuf::from("/crates/some"),
            target: target.to_owned(),
            executable: PathBuf::new(),
            live: Live::default(),
        }
    }

    #[test]
    fn all_run_and_those_that_failed_are_named() {
        let all = ["a", "b", "c", "d", "e"].map(binary);
        let (live, others) = all.split_at(3);
        let ran = Mutex::new(Vec::new());
        let outcome = run(live.iter().collect(), others.iter().collect(), None, |binary| {
            ran.lock().unwrap().push(binary.target.clone());
            Command::new(if binary.target == "c" { "false" } else { "true" })
        });
        let outcome = outcome.unwrap();
        assert_eq!(outcome.failed, ["some (c)"]);
        assert_eq!(outcome.costs.len(), 5);
        let mut ran = ran.into_inner().unwrap();
        ran.sort();
        assert_eq!(ran, ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn a_binary_that_cannot_be_started_is_an_error() {
        let lost = binary("lost");
        let outcome = run(vec![&lost], Vec::new(), None, |_| Command::new("/no/such/binary"));
        assert_eq!(outcome.err().unwrap().to_string(), "start some (lost)");
    }
}
