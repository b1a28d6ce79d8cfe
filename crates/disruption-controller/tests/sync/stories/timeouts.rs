//! What is two minutes old. The API server takes any time in a status, so what a story writes is almost that old
//! already: two full minutes pass in `disrupted` and `stale`.

use controller_testing::cluster::whole;
use controller_testing::objects::{condition, rfc3339};
use controller_testing::soon;
use controller_testing::stories::StoryStage;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::budget::{Numbers, numbers};
use crate::stories::{AT_ONCE, Budgets, status_written};

crate::told![
    a_stale_disruption_target_is_reset_after_two_minutes,
    a_pod_that_was_to_be_evicted_and_was_not_counts_again_after_two_minutes,
    an_eviction_that_was_approved_before_a_restart_has_its_two_minutes,
];

const TWO_MINUTES: SignedDuration = SignedDuration::from_mins(2);
/// How long a test waits for the end of them.
const REMAINING: SignedDuration = SignedDuration::from_secs(8);

/// The whole second that is two minutes ago in [`REMAINING`].
fn almost_two_minutes_ago(stage: &StoryStage) -> Timestamp {
    whole(stage.now() + REMAINING - TWO_MINUTES)
}

/// Fails unless we write this object when the two minutes since `since` are over.
async fn assert_written_in_time(stage: &StoryStage, resource: &str, name: &str, since: Timestamp) {
    let due = since + TWO_MINUTES;
    let written = status_written(stage, resource, name, due).await;
    assert!(
        written <= due + stage.late(AT_ONCE),
        "due at {due}, written at {written}"
    );
}

async fn target(stage: &StoryStage, pod: &str) -> Value {
    condition(&stage.get("Pod", pod).await, "DisruptionTarget").clone()
}

/// Gives a pod that is ready the condition, as old as that.
async fn wanted_to_go(stage: &StoryStage, pod: &str, reason: &str, since: Timestamp) {
    let conditions = json!([
        {"type": "Ready", "status": "True"},
        {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "evicting",
         "lastTransitionTime": rfc3339(since)},
    ]);
    stage
        .merge_status("Pod", pod, json!({"conditions": conditions}))
        .await;
}

async fn a_stale_disruption_target_is_reset_after_two_minutes(stage: StoryStage) {
    stage.some_pods("web", 3, None).await;
    let controller = stage.start_leading(&[]).await;
    let since = almost_two_minutes_ago(&stage);
    wanted_to_go(&stage, "web-0", "EvictionByEvictionAPI", since).await;
    wanted_to_go(&stage, "web-1", "TerminationByKubelet", since).await;
    wanted_to_go(&stage, "web-2", "PreemptionByScheduler", stage.now()).await;

    assert_written_in_time(&stage, "pods/status", "web-0", since).await;
    let condition = target(&stage, "web-0").await;
    let fields = ["status", "reason", "message", "observedGeneration"].map(|field| condition[field].clone());
    assert_eq!(
        fields,
        [json!("False"), Value::Null, Value::Null, json!(1)],
        "{condition:#}"
    );
    let conditions = &stage.get("Pod", "web-0").await["status"]["conditions"];
    assert_eq!(conditions[0]["type"], "Ready", "{conditions:#}");
    for pod in ["web-1", "web-2"] {
        assert_eq!(target(&stage, pod).await["status"], "True", "{pod}");
    }
    controller.stop().await;
}

async fn a_pod_that_was_to_be_evicted_and_was_not_counts_again_after_two_minutes(stage: StoryStage) {
    stage.pdb("web", "minAvailable", json!(1)).await;
    stage.some_pods("web", 3, None).await;
    let controller = stage.start_leading(&[]).await;
    stage.until("web", numbers(2, 3, 1, 3)).await;

    // As the eviction API does, whose delete then fails.
    let (since, now) = (almost_two_minutes_ago(&stage), whole(stage.now()));
    let approved =
        json!({"disruptionsAllowed": 0, "disruptedPods": {"web-0": rfc3339(since), "web-1": rfc3339(now)}});
    stage.merge_status("PodDisruptionBudget", "web", approved).await;
    stage.until("web", numbers(0, 1, 1, 3)).await;
    stage.until("web", numbers(1, 2, 1, 3)).await;
    assert_written_in_time(&stage, "poddisruptionbudgets/status", "web", since).await;
    let entries = stage.status("web").await["disruptedPods"].clone();
    let names: Vec<_> = entries.as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["web-1"]);
    stage
        .until_event(
            "web-0 Warning NotDeleted Pod was expected by PDB default/web to be deleted but it wasn't",
        )
        .await;
    if stage.on_real().is_none() {
        // The other one as well, when its time is over.
        stage
            .until_time(now + TWO_MINUTES - SignedDuration::from_secs(1))
            .await;
        assert_eq!(Numbers::of(&stage.status("web").await), numbers(1, 2, 1, 3));
        assert_written_in_time(&stage, "poddisruptionbudgets/status", "web", now).await;
        stage.until("web", numbers(2, 3, 1, 3)).await;
        assert!(stage.status("web").await["disruptedPods"].is_null());
        assert_eq!(controller.total("controller_sync_failures_total").await, 0);
    }
    controller.stop().await;
}

/// Who had its name when it was approved to go, nobody knows any more: the entry has its two minutes.
async fn an_eviction_that_was_approved_before_a_restart_has_its_two_minutes(stage: StoryStage) {
    stage.pdb("web", "minAvailable", json!(1)).await;
    stage.some_pods("web", 3, None).await;
    let controller = stage.start_leading(&[]).await;
    stage.until("web", numbers(2, 3, 1, 3)).await;
    controller.stop().await;

    assert_eq!(stage.evict("web-0").await, 201);
    stage.force_delete("Pod", "web-0").await;
    stage.pod("web", "web-0", None).await;
    let controller = stage.start_leading(&[]).await;
    stage.until("web", numbers(1, 2, 1, 3)).await;
    let since = almost_two_minutes_ago(&stage);
    let approved = json!({"disruptedPods": {"web-0": rfc3339(since)}});
    stage.merge_status("PodDisruptionBudget", "web", approved).await;
    let gone = async || {
        let status = stage.status("web").await;
        status["disruptedPods"].is_null().then_some(())
    };
    soon("the entry is gone", gone).await;
    stage.until("web", numbers(2, 3, 1, 3)).await;
    assert_written_in_time(&stage, "poddisruptionbudgets/status", "web", since).await;
    controller.stop().await;
}
