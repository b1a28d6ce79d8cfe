//! Ours, kube-controller-manager and the floor take turns at the same work.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt, stream};
use kube::Api;
use kube::api::{ListParams, PartialObjectMeta, PostParams, WatchEvent, WatchParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::real::{ControlPlane, Options, Process, eventually};

use super::figures::{Figures, Results};
use super::{Turns, now};

/// How many requests a plain client has under way.
pub(super) const IN_FLIGHT: usize = 16;
/// After the work, before memory is read.
const REST: Duration = Duration::from_secs(10);
/// A process that hardly worked for so long has done what it had to.
const QUIET: Duration = Duration::from_secs(5);
/// How long a process may take to come to rest.
const QUIET_WITHIN: Duration = Duration::from_mins(5);

/// Who is compared with whom.
pub(super) struct Sides {
    /// The name of our binary.
    pub(super) ours: &'static str,
    /// Its flags; its requests are without limit in any case.
    pub(super) our_flags: &'static [&'static str],
    /// What kube-controller-manager runs.
    pub(super) theirs: &'static [&'static str],
    pub(super) their_flags: &'static [&'static str],
}

/// A cluster, and both sides.
pub(super) struct Site {
    pub(super) control_plane: ControlPlane,
    sides: &'static Sides,
    binary: PathBuf,
}

/// A row of the performance table.
pub(super) trait Row {
    fn site(&self) -> &Site;

    /// Undoes the work.
    async fn reset(&self) -> anyhow::Result<()>;

    /// Does the work as a plain client, [`IN_FLIGHT`] requests at a time.
    async fn floor(&self) -> anyhow::Result<()>;

    /// Has a process do the work; with the time that it took, and its memory after it.
    async fn measure(&self, start: impl FnOnce() -> anyhow::Result<Process>) -> anyhow::Result<Figures>;
}

impl Site {
    pub(super) async fn new(sides: &'static Sides) -> anyhow::Result<Self> {
        Ok(Self {
            binary: xtask::command::release_binary(sides.ours)?,
            control_plane: ControlPlane::start(Options::default()).await?,
            sides,
        })
    }

    pub(super) fn client(&self) -> kube::Client {
        self.control_plane.client()
    }

    /// Starts our binary.
    pub(super) fn ours(&self) -> anyhow::Result<Process> {
        self.ours_with(&self.our_flags())
    }

    /// Starts our binary of another version.
    fn before(&self, directory: &Path) -> anyhow::Result<Process> {
        self.spawn(&directory.join(self.sides.ours), &self.our_flags())
    }

    fn our_flags(&self) -> Vec<&'static str> {
        [&["--kube-api-qps=0"], self.sides.our_flags].concat()
    }

    /// Starts our binary with these flags alone.
    pub(super) fn ours_with(&self, flags: &[&str]) -> anyhow::Result<Process> {
        self.spawn(&self.binary, flags)
    }

    fn spawn(&self, binary: &Path, flags: &[&str]) -> anyhow::Result<Process> {
        let kubeconfig = format!("--kubeconfig={}", self.control_plane.kubeconfig().display());
        let all = [&*kubeconfig, "--http-bind-address=127.0.0.1:0"];
        Ok(Process::spawn(binary, &[&all, flags].concat(), &[])?)
    }

    /// Starts kube-controller-manager with the same controller.
    pub(super) fn theirs(&self) -> anyhow::Result<Process> {
        let unlimited = ["--kube-api-qps=100000", "--kube-api-burst=100000"];
        let flags = [&unlimited, self.sides.their_flags].concat();
        Ok(self
            .control_plane
            .start_controller_manager(self.sides.theirs, &flags)?)
    }

    /// How many bytes our binary has.
    pub(super) fn size(&self) -> anyhow::Result<u64> {
        Ok(std::fs::metadata(&self.binary)?.len())
    }

    /// Prints what came of a row.
    pub(super) fn print(&self, title: &str, results: &Results) {
        results.print(title, self.sides.ours);
    }

    /// Each side `runs` times, in turns, where there is no floor.
    pub(super) async fn alternate(
        &self,
        turns: &Turns,
        measure: impl AsyncFn(Process) -> anyhow::Result<Figures>,
    ) -> anyhow::Result<Results> {
        let (mut results, runs) = (Results::default(), turns.runs);
        for run in 1..=runs {
            let run_side = async || measure(self.ours()?).await;
            results.ours.push(self.turn(run_side).await?);
            if let Some(before) = &turns.before {
                let run_side = async || measure(self.before(before)?).await;
                results.before.push(self.turn(run_side).await?);
            }
            if !turns.ours_alone {
                let run_side = async || measure(self.theirs()?).await;
                results.theirs.push(self.turn(run_side).await?);
            }
            eprintln!("{}: run {run} of {runs} done", self.sides.ours);
        }
        Ok(results)
    }

    /// One side's turn, with the CPU time that the API server spent on it.
    async fn turn(&self, side: impl AsyncFnOnce() -> anyhow::Result<Figures>) -> anyhow::Result<Figures> {
        let server = self.control_plane.api_server().context("the API server runs")?;
        let begun = server.usage()?.cpu;
        let figures = side().await?;
        let spent = server.usage()?.cpu.saturating_sub(begun);
        Ok(Figures {
            server: spent,
            ..figures
        })
    }
}

/// Each side `runs` times, in turns.
pub(super) async fn alternate(row: &impl Row, turns: &Turns) -> anyhow::Result<Results> {
    let (site, runs) = (row.site(), turns.runs);
    let mut results = Results::default();
    for run in 1..=runs {
        row.reset().await?;
        let floor = async || {
            let began = now();
            row.floor().await?;
            Ok(Figures::of_floor(began.elapsed()))
        };
        results.floor.push(site.turn(floor).await?);
        row.reset().await?;
        let run_side = async || row.measure(|| site.ours()).await;
        results.ours.push(site.turn(run_side).await?);
        if let Some(before) = &turns.before {
            row.reset().await?;
            let run_side = async || row.measure(|| site.before(before)).await;
            results.before.push(site.turn(run_side).await?);
        }
        if !turns.ours_alone {
            row.reset().await?;
            let run_side = async || row.measure(|| site.theirs()).await;
            results.theirs.push(site.turn(run_side).await?);
        }
        eprintln!("{}: run {run} of {runs} done", site.sides.ours);
    }
    Ok(results)
}

/// Sets `work` going and waits until `count` objects are as `done` has them, as told by a watch: lists would load
/// the server. What `work` returned, the whole time and that until half of them were.
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
    let version = version.context("the list has no resourceVersion")?;
    let params = WatchParams::default().timeout(290);
    let mut changes = pin!(api.watch_metadata(&params, &version).await?);
    let began = now();
    let waiting = async {
        let (mut there, mut half) = (BTreeSet::new(), None);
        while there.len() < count {
            let change = changes.try_next().await?.context("the watch ended")?;
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

/// Whether a change is a delete: finalizers and grace periods may keep the object.
pub(super) fn deletes<K>(change: &WatchEvent<PartialObjectMeta<K>>) -> bool {
    match change {
        WatchEvent::Modified(object) => object.metadata.deletion_timestamp.is_some(),
        WatchEvent::Deleted(_) => true,
        _ => false,
    }
}

/// Sends `request` for each of `items`, [`IN_FLIGHT`] at a time.
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

/// Lets `process` rest, reads what it uses, and ends it.
pub(super) async fn finish(mut process: Process, took: Duration, half: Duration) -> anyhow::Result<Figures> {
    rest().await?;
    let usage = process.usage()?;
    process.terminate()?;
    process.wait_exit(Duration::from_secs(30)).await?;
    Ok(Figures {
        took,
        half,
        usage: Some(usage),
        server: Duration::ZERO,
    })
}

/// Waits until `process` has read the cluster and waits itself.
pub(super) async fn until_quiet(process: &Process) -> anyhow::Result<()> {
    let mut seen = (now(), process.usage()?.cpu);
    let settled = eventually(QUIET_WITHIN, "the process is at rest", async || {
        let cpu = match process.usage() {
            Ok(usage) => usage.cpu,
            Err(error) => return Some(Err(error)),
        };
        // A twentieth of a core is what timers cost.
        if cpu.saturating_sub(seen.1) * 20 > QUIET {
            seen = (now(), cpu);
        }
        (seen.0.elapsed() >= QUIET).then_some(Ok(()))
    });
    Ok(settled.await??)
}

/// Waits so that memory settles.
pub(super) async fn rest() -> anyhow::Result<()> {
    let began = now();
    Ok(eventually(REST * 2, "memory has settled", async || {
        (began.elapsed() >= REST).then_some(())
    })
    .await?)
}

/// What names an object among those of its kind: its name and its uid.
pub(super) fn identity(object: &Value) -> anyhow::Result<(&str, &str)> {
    Ok((text(object, "name")?, text(object, "uid")?))
}

pub(super) fn text<'a>(object: &'a Value, field: &str) -> anyhow::Result<&'a str> {
    let value = object["metadata"][field].as_str();
    value.with_context(|| format!("an object has no {field}"))
}

/// `object` as it is in etcd.
pub(super) fn stored(object: &impl Serialize) -> anyhow::Result<Value> {
    let mut object = serde_json::to_value(object)?;
    object["metadata"]["resourceVersion"].take();
    Ok(object)
}

/// `form` under the name `kind-NUMBER` and with a uid of its own: no two objects of a cluster have one.
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

/// Makes an object from its JSON; what the API server made of it.
pub(super) async fn create<K>(api: &Api<K>, object: Value) -> anyhow::Result<K>
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let object = serde_json::from_value(object)?;
    Ok(api.create(&PostParams::default(), &object).await?)
}
