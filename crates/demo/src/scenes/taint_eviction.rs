//! taint-eviction-controller: which pods leave a node that fails, and when.

use anyhow::Result;
use futures::{FutureExt, try_join};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::cluster::do_all;
use crate::counts::{Counted, Tally, Whose};
use crate::ours::labels;
use crate::scene::{Scene, Step, kind};
use crate::stage::{Health, Stage};

const FIRST: &str = "demo-node-0001";
const SECOND: &str = "demo-node-0002";
const THIRD: &str = "demo-node-0003";
/// Pods on each node that tolerate its failure for [`PATIENCE`].
const PATIENT: usize = 5;
/// In seconds; long enough for a node to recover in time, even on a busy machine.
const PATIENCE: i64 = 4;
/// The controller's metric of pods waiting for eviction.
const PENDING: &str = "taint_eviction_controller_pending_evictions";
/// The controller's metric of cancelled evictions.
const CANCELLED: &str = "taint_eviction_controller_cancelled_evictions_total";

pub(crate) fn scene() -> Scene {
    Scene {
        controller: "taint-eviction-controller",
        shows: "It evicts pods from nodes that fail, each when its own toleration ends.",
        kubectl: "get pods -o wide -w",
        counted: Counted {
            title: "pods by node",
            resource: kind::<Pod>(),
            whose: Whose::Ours,
            by: |pod, _| tally(pod),
        },
        makes: vec![kind::<Node>(), kind::<Pod>()],
        steps: steps(),
    }
}

fn steps() -> Vec<Step> {
    // An eviction is three writes: an event, a condition, the delete. A cancelled one is an event.
    vec![
        Step::new("three nodes, all well")
            .says("On each of them five pods tolerate its failure for 4 s, one for ever, and one not at all.")
            .does(|stage| populate(stage).boxed())
            .expects([(7, FIRST), (7, SECOND), (7, THIRD)]),
        Step::new("two nodes fail")
            .says("They get the taint not-ready:NoExecute: what does not tolerate it goes at once, ten pods wait.")
            .does(|stage| fail_two(stage).boxed())
            .expects([(6, FIRST), (6, SECOND), (7, THIRD)])
            .seen_as(PENDING, 10)
            .writes(6..=6)
            .time_runs_on(),
        Step::new("one recovers in time")
            .says("All that waited there stay. The other node is unreachable now, and its pods still wait.")
            .does(|stage| recover_one(stage).boxed())
            .expects([(6, FIRST), (6, SECOND), (7, THIRD)])
            .seen_as(PENDING, 5)
            .seen_as(CANCELLED, 5)
            .writes(5..=5)
            .time_runs_on(),
        Step::new("the other does not")
            .says("The 4 s are over: five pods go, and only the one that tolerates the failure for ever stays.")
            .expects([(6, FIRST), (1, SECOND), (7, THIRD)])
            .seen_as(PENDING, 0)
            .writes(15..=15),
    ]
}

fn tally(pod: &DynamicObject) -> Tally {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let node = text(&pod.data["spec"]["nodeName"]);
    if pod.metadata.deletion_timestamp.is_some() {
        return Tally::leaving(format!("{node} leaving"));
    }
    let phase = text(&pod.data["status"]["phase"]);
    Tally {
        shown: format!("{node} {phase}"),
        expected: Some(node),
    }
}

async fn populate(stage: &Stage) -> Result<()> {
    let patient = (1..=PATIENT).map(|number| (format!("patient-{number}"), for_seconds(PATIENCE)));
    let others = [
        ("endless".to_owned(), for_ever()),
        ("intolerant".to_owned(), not_at_all()),
    ];
    let kinds: Vec<_> = patient.chain(others).collect();
    let mut pods = Vec::new();
    for node in [FIRST, SECOND, THIRD] {
        stage.ensure_ready_node(node).await?;
        let number = node.trim_start_matches("demo-node-");
        for (kind, tolerations) in &kinds {
            pods.push(create_pod(
                stage,
                format!("demo-{number}-{kind}"),
                node,
                tolerations,
            ));
        }
    }
    do_all(pods).await
}

async fn fail_two(stage: &Stage) -> Result<()> {
    try_join!(
        stage.set_health(FIRST, Health::NotReady),
        stage.set_health(SECOND, Health::NotReady),
    )?;
    Ok(())
}

async fn recover_one(stage: &Stage) -> Result<()> {
    try_join!(
        stage.set_health(FIRST, Health::Ready),
        stage.set_health(SECOND, Health::Unreachable),
    )?;
    Ok(())
}

async fn create_pod(stage: &Stage, name: String, node: &str, tolerations: &Value) -> Result<()> {
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels()},
        "spec": {
            "nodeName": node,
            "automountServiceAccountToken": false,
            "containers": [{"name": "pause", "image": "registry.k8s.io/pause:3.10"}],
            "tolerations": tolerations,
        },
    });
    stage.create::<Pod>(pod).await?;
    Ok(())
}

fn for_seconds(seconds: i64) -> Value {
    tolerations(&json!({"operator": "Exists", "tolerationSeconds": seconds}))
}

fn for_ever() -> Value {
    tolerations(&json!({"operator": "Exists"}))
}

/// These match no taint of that key, as its taint has no value. Without any toleration, the API server would add 300 s.
fn not_at_all() -> Value {
    tolerations(&json!({"operator": "Equal", "value": "never"}))
}

/// Tolerates both taints of a failed node in the way of `how`.
fn tolerations(how: &Value) -> Value {
    let both = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
    both.into_iter()
        .map(|key| {
            let mut toleration = how.clone();
            toleration["key"] = key.into();
            toleration["effect"] = "NoExecute".into();
            toleration
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tallied(pod: Value) -> Tally {
        tally(&serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn a_pod_that_is_being_deleted_is_shown_and_not_expected() {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"nodeName": "n"}, "status": {"phase": "Running"},
        });
        let running = Tally {
            expected: Some("n".to_owned()),
            shown: "n Running".to_owned(),
        };
        assert_eq!(tallied(pod.clone()), running);
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let leaving = Tally {
            expected: None,
            shown: "n leaving".to_owned(),
        };
        assert_eq!(tallied(pod), leaving);
    }
}
