//! Directories of a test, and the remains of tests that were killed.
//!
//! A destructor stops a child and removes its files, also after a panic. It does not run if the test process itself is
//! killed; so each directory names its maker and its child, and the next test process ends the children and removes the
//! directories of dead makers.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Once;

use rustix::process::{Pid, Signal};

use super::Error;
use super::usage::Stat;

const PREFIX: &str = "controllers-test-";
/// File with the identity of the process that made the directory.
const OWNER: &str = "owner";
/// File with the identity of the child that runs in the directory.
const CHILD: &str = "child";

/// A directory that is removed on drop.
#[derive(Debug)]
pub(super) struct Scratch(tempfile::TempDir);

impl Scratch {
    pub(super) fn new() -> Result<Self, Error> {
        static SWEPT: Once = Once::new();
        let root = std::env::temp_dir();
        SWEPT.call_once(|| sweep(&root));
        let dir = tempfile::Builder::new()
            .prefix(PREFIX)
            .tempdir_in(&root)
            .map_err(|source| Error::File {
                doing: "create a directory in",
                path: root,
                source,
            })?;
        let scratch = Self(dir);
        scratch.write(OWNER, &identity(std::process::id()).unwrap_or_default())?;
        Ok(scratch)
    }

    /// Records that `pid` must not outlive this directory.
    pub(super) fn belongs_to(&self, pid: u32) -> Result<(), Error> {
        self.write(CHILD, &identity(pid).unwrap_or_default())?;
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
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

/// Identifies a living process for good: pid namespace, pid, start time.
fn identity(pid: u32) -> Option<String> {
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    let started = Stat::read(pid).ok()?.started;
    Some(format!("{} {pid} {started}", namespace.display()))
}

/// Ends the children and removes the directories below `root` whose owner is gone.
///
/// Best effort. Leaves directories of other users and other pid namespaces alone: the former could make us end any
/// process, and in the latter we cannot tell which processes live.
fn sweep(root: &Path) {
    let uid = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry
                .metadata()
                .is_ok_and(|meta| meta.is_dir() && meta.uid() == uid);
        if ours && fs::read_to_string(entry.path().join(OWNER)).is_ok_and(|owner| is_gone(&owner)) {
            if let Some(child) = fs::read_to_string(entry.path().join(CHILD))
                .ok()
                .and_then(|child| living(&child))
            {
                let _ = rustix::process::kill_process(child, Signal::KILL);
            }
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// True if `identity` is of this pid namespace and its process has ended.
fn is_gone(identity: &str) -> bool {
    let here = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    identity.starts_with(&format!("{} ", here.display())) && living(identity).is_none()
}

fn living(of: &str) -> Option<Pid> {
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
        sweep(root.path());
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
        sweep(root.path());
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
