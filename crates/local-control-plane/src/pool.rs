//! Control planes that wait for a test, each a file in a directory.
//!
//! Who renames the file has the control plane. It belongs to the process that holds it, and to the owner of the
//! directory while it waits: it ends with either.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::baseline::Baseline;
use super::scratch::{self, Scratch};
use super::{ControlPlane, Error, Options};

/// Variable with the directory of the pool that the test processes of `cargo xtask test` share.
const SHARED: &str = "CONTROL_PLANE_POOL";

/// The pool of this process. It ends when no test has one of it: nobody drops a static.
static POOL: Mutex<Weak<Pool>> = Mutex::new(Weak::new());

pub(super) struct Pool {
    dir: PathBuf,
    /// Identity of the process with which those end that wait.
    owner: String,
    /// The directory, if it is of this process alone.
    own: Option<Scratch>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Slot {
    pub(super) plane: ControlPlane,
    /// As it started.
    pub(super) bare: Baseline,
    /// As it was prepared, by this name.
    pub(super) prepared: Option<(String, Baseline)>,
}

/// Keeps a pool of control planes for other processes, until standard input ends.
///
/// Its directory is the line on standard output, and a test process finds it in `$CONTROL_PLANE_POOL`. At the end
/// nothing is left of the control planes that wait.
pub fn keep_pool() -> Result<(), Error> {
    let pool = Pool::own()?;
    let failed = |source| Error::File {
        doing: "serve",
        path: pool.dir.clone(),
        source,
    };
    writeln!(io::stdout(), "{}", pool.dir.display()).map_err(failed)?;
    io::copy(&mut io::stdin().lock(), &mut io::sink()).map_err(failed)?;
    pool.end();
    Ok(())
}

impl Pool {
    pub(super) fn of_process() -> Result<Arc<Self>, Error> {
        let mut pool = POOL.lock();
        if let Some(pool) = pool.upgrade() {
            return Ok(pool);
        }
        let shared = std::env::var_os(SHARED).and_then(|dir| Self::shared(Path::new(&dir)));
        let new = Arc::new(shared.map_or_else(Self::own, Ok)?);
        *pool = Arc::downgrade(&new);
        Ok(new)
    }

    fn own() -> Result<Self, Error> {
        let dir = Scratch::new()?;
        Ok(Self {
            dir: dir.path().to_owned(),
            owner: scratch::own_identity(),
            own: Some(dir),
        })
    }

    /// The pool of another process; `None` if that has ended.
    fn shared(dir: &Path) -> Option<Self> {
        Some(Self {
            dir: dir.to_owned(),
            owner: scratch::owner_of(dir)?,
            own: None,
        })
    }

    /// Takes one with these options, if possible one that is prepared that way already.
    pub(super) fn find(&self, options: &Options, prepared: &str) -> Option<Slot> {
        let (alike, same) = (prefix(options, None), prefix(options, Some(prepared)));
        let mut waiting = self.waiting();
        waiting.sort_by_key(|name| !name.starts_with(&same));
        let mut fit = waiting.iter().filter(|name| name.starts_with(&alike));
        fit.find_map(|name| self.take(name))
    }

    /// Takes the one that has waited longest, if there are more than `most`.
    pub(super) fn surplus(&self, most: usize) -> Option<Slot> {
        let waiting = self.waiting();
        (waiting.len() > most).then(|| waiting.iter().find_map(|name| self.take(name)))?
    }

    /// Lets it wait for another test. An error ends it.
    pub(super) fn give(&self, options: &Options, mut slot: Slot) -> Result<(), Error> {
        slot.plane.drop_client();
        let prepared = slot.prepared.as_ref().map_or("", |(name, _)| name);
        let name = format!("{}{}", prefix(options, Some(prepared)), slot.plane.etcd().pid());
        // First: one that waits when the owner ends is found by this.
        slot.plane.belongs_to(&self.owner)?;
        let written = self.dir.join(format!(".{name}"));
        let file = serde_json::to_vec(&slot).map_err(io::Error::from);
        file.and_then(|text| fs::write(&written, text))
            .and_then(|()| fs::rename(&written, self.dir.join(name)))
            .map_err(|source| Error::File {
                doing: "write",
                path: written,
                source,
            })?;
        mem::forget(slot);
        Ok(())
    }

    /// `None` if another one was faster, or the pool has ended.
    fn take(&self, name: &str) -> Option<Slot> {
        let taken = self.dir.join(format!(".{name}"));
        fs::rename(self.dir.join(name), &taken).ok()?;
        let slot: Slot = serde_json::from_slice(&fs::read(&taken).ok()?).ok()?;
        slot.plane.belongs_to(&scratch::own_identity()).ok()?;
        let _ = fs::remove_file(taken);
        Some(slot)
    }

    /// The names of those that wait, the one that has waited longest first.
    fn waiting(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut found: Vec<_> = entries
            .map(|entry| {
                let since = entry.metadata().and_then(|file| file.modified()).ok();
                (since, entry.file_name().to_string_lossy().into_owned())
            })
            // Others are on their way in or out, or no control planes.
            .filter(|(_, name)| name.contains('-') && !name.starts_with('.'))
            .collect();
        found.sort();
        found.into_iter().map(|(_, name)| name).collect()
    }

    /// Ends all that waits.
    fn end(self) {
        // Nobody can give another one from now on.
        let over = self.dir.with_extension("over");
        let _ = fs::rename(&self.dir, &over);
        scratch::sweep_own();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.own.is_some() {
            while self.surplus(0).is_some() {}
        }
    }
}

/// How the names begin of those with these options.
fn prefix(options: &Options, prepared: Option<&str>) -> String {
    let hash = |of: &dyn Fn(&mut DefaultHasher)| {
        let mut hasher = DefaultHasher::new();
        of(&mut hasher);
        format!("{:016x}-", hasher.finish())
    };
    let prepared = prepared.map(|prepared| hash(&|hasher| prepared.hash(hasher)));
    hash(&|hasher| options.hash(hasher)) + &prepared.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    use serde_json::{Value, json};

    use super::super::Process;
    use super::*;

    /// Variable that says what [`another_process`] does, and with which pool.
    const ROLE: &str = "POOL_TEST";

    /// Two programs as a control plane.
    fn slot(prepared: Option<&str>) -> Slot {
        let mut plane = json!({
            "assets": "", "args": [], "port": 0, "admin": "", "kubeconfigs": 0, "audit": null, "feature_gates": null,
        });
        for name in ["etcd", "api_server"] {
            let process = Process::spawn(Path::new("/bin/sleep"), &["60"], &[]).unwrap();
            plane[name] = json!(process);
            mem::forget(process);
        }
        let scratch = Scratch::new().unwrap();
        plane["scratch"] = json!(scratch);
        mem::forget(scratch);
        let baseline = json!({"objects": {}, "served": []});
        let prepared = prepared.map(|name| json!([name, baseline]));
        serde_json::from_value(json!({"plane": plane, "bare": baseline, "prepared": prepared})).unwrap()
    }

    fn pids(slot: &Slot) -> Vec<u32> {
        slot.plane.processes().map(Process::pid).collect()
    }

    fn run(pids: &[u32]) -> bool {
        let running = pids.iter().filter(|pid| scratch::identity(**pid).is_some());
        let running = running.count();
        assert!(running == 0 || running == pids.len(), "{running} run");
        running > 0
    }

    fn find(pool: &Pool) -> Option<Slot> {
        pool.find(&Options::default(), "")
    }

    fn give(pool: &Pool, slot: Slot) -> Result<Vec<u32>, Error> {
        let pids = pids(&slot);
        pool.give(&Options::default(), slot).map(|()| pids)
    }

    /// Not a test: what [`other`] starts.
    #[test]
    fn another_process() {
        match std::env::var(ROLE).ok().as_deref() {
            None => {}
            Some("") => keep_pool().unwrap(),
            Some(dir) => {
                let taken = find(&Pool::shared(Path::new(dir)).unwrap()).unwrap();
                println!("{}", json!(pids(&taken)));
                io::copy(&mut io::stdin(), &mut io::sink()).unwrap();
            }
        }
    }

    /// Another process: one that keeps a pool, or one that takes something from the pool in this directory. Also
    /// returns what it prints first.
    fn other(dir: &str) -> (Child, String) {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "pool::tests::another_process", "--nocapture"]);
        child.env(ROLE, dir).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut lines = lines.map(Result::unwrap);
        let said = lines.find(|line| line.starts_with(['/', '['])).unwrap();
        (child, said)
    }

    #[test]
    fn one_of_many_gets_what_waits_and_all_that_waits_ends_with_the_pool() {
        let pool = Pool::own().unwrap();
        let given = give(&pool, slot(None)).unwrap();
        let taken = std::thread::scope(|scope| {
            let all = [0; 8].map(|_| scope.spawn(|| find(&pool)));
            all.map(|one| one.join().unwrap()).into_iter().flatten().next()
        });
        let taken = taken.unwrap();
        assert_eq!(pids(&taken), given);
        assert!(find(&pool).is_none());
        give(&pool, taken).unwrap();
        assert!(run(&given));
        drop(pool);
        assert!(!run(&given));
    }

    #[test]
    fn what_is_prepared_alike_is_taken_first_and_what_has_other_options_never() {
        let pool = Pool::own().unwrap();
        let [one, two] = [Some("one"), Some("two")].map(|name| give(&pool, slot(name)).unwrap());
        let other = Options {
            pod_groups: true,
            ..Options::default()
        };
        assert!(pool.find(&other, "one").is_none());
        let takes = |name: &str| pids(&pool.find(&Options::default(), name).unwrap());
        assert_eq!(takes("two"), two);
        assert_eq!(takes("two"), one);
    }

    #[test]
    fn the_one_that_has_waited_longest_goes_when_there_are_too_many() {
        let pool = Pool::own().unwrap();
        let first = give(&pool, slot(Some("z"))).unwrap();
        give(&pool, slot(Some("a"))).unwrap();
        assert!(pool.surplus(2).is_none());
        assert_eq!(pids(&pool.surplus(1).unwrap()), first);
    }

    #[test]
    fn nothing_is_left_of_a_pool_whose_keeper_ends_nor_of_a_process_that_was_killed() {
        let (mut keeper, dir) = other("");
        let pool = Pool::shared(Path::new(&dir)).unwrap();
        let held = give(&pool, slot(None)).unwrap();
        let (mut holder, said) = other(&dir);
        assert_eq!(serde_json::from_str::<Value>(&said).unwrap(), json!(held));
        assert!(find(&pool).is_none());
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert!(find(&pool).is_none());
        let waiting = give(&pool, slot(None)).unwrap();
        assert!(run(&held) && run(&waiting));

        keeper.wait().unwrap();
        assert!(!run(&held) && !run(&waiting));
        assert!(!Path::new(&dir).exists());
        let late = slot(None);
        let pids = pids(&late);
        assert!(give(&pool, late).is_err());
        assert!(!run(&pids));
        assert!(Pool::shared(Path::new(&dir)).is_none());
    }

    #[test]
    fn what_a_killed_keeper_left_ends_when_the_next_one_begins() {
        let (mut keeper, dir) = other("");
        let pool = Pool::shared(Path::new(&dir)).unwrap();
        let waiting = give(&pool, slot(None)).unwrap();
        keeper.kill().unwrap();
        keeper.wait().unwrap();
        assert!(run(&waiting));
        let (mut next, _) = other("");
        assert!(!run(&waiting));
        assert!(!Path::new(&dir).exists());
        next.wait().unwrap();
    }
}
