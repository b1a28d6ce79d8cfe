//! The demo as a child process, with its lines read as they come.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Once;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;

/// Time limit for a fast demo, even on a busy machine.
const ENDS_WITHIN: Duration = Duration::from_mins(3);

/// All controllers with a scene.
pub(crate) const CONTROLLERS: [&str; 5] = [
    "ttl-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
    "disruption-controller",
    "resourceclaim-controller",
];

pub(crate) struct Demo {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    read: Vec<String>,
}

/// Lock for demos with scenes that depend on time: one at a time.
pub(crate) async fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::const_new(());
    TURN.lock().await
}

pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<String>,
    pub(crate) stderr: String,
}

impl Demo {
    pub(crate) fn start(args: &[&str]) -> Self {
        build_controllers();
        let mut child = Command::new(env!("CARGO_BIN_EXE_demo"))
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self {
            child,
            lines,
            read: Vec::new(),
        }
    }

    /// Starts the demo on the cluster of a kubeconfig file.
    pub(crate) fn start_on(kubeconfig: &Path, args: &[&str]) -> Self {
        Self::start(&[&["--kubeconfig", kubeconfig.to_str().unwrap()], args].concat())
    }

    /// Reads up to the first line that contains `text` and returns it.
    pub(crate) async fn until(&mut self, text: &str) -> String {
        while let Some(line) = self.next_line().await {
            if line.contains(text) {
                return line;
            }
        }
        panic!("no line with {text:?} in:\n{}", self.read.join("\n"));
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    pub(crate) async fn end(mut self) -> Ended {
        while self.next_line().await.is_some() {}
        let mut stderr = String::new();
        let mut pipe = self.child.stderr.take().unwrap();
        timeout(ENDS_WITHIN, pipe.read_to_string(&mut stderr))
            .await
            .unwrap()
            .unwrap();
        Ended {
            status: timeout(ENDS_WITHIN, self.child.wait()).await.unwrap().unwrap(),
            stdout: self.read,
            stderr,
        }
    }

    async fn next_line(&mut self) -> Option<String> {
        let line = timeout(ENDS_WITHIN, self.lines.next_line())
            .await
            .unwrap()
            .unwrap()?;
        self.read.push(line.clone());
        Some(line)
    }
}

/// The word after `text` in `line`.
pub(crate) fn word_after(line: &str, text: &str) -> String {
    let (_, rest) = line.split_once(text).unwrap();
    rest.split([' ', ';']).next().unwrap().to_owned()
}

/// True if the process `pid` is still a controller.
pub(crate) fn is_controller(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "ttl-controller")
}

/// A test of the whole workspace has built the controllers; a test of this crate alone has not.
fn build_controllers() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let directory = PathBuf::from(env!("CARGO_BIN_EXE_demo"));
        let directory = directory.parent().unwrap();
        let missing: Vec<_> = CONTROLLERS
            .into_iter()
            .filter(|name| !directory.join(name).is_file())
            .flat_map(|name| ["--package", name])
            .collect();
        if !missing.is_empty() {
            let built = std::process::Command::new(env!("CARGO"))
                .arg("build")
                .args(missing)
                .arg("--target-dir")
                .arg(directory.parent().unwrap())
                .status();
            assert!(built.unwrap().success());
        }
    });
}
