//! A child process.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::scratch::{self, Scratch};
use super::{Error, ProcessUsage, eventually};

/// Number of log lines that an error or a failed test shows.
const TAIL: usize = 30;

/// A child process; dropping it kills the process, waits for its end and removes its log.
///
/// The process stays in the test's process group, so that Ctrl-C at a terminal reaches it too. If a panic drops it, the
/// end of its log is printed with the output of the failed test.
#[derive(Debug, Serialize, Deserialize)]
pub struct Process {
    program: String,
    pid: u32,
    /// Identifies the process for good.
    identity: String,
    /// `None` if a process has taken over the child of another one, whose exit status only that one gets.
    #[serde(skip)]
    child: Option<Child>,
    log: PathBuf,
    // Last: removed after the child has ended.
    scratch: Scratch,
}

impl Process {
    /// Starts `path` with `args`. The environment is exactly `env`, standard input is empty, and the output goes to
    /// [`Process::log`].
    pub fn spawn<A: AsRef<OsStr>>(path: &Path, args: &[A], env: &[(&str, &str)]) -> Result<Self, Error> {
        let program = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let scratch = Scratch::new()?;
        let log = scratch.path().join("log");
        let output = || {
            File::options()
                .create(true)
                .append(true)
                .open(&log)
                .map_err(|source| Error::File {
                    doing: "create",
                    path: log.clone(),
                    source,
                })
        };
        let child = Command::new(path)
            .args(args)
            .env_clear()
            .envs(env.iter().copied())
            .current_dir(scratch.path())
            .stdin(Stdio::null())
            .stdout(output()?)
            .stderr(output()?)
            .spawn()
            .map_err(|source| Error::Process {
                doing: "start",
                program: program.clone(),
                source,
            })?;
        let pid = child.id();
        let process = Self {
            program,
            pid,
            identity: scratch::identity(pid).unwrap_or_default(),
            child: Some(child),
            log,
            scratch,
        };
        process.scratch.holds(&process.identity)?;
        Ok(process)
    }

    /// Records that this must not outlive the process `owner`.
    pub(super) fn belongs_to(&self, owner: &str) -> Result<(), Error> {
        self.scratch.belongs_to(owner)
    }

    /// Whether dropping this counts its CPU time as that of a child.
    pub(super) fn is_child(&self) -> bool {
        self.child.is_some()
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The standard output and standard error so far, in the order of writing.
    pub fn log(&self) -> String {
        fs::read(&self.log).map_or_else(
            |_| String::new(),
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        )
    }

    /// Current memory, threads and CPU time.
    pub fn usage(&self) -> Result<ProcessUsage, Error> {
        ProcessUsage::of(self.pid())
    }

    /// Resets [`ProcessUsage::peak_rss`] to the memory that is resident now.
    pub fn reset_peak(&self) -> Result<(), Error> {
        let pid = self.pid();
        // `proc_pid_clear_refs(5)`.
        let reset = fs::write(format!("/proc/{pid}/clear_refs"), "5");
        reset.map_err(|source| Error::Usage { pid, source })
    }

    /// Sends SIGTERM. Returns at once; see [`Process::wait_exit`]. No-op if the process has ended.
    pub fn terminate(&mut self) -> Result<(), Error> {
        self.signal(Signal::TERM)
    }

    /// Sends SIGKILL. Returns at once; see [`Process::wait_exit`]. No-op if the process has ended.
    pub fn kill(&mut self) -> Result<(), Error> {
        self.signal(Signal::KILL)
    }

    /// Sends SIGINT. Returns at once; see [`Process::wait_exit`]. No-op if the process has ended.
    pub fn interrupt(&mut self) -> Result<(), Error> {
        self.signal(Signal::INT)
    }

    fn signal(&mut self, signal: Signal) -> Result<(), Error> {
        // The pid of a child that was not waited for is not reused, so the signal cannot reach another process.
        if self.exited()?.is_some() {
            return Ok(());
        }
        scratch::living(&self.identity)
            .map_or(Ok(()), |pid| rustix::process::kill_process(pid, signal))
            .map_err(|errno| self.failed("signal", errno.into()))
    }

    /// The exit status, if the process has ended; 0 for one that another process started.
    pub fn exited(&mut self) -> Result<Option<ExitStatus>, Error> {
        let ended = match &mut self.child {
            Some(child) => child.try_wait(),
            None => Ok(scratch::living(&self.identity)
                .is_none()
                .then(ExitStatus::default)),
        };
        ended.map_err(|source| self.failed("wait for", source))
    }

    /// Waits at most `within` for the process to end.
    pub async fn wait_exit(&mut self, within: Duration) -> Result<ExitStatus, Error> {
        let what = format!("{} ends", self.program);
        eventually(within, &what, async || self.exited().transpose()).await?
    }

    /// Fails if the process has ended.
    pub(super) fn must_run(&mut self) -> Result<(), Error> {
        match self.exited()? {
            None => Ok(()),
            Some(status) => Err(Error::EndedEarly {
                program: self.program.clone(),
                status,
                log: self.log_tail(),
            }),
        }
    }

    /// The error for a process that runs but was not ready in time.
    pub(super) fn not_ready(&self, within: Duration) -> Error {
        Error::NotReady {
            program: self.program.clone(),
            within,
            log: self.log_tail(),
        }
    }

    fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].join("\n")
    }

    fn failed(&self, doing: &'static str, source: io::Error) -> Error {
        Error::Process {
            doing,
            program: self.program.clone(),
            source,
        }
    }
}

impl Drop for Process {
    #[allow(clippy::print_stderr, reason = "belongs to the output of the failed test")]
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        scratch::end(&self.identity);
        if std::thread::panicking() {
            eprintln!("--- the end of the log of {}:\n{}", self.program, self.log_tail());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn shell(script: &str, env: &[(&str, &str)]) -> Process {
        Process::spawn(Path::new("/bin/sh"), &["-c", script], env).unwrap()
    }

    #[tokio::test]
    async fn output_of_both_kinds_is_kept_and_the_exit_code_returned() {
        let mut process = shell("echo out; echo err >&2; exit 3", &[]);
        assert_eq!(process.wait_exit(SOON).await.unwrap().code(), Some(3));
        assert_eq!(process.log(), "out\nerr\n");
    }

    #[tokio::test]
    async fn a_process_can_be_asked_to_end_in_two_ways() {
        // Only `wait` ends at once on a trapped signal.
        let traps =
            "sleep 60 & trap \"kill $!; exit 7\" TERM; trap \"kill $!; exit 8\" INT; echo ready; wait";
        for (signal, code) in [(Signal::TERM, 7), (Signal::INT, 8)] {
            // A signal that the tests' parent ignores cannot be trapped.
            let shell = ["--default-signal=INT", "sh", "-c", traps];
            let mut process = Process::spawn(Path::new("/usr/bin/env"), &shell, &[]).unwrap();
            let set = eventually(SOON, "the traps are set", async || {
                (process.log() == "ready\n").then_some(())
            });
            set.await.unwrap();
            let mut ask = || match signal {
                Signal::TERM => process.terminate(),
                _ => process.interrupt(),
            };
            ask().unwrap();
            ask().unwrap();
            assert_eq!(process.wait_exit(SOON).await.unwrap().code(), Some(code));
            process.terminate().unwrap();
        }
    }

    #[tokio::test]
    async fn the_environment_is_exactly_the_given_one() {
        let mut process =
            Process::spawn::<&str>(Path::new("/usr/bin/env"), &[], &[("ONLY", "this")]).unwrap();
        process.wait_exit(SOON).await.unwrap();
        assert_eq!(process.log(), "ONLY=this\n");
    }

    #[tokio::test]
    async fn a_process_that_ended_early_is_reported_with_its_log() {
        let mut process = shell("echo the reason; exit 1", &[]);
        process.wait_exit(SOON).await.unwrap();
        let error = process.must_run().unwrap_err().to_string();
        assert_eq!(
            error,
            "sh ended early with exit status: 1; the end of its log:\nthe reason"
        );
    }

    #[tokio::test]
    async fn dropping_ends_the_process_and_removes_its_files() {
        let process = shell("exec sleep 60", &[]);
        let (pid, log) = (process.pid(), process.log.clone());
        assert!(log.exists());
        process.reset_peak().unwrap();
        let usage = process.usage().unwrap();
        assert!(usage.peak_rss >= usage.rss);
        drop(process);
        assert!(!log.exists() && ProcessUsage::of(pid).is_err());
    }
}
