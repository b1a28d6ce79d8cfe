//! The control planes that test binaries lease one after another.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use super::binary::Built;
use crate::command;

/// Variable with the directory in which control planes wait for a test.
pub(super) const DIR: &str = "CONTROL_PLANE_POOL";
/// The crate that has the program, and its name.
const PROGRAM: [&str; 2] = ["local-control-plane", "control-plane-pool"];

/// The program that ends them once this is dropped, or this process has ended in any other way.
pub(super) struct Pool {
    /// Holds its standard input open.
    program: Child,
    pub(super) dir: String,
}

impl Pool {
    pub(super) fn of(built: &Built) -> Result<Self> {
        let ours = built
            .programs
            .iter()
            .find(|program| [command::name(&program.folder), command::name(&program.executable)] == PROGRAM);
        let ours = ours.with_context(|| format!("cargo did not build {PROGRAM:?}"))?;
        Self::start(&mut Command::new(&ours.executable))
    }

    fn start(program: &mut Command) -> Result<Self> {
        // Ctrl-C, which reaches the whole process group, is for the tests.
        let program = program.process_group(0);
        let started = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut program = started.context("start the pool of control planes")?;
        let mut dir = String::new();
        if let Some(output) = program.stdout.take() {
            BufReader::new(output).read_line(&mut dir)?;
        }
        let dir = dir.trim_end().to_owned();
        Ok(Self { program, dir })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Closes its standard input first.
        let _ = self.program.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_says_its_directory_and_ends_first() {
        let folder = tempfile::tempdir().unwrap();
        let ended = folder.path().join("ended");
        let mut program = Command::new("sh");
        program.args(["-c", "echo /a/dir; cat; : >\"$0\""]).arg(&ended);
        let pool = Pool::start(&mut program).unwrap();
        assert_eq!(pool.dir, "/a/dir");
        assert!(!ended.exists());
        drop(pool);
        assert!(ended.exists());
    }
}
