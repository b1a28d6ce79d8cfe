//! Clean-up policies, with the permissions that the chart gives for them, next to the cluster's own loop.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use controller_runtime::clock::Clock;
use controller_testing::cluster::{now, shipped_or_debug, whole};
use controller_testing::{long_or_short, soon};
use futures::{StreamExt, stream};
use jiff::SignedDuration;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, ListParams, Patch, PatchParams};
use local_control_plane::eventually;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::support::{BUILT, Cluster, Finish, Jobs, finished, job};

pub(crate) fn file(text: &str) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    file
}

pub(crate) fn flag(file: &NamedTempFile) -> String {
    format!("--config={}", file.path().display())
}

/// A pod that nobody runs, as a kubelet leaves it when it has ended.
async fn finished_pod(cluster: &Cluster, name: &str, phase: &str, ago: i64) {
    cluster
        .create(json!({
            "kind": "Pod", "metadata": {"namespace": "default", "name": name},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "registry.example/pod"}]},
        }))
        .await;
    let end = whole(now()) - SignedDuration::from_secs(ago);
    let terminated = json!({"exitCode": 0, "startedAt": end, "finishedAt": end});
    let status = json!({"phase": phase, "containerStatuses": [{
        "name": "main", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": terminated},
    }]});
    cluster.merge_status("Pod", name, status).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_policies_delete_next_to_the_built_in_loop_with_the_charts_permissions() {
    let cluster = Cluster::with_policies().await;
    let _built_in = cluster.start_built_in(" TTL after finished controller").await;
    cluster.job("by-policy", None).await;
    cluster.finish("by-policy", Finish::Complete, 60).await;
    cluster.job("kept", None).await;
    cluster
        .merge(
            "Job",
            "kept",
            json!({"metadata": {"annotations": {"ttl-after-finished-controller/keep": "true"}}}),
        )
        .await;
    cluster.finish("kept", Finish::Complete, 60).await;
    cluster.job("by-ttl", Some(1)).await;
    cluster.finish("by-ttl", Finish::Complete, 0).await;
    cluster.job("by-ttl-later", Some(3_600)).await;
    cluster.finish("by-ttl-later", Finish::Complete, 60).await;
    finished_pod(&cluster, "pod", "Failed", 60).await;
    finished_pod(&cluster, "held", "Succeeded", 60).await;
    cluster
        .merge(
            "Pod",
            "held",
            json!({"metadata": {"finalizers": ["example.com/hold"]}}),
        )
        .await;
    let policies = file(
        "policyGracePeriod: 3s\nonlyPolicies: true\npolicies:\n\
         - {name: ci, kinds: [Job, Pod], ttlAfterSucceeded: 10s, ttlAfterFailed: 10s}\n",
    );
    let began = now();
    let replica = cluster.start_leading(&[&flag(&policies)]).await;
    let standby = cluster.start(&[&flag(&policies)]);
    let deleted = cluster.until_deleted("by-policy").await;
    assert!(
        deleted >= whole(began) + SignedDuration::from_secs(2),
        "within the grace period"
    );
    cluster.until_gone("Pod", "pod").await;
    cluster.until_deleted("by-ttl").await;
    let event = cluster.event("by-policy", "DeletedByPolicy").await;
    assert!(event.note.unwrap().starts_with("policy ci: succeeded at "));
    let held = async || {
        let events = cluster.events().await;
        events
            .iter()
            .any(|event| event.contains("HeldByFinalizers"))
            .then_some(())
    };
    soon("an event names the held pod", held).await;

    let (printed, code) = cluster.subcommand(&["preview", &flag(&policies)]).await;
    assert_eq!(
        (code, printed.lines().last()),
        (Some(0), Some("0 would go within an hour")),
        "{printed}"
    );
    let (printed, code) = cluster
        .subcommand(&["explain", "pod/default/held", &flag(&policies)])
        .await;
    assert_eq!(code, Some(0), "{printed}");
    assert!(
        printed.ends_with("would leave it: its finalizers would hold it\n"),
        "{printed}"
    );
    let (printed, _) = cluster
        .subcommand(&["explain", "default/kept", &flag(&policies)])
        .await;
    assert!(
        printed.contains("ttl-after-finished-controller/keep"),
        "{printed}"
    );

    assert!(cluster.deleted("kept").await.is_none() && cluster.deleted("by-ttl-later").await.is_none());
    assert!(cluster.find("Pod", "held").await.unwrap()["metadata"]["deletionTimestamp"].is_null());
    let ours = cluster.requests();
    assert!(
        !ours
            .iter()
            .any(|asked| asked.is("delete", "jobs") && asked.name.starts_with("by-ttl"))
    );
    assert_eq!(replica.stop().await, Some(0));
    assert_eq!(standby.stop().await, Some(0));
    assert_eq!((cluster.refused(), cluster.beyond()), (vec![], vec![]));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_a_policy_file_that_is_broken_while_it_runs_keeps_the_last_good_one() {
    let cluster = Cluster::with_policies().await;
    cluster.job("job", None).await;
    cluster.finish("job", Finish::Complete, 0).await;
    let good = "policyGracePeriod: 1s\nonlyPolicies: true\npolicies: [{name: ci, ttlAfterSucceeded: 40s}]\n";
    let policies = file(good);
    let replica = cluster.start_leading(&[&flag(&policies)]).await;
    fs::write(policies.path(), good.replace("40s", "1d")).unwrap();
    replica
        .until_metric("controller_config_file_refused", "", 1)
        .await;
    let (code, body) = replica.get("/readyz").await;
    assert_eq!(code, 500);
    assert!(
        body.contains("[-]config-file failed: the last good file counts: ")
            && body.contains(
                ":3: policies: [0] \"ci\": ttlAfterSucceeded: invalid value \"1d\": unknown unit \"d\""
            ),
        "{body}"
    );
    assert!(
        replica
            .process
            .log()
            .contains("the config file is wrong, the last good one counts")
    );
    let mut another = cluster.start(&[&flag(&policies)]);
    let ended = another.process.wait_exit(Duration::from_secs(30)).await.unwrap();
    assert_eq!(ended.code(), Some(2), "{}", another.process.log());
    // The last good one counts.
    let gone = async || cluster.deleted("job").await;
    eventually(Duration::from_secs(90), "the Job is deleted", gone)
        .await
        .unwrap();
    fs::write(policies.path(), good).unwrap();
    replica
        .until_metric("controller_config_file_refused", "", 0)
        .await;
    assert_eq!(replica.stop().await, Some(0));
}

const NAMESPACES: usize = 200;
const POLICIES: usize = 10;
/// Of ten objects one is annotated to be kept, and of the labels one is none of a policy.
const LABELS: usize = POLICIES + 1;

fn namespace_of(number: usize) -> String {
    format!("team-{}", number % NAMESPACES)
}

/// `count` copies of a stored object.
fn copies(form: &Value, prefix: &str, count: usize) -> Vec<Value> {
    let copy = |number: usize| {
        let mut object = form.clone();
        object["metadata"]["name"] = json!(format!("{prefix}-{number}"));
        object["metadata"]["namespace"] = json!(namespace_of(number));
        object["metadata"]["uid"] = json!(format!("{:08x}-0000-4000-8000-{number:012x}", prefix.len()));
        object["metadata"]["labels"] = json!({"app": format!("app-{}", number / NAMESPACES % LABELS)});
        if goes(number) || !is_selected(number) {
            object["metadata"].as_object_mut().unwrap().remove("annotations");
        } else {
            object["metadata"]["annotations"] = json!({"ttl-after-finished-controller/keep": "true"});
        }
        object
    };
    (0..count).map(copy).collect()
}

fn is_selected(number: usize) -> bool {
    number / NAMESPACES % LABELS < POLICIES
}

fn goes(number: usize) -> bool {
    is_selected(number) && !number.is_multiple_of(10)
}

fn ten_policies() -> String {
    let mut text =
        "policyGracePeriod: 1s\nonlyPolicies: true\nkubeApiQps: 0\nconcurrentSyncs: 32\npolicies:\n"
            .to_owned();
    for policy in 0..POLICIES {
        _ = writeln!(
            text,
            "- {{name: p{policy}, kinds: [Job, Pod], ttlAfterSucceeded: 1m, ttlAfterFailed: 1m, \
             selector: {{matchLabels: {{app: app-{policy}}}}}}}"
        );
    }
    text
}

/// The objects that have not been deleted, by number.
async fn left<K>(cluster: &Cluster, prefix: &str) -> BTreeMap<usize, ObjectMeta>
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let objects: Api<K> = Api::all(cluster.control_plane.client());
    let found = objects.list_metadata(&ListParams::default()).await.unwrap();
    let metadata = found.items.into_iter().map(|object| object.metadata);
    let left = metadata.filter(|metadata| metadata.deletion_timestamp.is_none());
    let number = |metadata: &ObjectMeta| {
        let name = metadata.name.as_deref()?;
        name.strip_prefix(prefix)?.strip_prefix('-')?.parse().ok()
    };
    left.filter_map(|metadata| Some((number(&metadata)?, metadata)))
        .collect()
}

/// Writes as fast as it can, 16 requests at a time, and counts them.
async fn write_without_end(cluster: &Cluster, written: &AtomicUsize) {
    let objects: Api<ConfigMap> = Api::default_namespaced(cluster.control_plane.client());
    let all = stream::iter(0..16).for_each_concurrent(16, async |number| {
        let name = format!("plain-{number}");
        cluster
            .create(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "namespace": "default", "name": name } }))
            .await;
        loop {
            let count = written.fetch_add(1, Ordering::Relaxed);
            let patch = Patch::Merge(json!({ "data": { "count": count.to_string() } }));
            objects.patch(&name, &PatchParams::default(), &patch).await.unwrap();
        }
    });
    all.await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
#[allow(clippy::print_stdout, reason = "the figures")]
async fn live_thousands_of_jobs_and_pods_go_at_the_speed_of_their_deletes() {
    // Each half of the objects.
    let half = long_or_short(10_000, 3_000);
    let cluster = Cluster::with_policies().await;
    let control_plane = &cluster.control_plane;
    for number in 0..NAMESPACES {
        cluster.namespace(&format!("team-{number}")).await;
    }
    let finish = whole(now()) - SignedDuration::from_secs(3_600);
    cluster.create(job("default", "form", None)).await;
    let jobs: Api<Job> = Api::default_namespaced(control_plane.client());
    let status = Patch::Merge(json!({"status": finished(Finish::Complete, finish)}));
    let form = jobs
        .patch_status("form", &PatchParams::default(), &status)
        .await
        .unwrap();
    let job_form = serde_json::to_value(form).unwrap();
    finished_pod(&cluster, "form", "Succeeded", 3_600).await;
    let pods: Api<Pod> = Api::default_namespaced(control_plane.client());
    let pod_form = serde_json::to_value(pods.get("form").await.unwrap()).unwrap();
    for (form, prefix, api_version, kind, resource) in [
        (&job_form, "job", "batch/v1", "Job", "jobs"),
        (&pod_form, "pods", "v1", "Pod", "pods"),
    ] {
        let mut form = form.clone();
        form["apiVersion"] = json!(api_version);
        form["kind"] = json!(kind);
        form["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("resourceVersion");
        form["metadata"].as_object_mut().unwrap().remove("managedFields");
        control_plane
            .store(resource, &copies(&form, prefix, half))
            .await
            .unwrap();
    }
    let wanted: Vec<usize> = (0..half).filter(|number| !goes(*number)).collect();
    let number = 2 * (half - wanted.len());

    let policies = file(&ten_policies());
    let replica = cluster.start_leading(&[&flag(&policies)]).await;
    let count = "ttl_after_finished_controller_policy_deletion_duration_seconds_count";
    let first = async || (replica.metric(count, "").await > 0).then_some(());
    eventually(Duration::from_mins(5), "the first goes", first)
        .await
        .unwrap();
    // At the same time, as other tests use the machine: what a plain client writes is the yardstick.
    let written = AtomicUsize::new(0);
    let began = Clock::system().instant();
    let gone = async || (replica.metric(count, "").await >= number as u64).then_some(());
    tokio::select! {
        gone = eventually(Duration::from_mins(10), "all have gone", gone) => gone.unwrap(),
        () = write_without_end(&cluster, &written) => unreachable!("it has no end"),
    }
    let (took, written) = (began.elapsed(), written.into_inner());
    let usage = replica.process.usage().unwrap();
    println!(
        "{number} of {} objects in {took:.1?}, next to {written} writes of a plain client; RSS {} MiB, peak {} MiB, \
         {:.1?} of CPU",
        2 * half,
        usage.rss >> 20,
        usage.peak_rss >> 20,
        usage.cpu
    );
    let jobs = left::<Job>(&cluster, "job").await;
    assert_eq!(jobs.into_keys().collect::<Vec<_>>(), wanted);
    let pods = left::<Pod>(&cluster, "pods").await;
    assert_eq!(pods.into_keys().collect::<Vec<_>>(), wanted);
    let most = shipped_or_debug(BUILT, 32 << 20, 64 << 20);
    assert!(usage.peak_rss <= most, "{} bytes", usage.peak_rss);
    // Of a plain client's writes, for two deletes.
    let most = shipped_or_debug(BUILT, 3, 4);
    assert!(
        2 * written <= most * number,
        "{written} writes next to {number} deletes"
    );
    assert_eq!(replica.stop().await, Some(0));
    assert_eq!((cluster.refused(), cluster.beyond()), (vec![], vec![]));
}
