//! Runs test binaries in parallel: live tests mostly wait, the others compute.

use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context, Result, bail};

use super::binary::Binary;

/// Number of binaries with live tests that run at a time.
const LIVE: usize = 2;
/// Number of other binaries that run meanwhile. After the live ones, all slots are for these.
const OTHERS: usize = 1;

/// Runs `command` for each binary, also after a failure; returns the failed ones.
///
/// Prints the output of a binary when it has ended.
pub(super) fn run<'a>(
    live: Vec<&'a Binary>,
    others: Vec<&'a Binary>,
    command: impl Fn(&Binary) -> Command + Sync,
) -> Result<Vec<String>> {
    let (live, others) = (Mutex::new(live.into_iter()), Mutex::new(others.into_iter()));
    let next_live = || live.lock().ok()?.next();
    let next_other = || others.lock().ok()?.next();
    let work = |next: &dyn Fn() -> Option<&'a Binary>| {
        let mut failed = Vec::new();
        while let Some(binary) = next() {
            if !passes(binary, &mut command(binary))? {
                failed.push(binary.to_string());
            }
        }
        anyhow::Ok(failed)
    };
    let mut failed = Vec::new();
    std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for _ in 0..LIVE {
            workers.push(scope.spawn(|| work(&|| next_live().or_else(next_other))));
        }
        for _ in 0..OTHERS {
            workers.push(scope.spawn(|| work(&next_other)));
        }
        for worker in workers {
            let Ok(result) = worker.join() else {
                bail!("a thread that ran tests panicked");
            };
            failed.extend(result?);
        }
        Ok(())
    })?;
    Ok(failed)
}

fn passes(binary: &Binary, tests: &mut Command) -> Result<bool> {
    println!("Started {binary}");
    let output = tests.output().with_context(|| format!("start {binary}"))?;
    let said = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said));
    println!("\nThe tests of {binary}: {}\n{}", output.status, said.concat());
    Ok(output.status.success())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn binary(target: &str) -> Binary {
        Binary {
            folder: PathBuf::from("/crates/some"),
            target: target.to_owned(),
            executable: PathBuf::new(),
            live: 0,
        }
    }

    #[test]
    fn all_run_and_those_that_failed_are_named() {
        let all = ["a", "b", "c", "d", "e"].map(binary);
        let (live, others) = all.split_at(3);
        let ran = Mutex::new(Vec::new());
        let failed = run(live.iter().collect(), others.iter().collect(), |binary| {
            ran.lock().unwrap().push(binary.target.clone());
            Command::new(if binary.target == "c" { "false" } else { "true" })
        });
        assert_eq!(failed.unwrap(), ["some (c)"]);
        let mut ran = ran.into_inner().unwrap();
        ran.sort();
        assert_eq!(ran, ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn a_binary_that_cannot_be_started_is_an_error() {
        let lost = binary("lost");
        let error = run(vec![&lost], Vec::new(), |_| Command::new("/no/such/binary")).unwrap_err();
        assert_eq!(error.to_string(), "start some (lost)");
    }
}
