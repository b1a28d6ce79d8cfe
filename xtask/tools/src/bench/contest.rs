//! Our controller, kube-controller-manager and the floor take turns at the same work.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::Api;
use kube::api::{ListParams, PartialObjectMeta, PostParams, WatchEvent, WatchParams};
use local_control_plane::{ControlPlane, Options, Process, eventually};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::figures::{Figures, Results, Who};
use super::server::{Load, Meter};
use super::{Turns, now};

/// Concurrent requests of a plain client.
pub(super) const IN_FLIGHT: usize = 16;
/// Pause between the work and the reading of memory.
const REST: Duration = Duration::from_secs(10);
/// A process that has been nearly idle for this long is done.
const QUIET: Duration = Duration::from_secs(5);
/// Time limit for a process to come to rest.
const QUIET_WITHIN: Duration = Duration::from_mins(5);

/// The two sides to compare.
pub(super) struct Sides {
    /// Name of our binary.
    pub(super) ours: &'static str,
    /// Flags of our binary, in addition to unlimited requests.
    pub(super) our_flags: &'static [&'static str],
    pub(super) theirs: &'static [&'static str],
    pub(super) their_flags: &'static [&'static str],
}

/// Time limit for the work of a row.
const GIVEN_UP_AFTER: Duration = Duration::from_mins(4);

/// A cluster and both sides.
pub(super) struct Site {
    pub(super) control_plane: ControlPlane,
    sides: &'static Sides,
    binary: PathBuf,
    before: Option<PathBuf>,
}

/// A row of the performance table.
pub(super) trait Row {
    fn site(&self) -> &Site;

    async fn reset(&self) -> anyhow::Result<()>;

    /// Does the work as a plain client, with [`IN_FLIGHT`] requests at a time.
    async fn floor(&self) -> anyhow::Result<()>;

    /// Has a process do the work; returns its time, and its memory afterwards.
    async fn measure(&self, start: impl FnOnce() -> anyhow::Result<Process>) -> anyhow::Result<Figures>;
}

impl Who {
    fn all(turns: &Turns) -> impl Iterator<Item = Self> {
        let before = turns.before.is_some().then_some(Self::Before);
        let theirs = (!turns.ours_alone).then_some(Self::Theirs);
        [Some(Self::Ours), before, theirs].into_iter().flatten()
    }
}

impl Site {
    pub(super) async fn new(sides: &'static Sides, turns: &Turns) -> anyhow::Result<Self> {
        Ok(Self {
            binary: xtask::command::release_binary(sides.ours)?,
            control_plane: ControlPlane::start(Options::default()).await?,
            before: turns.before.clone(),
            sides,
        })
    }

    /// The same cluster for other sides.
    pub(super) fn with(self, sides: &'static Sides) -> anyhow::Result<Self> {
        let binary = xtask::command::release_binary(sides.ours)?;
        Ok(Self {
            sides,
            binary,
            ..self
        })
    }

    pub(super) fn client(&self) -> kube::Client {
        self.control_plane.client()
    }

    /// Starts a process of either side.
    pub(super) fn start(&self, who: Who) -> anyhow::Result<Process> {
        let our_flags = [&["--kube-api-qps=0"], self.sides.our_flags].concat();
        match who {
            Who::Ours => self.ours(&self.binary, &our_flags),
            Who::Before => {
                let directory = self.before.as_ref().context("no --before")?;
                self.ours(&directory.join(self.sides.ours), &our_flags)
            }
            Who::Theirs => {
                let unlimited = ["--kube-api-qps=100000", "--kube-api-burst=100000"];
                let flags = [&unlimited, self.sides.their_flags].concat();
                let theirs = self.sides.theirs;
                Ok(self.control_plane.start_controller_manager(theirs, &flags)?)
            }
        }
    }

    /// Starts our binary without flags, as a user does.
    pub(super) fn plain(&self) -> anyhow::Result<Process> {
        self.ours(&self.binary, &[])
    }

    /// Starts a subcommand of our binary.
    pub(super) fn subcommand(&self, name: &str) -> anyhow::Result<Process> {
        let kubeconfig = format!("--kubeconfig={}", self.control_plane.kubeconfig().display());
        Ok(Process::spawn(&self.binary, &[name, &kubeconfig], &[])?)
    }

    fn ours(&self, binary: &Path, flags: &[&str]) -> anyhow::Result<Process> {
        let kubeconfig = format!("--kubeconfig={}", self.control_plane.kubeconfig().display());
        let all = [&*kubeconfig, "--http-bind-address=127.0.0.1:0"];
        Ok(Process::spawn(binary, &[&all, flags].concat(), &[])?)
    }

    /// Size of our binary in bytes.
    pub(super) fn size(&self) -> anyhow::Result<u64> {
        Ok(std::fs::metadata(&self.binary)?.len())
    }

    /// Prints the results of a row.
    pub(super) fn print(&self, title: &str, results: &Results) {
        results.print(title, self.sides.ours);
    }

    /// Runs each side `runs` times, alternating, without a floor.
    pub(super) async fn alternate(
        &mut self,
        turns: &Turns,
        measure: impl AsyncFn(&mut Self, Who) -> anyhow::Result<Figures>,
    ) -> anyhow::Result<Results> {
        let mut results = Results::default();
        for run in 1..=turns.runs {
            for who in Who::all(turns) {
                let meter = Meter::start(&self.control_plane).await?;
                let figures = measure(self, who).await?;
                let server = meter.stop(&self.control_plane).await?;
                results.of(who).push(Figures { server, ..figures });
            }
            self.report(run, turns);
        }
        Ok(results)
    }

    fn report(&self, run: usize, turns: &Turns) {
        eprintln!("{}: run {run} of {} done", self.sides.ours, turns.runs);
    }
}

/// Runs each side `runs` times, alternating.
pub(super) async fn alternate(row: &impl Row, turns: &Turns) -> anyhow::Result<Results> {
    let site = row.site();
    let mut results = Results::default();
    for run in 1..=turns.runs {
        row.reset().await?;
        let meter = Meter::start(&site.control_plane).await?;
        let began = now();
        row.floor().await?;
        let took = began.elapsed();
        let server = meter.stop(&site.control_plane).await?;
        results.floor.push(Figures::of_floor(took, server));
        for who in Who::all(turns) {
            row.reset().await?;
            let meter = Meter::start(&site.control_plane).await?;
            let figures = row.measure(|| site.start(who)).await;
            let figures = figures.with_context(|| format!("run {run} of {who:?}"))?;
            let server = meter.stop(&site.control_plane).await?;
            results.of(who).push(Figures { server, ..figures });
        }
        site.report(run, turns);
    }
    Ok(results)
}

/// Starts `work` and waits until a watch has shown `count` objects that satisfy `done`; lists would load the server.
/// Returns the result of `work`, the whole time, and the time for half of the objects.
pub(super) async fn watched<K, T>(
    api: &Api<K>,
    count: usize,
    done: impl Fn(&WatchEvent<PartialObjectMeta<K>>) -> bool,
    work: impl AsyncFnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<(T, Duration, Duration)>
where
    K: Clone + Debug + DeserializeOwned,
{
    let list = api.list_metadata(&ListParams::default().limit(1)).await?;
    let version = list.metadata.resource_version;
    let mut version = version.context("the list has no resourceVersion")?;
    let params = WatchParams::default().timeout(290);
    let mut changes = api.watch_metadata(&params, &version).await?.boxed();
    let began = now();
    let waiting = async {
        let (mut there, mut half) = (BTreeSet::new(), None);
        while there.len() < count {
            let Some(change) = changes.try_next().await? else {
                // The API server may end a watch at any time.
                let (took, done) = (began.elapsed(), there.len());
                ensure!(
                    took < GIVEN_UP_AFTER,
                    "{done} of {count} are done after {took:.0?}"
                );
                changes = api.watch_metadata(&params, &version).await?.boxed();
                continue;
            };
            if let WatchEvent::Added(object) | WatchEvent::Modified(object) = &change {
                version = object.metadata.resource_version.clone().unwrap_or(version);
            }
            match &change {
                WatchEvent::Error(status) => bail!("the watch failed: {}", status.message),
                WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object)
                    if done(&change) =>
                {
                    let metadata = &object.metadata;
                    there.insert((metadata.namespace.clone(), metadata.name.clone()));
                }
                _ => {}
            }
            if there.len() * 2 >= count {
                half.get_or_insert_with(|| began.elapsed());
            }
        }
        Ok((began.elapsed(), half.unwrap_or_default()))
    };
    let (outcome, (took, half)) = futures::try_join!(work(), waiting)?;
    Ok((outcome, took, half))
}

/// True if a change is a delete, even if finalizers or grace periods keep the object.
pub(super) fn deletes<K>(change: &WatchEvent<PartialObjectMeta<K>>) -> bool {
    match change {
        WatchEvent::Modified(object) => object.metadata.deletion_timestamp.is_some(),
        WatchEvent::Deleted(_) => true,
        _ => false,
    }
}

/// Calls `request` for each of `items`, [`IN_FLIGHT`] at a time.
pub(super) async fn send<T>(
    items: impl IntoIterator<Item = T>,
    request: impl AsyncFn(T) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    stream::iter(items)
        .map(|item| request(item))
        .buffer_unordered(IN_FLIGHT)
        .try_collect()
        .await
}

/// Lets `process` rest, reads its usage, and ends it.
pub(super) async fn finish(mut process: Process, took: Duration, half: Duration) -> anyhow::Result<Figures> {
    rest().await?;
    let usage = process.usage()?;
    process.terminate()?;
    process.wait_exit(Duration::from_secs(30)).await?;
    Ok(Figures {
        took,
        half,
        usage: Some(usage),
        server: Load::default(),
    })
}

/// Waits until `process` has read the cluster and is idle; returns when it became idle.
pub(super) async fn until_quiet(process: &Process) -> anyhow::Result<Instant> {
    until_quiet_after(process, Duration::ZERO, QUIET).await
}

/// Waits until `process` has used this much CPU time and has been idle for `quiet`; returns when it became idle.
pub(super) async fn until_quiet_after(
    process: &Process,
    used: Duration,
    quiet: Duration,
) -> anyhow::Result<Instant> {
    let mut seen = (now(), process.usage()?.cpu);
    let settled = eventually(QUIET_WITHIN, "the process is at rest", async || {
        let cpu = match process.usage() {
            Ok(usage) => usage.cpu,
            Err(error) => return Some(Err(error)),
        };
        // Timers alone use up to a twentieth of a core.
        if cpu < used || cpu.saturating_sub(seen.1) * 20 > quiet {
            seen = (now(), cpu);
        }
        (seen.0.elapsed() >= quiet).then_some(Ok(()))
    });
    settled.await??;
    Ok(seen.0)
}

/// Waits for memory to settle.
pub(super) async fn rest() -> anyhow::Result<()> {
    let began = now();
    Ok(eventually(REST * 2, "memory has settled", async || {
        (began.elapsed() >= REST).then_some(())
    })
    .await?)
}

/// Name and uid, which identify an object of a kind.
pub(super) fn identity(object: &Value) -> anyhow::Result<(&str, &str)> {
    Ok((text(object, "name")?, text(object, "uid")?))
}

pub(super) fn text<'a>(object: &'a Value, field: &str) -> anyhow::Result<&'a str> {
    let value = object["metadata"][field].as_str();
    value.with_context(|| format!("an object has no {field}"))
}

/// `object` as stored in etcd.
pub(super) fn stored(object: &impl Serialize) -> anyhow::Result<Value> {
    let mut object = serde_json::to_value(object)?;
    object["metadata"]["resourceVersion"].take();
    Ok(object)
}

/// A copy of `form` with the name `kind-NUMBER` and a unique uid.
pub(super) fn copy(form: &Value, kind: &str, number: usize) -> Value {
    let mut object = form.clone();
    let group = kind.len();
    object["metadata"]["name"] = json!(name(kind, number));
    object["metadata"]["uid"] = json!(format!("{group:08x}-0000-4000-8000-{number:012x}"));
    object
}

pub(super) fn name(kind: &str, number: usize) -> String {
    format!("{kind}-{number:05}")
}

/// Creates an object from JSON; returns the API server's version of it.
pub(super) async fn create<K>(api: &Api<K>, object: Value) -> anyhow::Result<K>
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let object = serde_json::from_value(object)?;
    Ok(api.create(&PostParams::default(), &object).await?)
}
