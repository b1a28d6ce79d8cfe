//! Ours, kube-controller-manager and the floor take turns at the same work.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::serde::de::DeserializeOwned;
use kube::Api;
use kube::api::{ListParams, PartialObjectMeta, WatchEvent, WatchParams};
use testkit::real::{ControlPlane, Process, eventually};

use super::figures::{Figures, Results};
use super::now;

/// How many requests a plain client has under way.
pub(super) const IN_FLIGHT: usize = 16;
/// After the work, before memory is read.
const REST: Duration = Duration::from_secs(10);
/// A process that hardly worked for so long has done what it had to.
const QUIET: Duration = Duration::from_secs(5);
/// How long a process may take to come to rest.
const QUIET_WITHIN: Duration = Duration::from_mins(5);

/// A row of the performance table.
pub(super) trait Row {
    /// The name of our binary.
    const CONTROLLER: &'static str;

    /// Undoes the work.
    async fn reset(&self) -> anyhow::Result<()>;

    /// Does the work as a plain client, [`IN_FLIGHT`] requests at a time.
    async fn floor(&self) -> anyhow::Result<()>;

    /// Starts our binary.
    fn ours(&self) -> anyhow::Result<Process>;

    /// Starts kube-controller-manager with the same controller.
    fn theirs(&self) -> anyhow::Result<Process>;

    /// Has a process do the work; with the time that it took, and its memory after it.
    async fn measure(&self, start: impl FnOnce() -> anyhow::Result<Process>) -> anyhow::Result<Figures>;
}

/// Each side `runs` times, in turns.
pub(super) async fn alternate<R: Row>(row: &R, runs: usize) -> anyhow::Result<Results> {
    let mut results = Results::default();
    for run in 1..=runs {
        row.reset().await?;
        let began = now();
        row.floor().await?;
        results.floor.push(Figures::of_floor(began.elapsed()));
        row.reset().await?;
        results.ours.push(row.measure(|| row.ours()).await?);
        row.reset().await?;
        results.theirs.push(row.measure(|| row.theirs()).await?);
        eprintln!("{}: run {run} of {runs} done", R::CONTROLLER);
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

/// Starts kube-controller-manager with `controllers`, without limits on its requests.
pub(super) fn controller_manager(
    control_plane: &ControlPlane,
    controllers: &[&str],
    more: &[&str],
) -> anyhow::Result<Process> {
    let unlimited = ["--kube-api-qps=100000", "--kube-api-burst=100000"];
    Ok(control_plane.start_controller_manager(controllers, &[&unlimited, more].concat())?)
}

/// Starts a binary of ours.
pub(super) fn our_process(binary: &Path, kubeconfig: &Path, more: &[&str]) -> anyhow::Result<Process> {
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    let args = [&[&*kubeconfig, "--http-bind-address=127.0.0.1:0"], more].concat();
    Ok(Process::spawn(binary, &args, &[])?)
}
