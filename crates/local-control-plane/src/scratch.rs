//! Directories of a test, and the remains of tests that were killed.
//!
//! A destructor stops a child and removes its files, also after a panic. It does not run if the test process itself is
//! killed; so each directory names its owner and its child, and the next test process ends the children and removes the
//! directories of dead owners.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use super::Error;
use super::usage::Stat;

const PREFIX: &str = "controllers-test-";
/// File with the identity of the process that the directory must not outlive.
const OWNER: &str = "owner";
/// File with the identity of the child that runs in the directory.
const CHILD: &str = "child";

/// A directory that is removed on drop.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> Result<Self, Error> {
        static SWEPT: Once = Once::new();
        let root = std::env::temp_dir();
        SWEPT.call_once(|| sweep(&root, is_gone));
        let dir = tempfile::Builder::new()
            .prefix(PREFIX)
            .tempdir_in(&root)
            .map_err(|source| Error::File {
                doing: "create a directory in",
                path: root,
                source,
            })?;
        let scratch = Self(dir.keep());
        scratch.belongs_to(&own_identity())?;
        Ok(scratch)
    }

    /// Records that this directory must not outlive the process `owner`.
    pub(super) fn belongs_to(&self, owner: &str) -> Result<(), Error> {
        self.write(OWNER, owner).map(drop)
    }

    /// Records that the process `child` must not outlive this directory.
    pub(super) fn holds(&self, child: &str) -> Result<(), Error> {
        self.write(CHILD, child).map(drop)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes the file `name` and returns its path.
    pub(super) fn write(&self, name: &str, content: &str) -> Result<PathBuf, Error> {
        let path = self.path().join(name);
        match fs::write(&path, content) {
            Ok(()) => Ok(path),
            Err(source) => Err(Error::File {
                doing: "write",
                path,
                source,
            }),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The owner that the directory `dir` names.
pub(super) fn owner_of(dir: &Path) -> Option<String> {
    fs::read_to_string(dir.join(OWNER)).ok()
}

/// Ends what belongs to this process and what belongs to dead ones.
pub(super) fn sweep_own() {
    let own = own_identity();
    sweep(&std::env::temp_dir(), |owner| owner == own || is_gone(owner));
}

pub(super) fn own_identity() -> String {
    identity(std::process::id()).unwrap_or_default()
}

/// Identifies a living process for good: pid namespace, pid, start time.
pub(super) fn identity(pid: u32) -> Option<String> {
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    let started = Stat::read(pid).ok()?.started;
    Some(format!("{} {pid} {started}", namespace.display()))
}

/// Ends the children and removes the directories below `root` whose owner is one of these.
///
/// Best effort. Leaves directories of other users and other pid namespaces alone: the former could make us end any
/// process, and in the latter we cannot tell which processes live.
fn sweep(root: &Path, is_over: impl Fn(&str) -> bool) {
    let uid = rustix::process::geteuid().as_raw();
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let over: Vec<PathBuf> = entries
        .filter(|entry| {
            let meta = entry.metadata();
            entry.file_name().to_string_lossy().starts_with(PREFIX)
                && meta.is_ok_and(|meta| meta.is_dir() && meta.uid() == uid)
                && owner_of(&entry.path()).is_some_and(|owner| is_over(&owner))
        })
        .map(|entry| entry.path())
        .collect();
    for child in over.iter().flat_map(|dir| fs::read_to_string(dir.join(CHILD))) {
        end(&child);
    }
    // Only now: a child may write into the directories of others.
    for dir in over {
        let _ = fs::remove_dir_all(dir);
    }
}

/// Kills the process of this identity, which anybody may have started, and waits for its end.
#[allow(clippy::disallowed_methods, reason = "destructors wait, too")]
pub(super) fn end(identity: &str) {
    for _ in 0..5000 {
        let Some(pid) = living(identity) else { return };
        let _ = rustix::process::kill_process(pid, Signal::KILL);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// True if `identity` is of this pid namespace and its process has ended.
fn is_gone(identity: &str) -> bool {
    let here = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    identity.starts_with(&format!("{} ", here.display())) && living(identity).is_none()
}

pub(super) fn living(of: &str) -> Option<Pid> {
    let pid: u32 = of.split(' ').nth(1)?.parse().ok()?;
    (identity(pid)? == of).then_some(())?;
    Pid::from_raw(pid.try_into().ok()?)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, ExitStatus};

    use super::*;

    /// A directory as a killed test leaves it: the owner has ended, a child may still run.
    fn left_behind(root: &Path, name: &str, owner: &str, child: Option<u32>) -> PathBuf {
        let dir = root.join(format!("{PREFIX}{name}"));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join(OWNER), owner).unwrap();
        if let Some(pid) = child {
            fs::write(dir.join(CHILD), identity(pid).unwrap()).unwrap();
        }
        dir
    }

    fn identity_of_an_ended_process() -> String {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let name = identity(child.id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        name
    }

    #[test]
    fn the_child_and_the_files_of_a_test_that_was_killed_are_removed() {
        use std::os::unix::process::ExitStatusExt;
        let root = tempfile::tempdir().unwrap();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let dir = left_behind(
            root.path(),
            "dead",
            &identity_of_an_ended_process(),
            Some(child.id()),
        );
        sweep(root.path(), is_gone);
        assert!(!dir.exists());
        assert_eq!(child.wait().unwrap(), ExitStatus::from_raw(9));
    }

    #[test]
    fn what_belongs_to_a_living_test_or_to_another_namespace_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let owner = identity(std::process::id()).unwrap();
        let living = left_behind(root.path(), "living", &owner, Some(child.id()));
        let foreign = left_behind(root.path(), "foreign", "pid:[1] 2 3", None);
        let unrelated = root.path().join("unrelated");
        fs::create_dir(&unrelated).unwrap();
        sweep(root.path(), is_gone);
        assert!(living.exists() && foreign.exists() && unrelated.exists());
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_child_whose_pid_was_given_to_another_process_is_not_ended() {
        let name = identity(std::process::id()).unwrap();
        let reused = name.rsplit_once(' ').unwrap().0.to_owned() + " 1";
        assert!(living(&name).is_some());
        assert!(living(&reused).is_none());
    }
}
