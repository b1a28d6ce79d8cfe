//! What is two minutes old. The API server takes any time in a status, so what a test writes is almost that old
//! already: two full minutes pass in `tests/sync`, where they take no time.

use std::time::Duration;

use controller_testing::cluster::now;
use controller_testing::objects::rfc3339;
use controller_testing::soon;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::budget::numbers;
use crate::support::{Cluster, after};

const TWO_MINUTES: Duration = Duration::from_mins(2);
/// How long a test waits for the end of them.
const REMAINING: Duration = Duration::from_secs(8);
/// How late we may be.
const LATE: Duration = Duration::from_secs(5);

/// The whole second that is two minutes ago in [`REMAINING`].
fn almost_two_minutes_ago() -> Timestamp {
    let second = after(now(), REMAINING).as_second() - 120;
    Timestamp::from_second(second).unwrap()
}

async fn target(cluster: &Cluster, pod: &str) -> Value {
    let pod = cluster.get("Pod", pod).await;
    let mut conditions = pod["status"]["conditions"].as_array().unwrap().iter();
    let target = conditions.find(|condition| condition["type"] == "DisruptionTarget");
    target.cloned().unwrap_or_default()
}

/// Gives a pod that is ready the condition, as old as that.
async fn wanted_to_go(cluster: &Cluster, pod: &str, reason: &str, since: Timestamp) {
    let conditions = json!([
        {"type": "Ready", "status": "True"},
        {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "evicting",
         "lastTransitionTime": rfc3339(since)},
    ]);
    cluster
        .merge_status("Pod", pod, json!({"conditions": conditions}))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_a_stale_disruption_target_is_reset_after_two_minutes() {
    let cluster = Cluster::new().await;
    cluster.some_pods("web", 3, None).await;
    let replica = cluster.start_leading(&[]).await;
    let since = almost_two_minutes_ago();
    wanted_to_go(&cluster, "web-0", "EvictionByEvictionAPI", since).await;
    wanted_to_go(&cluster, "web-1", "TerminationByKubelet", since).await;
    wanted_to_go(&cluster, "web-2", "PreemptionByScheduler", now()).await;

    let due = after(since, TWO_MINUTES);
    let reset = cluster.patched("pods/status", "web-0", true, due).await.answered;
    assert!(reset <= after(due, LATE), "due at {due}, reset at {reset}");
    let condition = target(&cluster, "web-0").await;
    let fields = ["status", "reason", "message", "observedGeneration"].map(|field| condition[field].clone());
    assert_eq!(
        fields,
        [json!("False"), Value::Null, Value::Null, json!(1)],
        "{condition:#}"
    );
    let conditions = &cluster.get("Pod", "web-0").await["status"]["conditions"];
    assert_eq!(conditions[0]["type"], "Ready", "{conditions:#}");
    for pod in ["web-1", "web-2"] {
        assert_eq!(target(&cluster, pod).await["status"], "True", "{pod}");
    }
    assert_eq!(replica.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_a_pod_that_was_to_be_evicted_and_was_not_counts_again_after_two_minutes() {
    let cluster = Cluster::new().await;
    cluster.pdb("web", "minAvailable", json!(1)).await;
    cluster.some_pods("web", 3, None).await;
    let replica = cluster.start_leading(&[]).await;
    cluster.until("web", numbers(2, 3, 1, 3)).await;

    // As the eviction API does, whose delete then fails.
    let since = almost_two_minutes_ago();
    let approved =
        json!({"disruptionsAllowed": 0, "disruptedPods": {"web-0": rfc3339(since), "web-1": rfc3339(now())}});
    cluster.merge_status("PodDisruptionBudget", "web", approved).await;
    cluster.until("web", numbers(0, 1, 1, 3)).await;
    cluster.until("web", numbers(1, 2, 1, 3)).await;
    let due = after(since, TWO_MINUTES);
    let written = cluster.patched("poddisruptionbudgets/status", "web", true, due);
    let written = written.await.answered;
    assert!(written <= after(due, LATE), "due at {due}, written at {written}");
    let entries = cluster.status("web").await["disruptedPods"].clone();
    let names: Vec<_> = entries.as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["web-1"]);
    cluster
        .until_event(
            "web-0 Warning NotDeleted Pod was expected by PDB default/web to be deleted but it wasn't",
        )
        .await;
    assert_eq!(replica.stop().await, Some(0));
}

/// Who had its name when it was approved to go, nobody knows any more: the entry has its two minutes.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_an_eviction_that_was_approved_before_a_restart_has_its_two_minutes() {
    let cluster = Cluster::new().await;
    cluster.pdb("web", "minAvailable", json!(1)).await;
    cluster.some_pods("web", 3, None).await;
    let replica = cluster.start_leading(&[]).await;
    cluster.until("web", numbers(2, 3, 1, 3)).await;
    assert_eq!(replica.stop().await, Some(0));

    assert_eq!(cluster.evict("web-0").await, 201);
    cluster.force_delete("Pod", "web-0").await;
    cluster.pod("web", "web-0", None).await;
    let replica = cluster.start_leading(&[]).await;
    cluster.until("web", numbers(1, 2, 1, 3)).await;
    let since = almost_two_minutes_ago();
    let approved = json!({"disruptedPods": {"web-0": rfc3339(since)}});
    cluster.merge_status("PodDisruptionBudget", "web", approved).await;
    let gone = async || {
        let status = cluster.status("web").await;
        status["disruptedPods"].is_null().then_some(())
    };
    soon("the entry is gone", gone).await;
    cluster.until("web", numbers(2, 3, 1, 3)).await;
    let due = after(since, TWO_MINUTES);
    let written = cluster.patched("poddisruptionbudgets/status", "web", true, due);
    let written = written.await.answered;
    assert!(written <= after(due, LATE), "due at {due}, written at {written}");
    assert_eq!(replica.stop().await, Some(0));
}
