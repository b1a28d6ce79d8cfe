//! What one tenant makes in masses, or has hang, keeps no other one waiting.

use std::time::Duration;

use controller_core::time::saturating_add;
use controller_runtime::clock::Clock;
use controller_testing::cluster::{now, whole};
use controller_testing::silence::HELD;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use local_control_plane::eventually;
use serde_json::json;

use crate::support::{Cluster, Finish, finished, job};

/// The tenant is the namespace `default`.
pub(crate) const OTHER: &str = "other";
/// More than there are workers, and three times as many as took them all for ever.
const JOBS: usize = 40;
const OTHERS: usize = 10;
/// How long anything may take, so that a slow binary shows how slow it is.
const WITHIN: Duration = Duration::from_mins(5);
const EVERY: Duration = Duration::from_secs(2);

/// Makes a Job of the other tenant that has finished; when it expires.
pub(crate) async fn another(cluster: &Cluster, name: &str) -> Timestamp {
    cluster.create(job(OTHER, name, Some(1))).await;
    let finish = whole(now());
    let status = Patch::Merge(json!({"status": finished(Finish::Complete, finish)}));
    let jobs = cluster.api_in(OTHER, "Job");
    jobs.patch_status(name, &PatchParams::default(), &status)
        .await
        .unwrap();
    saturating_add(finish, Duration::from_secs(1))
}

/// When we deleted that Job; waits until we have.
async fn deleted(cluster: &Cluster, name: &str) -> Timestamp {
    let logged = async || {
        let mut requests = cluster.requests().into_iter();
        requests.find(|asked| asked.is("delete", "jobs") && asked.namespace == OTHER && asked.name == name)
    };
    let deleted = eventually(WITHIN, "the other tenant's Job is deleted", logged).await;
    deleted.unwrap().answered
}

/// A webhook holds each delete of a Job of one tenant for ten seconds, and fails.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
#[allow(clippy::print_stdout, reason = "the figures")]
async fn live_jobs_behind_a_webhook_that_hangs_keep_no_other_job_waiting() {
    let cluster = Cluster::new().await;
    cluster.namespace(OTHER).await;
    let webhook = cluster.hang("default", "Job", "DELETE").await;
    cluster.finished_jobs("held", JOBS).await;
    let replica = cluster.start_leading(&[]).await;
    webhook.until_asked(1).await;
    // From the first tries on, and until the first ones are tried again.
    let mut waits = Vec::new();
    for number in 0..OTHERS {
        let name = format!("other-{number}");
        let expiry = another(&cluster, &name).await;
        waits.push(deleted(&cluster, &name).await.duration_since(expiry));
        Clock::system().sleep(EVERY).await;
    }
    let longest = waits.iter().max().unwrap();
    println!(
        "{} connections; others within {longest:#}: {waits:?}",
        webhook.connections()
    );
    assert!(*longest < HELD / 2, "{longest:#}");
    // What hangs may take as long as a drain.
    drop(webhook);
    assert_eq!(replica.stop().await, Some(0));
}
