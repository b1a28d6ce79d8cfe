//! resourceclaim-controller: pods get claims from templates, use devices through them, and release them.
//!
//! The demo plays kube-scheduler and the device driver, which do not exist here: it allocates devices to claims,
//! reserves them for pods, and puts pods on nodes.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::FutureExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::Status;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::cluster::do_all;
use crate::counts::{Counted, Tally, Whose};
use crate::ours::labels;
use crate::scene::{Scene, Step, kind};
use crate::stage::{NAMESPACE, Stage};

/// Not a node that fails or is drained in other scenes.
const NODE: &str = "demo-node-0021";
/// The pods that a scheduler places.
const TRAINS: [&str; 3] = ["demo-train-1", "demo-train-2", "demo-train-3"];
const FIRST_TRAIN: &str = "default/demo-train-1";
/// The pod that is put on the node by hand.
const PROBE: &str = "demo-probe";
/// The pods' entries for claims from templates.
const OWN: [&str; 2] = ["gpu", "nic"];
/// The pods' entry for the claim created by hand, and that claim.
const SHARED: &str = "switch";
const SWITCH: &str = "demo-switch";
const SWITCH_KEY: &str = "default/demo-switch";
/// Finalizer of an allocated claim.
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// The controller's metric of claims: those it created, those with a device, those without.
const MADE: &str = "dynamic_resource_allocation_resource_claims{source=\"resource_claim_template\"}";
const ALLOCATED: &str = "dynamic_resource_allocation_resource_claims{allocated=\"true\"}";
const UNALLOCATED: &str = "dynamic_resource_allocation_resource_claims{allocated=\"false\"}";
/// Interval between looks at a returning claim.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(crate) fn scene() -> Scene {
    Scene {
        controller: "resourceclaim-controller",
        shows: "It makes the ResourceClaims through which pods get devices, and gives the devices back.",
        kubectl: "get resourceclaims -w",
        counted: Counted {
            title: "ResourceClaims",
            resource: kind::<ResourceClaim>(),
            whose: Whose::Ours,
            by: |claim, _| tally(claim),
        },
        makes: vec![
            kind::<Node>(),
            kind::<Pod>(),
            kind::<ResourceClaimTemplate>(),
            kind::<ResourceClaim>(),
        ],
        steps: steps(),
    }
}

fn setup() -> Step {
    Step::new("three pods want devices")
        .says(
            "Each wants a GPU and a NIC of its own, by templates, and all one switch, by a claim that is there. The other \
             six claims are not, so no scheduler can place the pods.",
        )
        .does(|stage| populate(stage).boxed())
        .expects([(1, "not allocated")])
}

fn steps() -> Vec<Step> {
    vec![
        setup(),
        Step::new("the controller starts")
            .says("It makes a claim for each entry with a template, and the status of each pod names its claims.")
            .expects([(7, "not allocated")])
            .seen_as(MADE, 6)
            // Two claims and a status for each pod.
            .writes(9..=9)
            .explains(FIRST_TRAIN, "gpu: a claim from ResourceClaimTemplate demo-gpu"),
        Step::new("a claim is deleted")
            .says("By hand, before its pod has run. The pod gets another one, under another name, and keeps its other claim.")
            .does(|stage| lose_a_claim(stage).boxed())
            .expects([(7, "not allocated")])
            .seen_as(MADE, 6)
            .writes(2..=2),
        Step::new("a scheduler at work")
            .says("It allocates the seven claims, reserves them, and places the pods. Nothing is left for the controller.")
            .does(|stage| schedule_all(stage).boxed())
            .expects([(6, "held by 1 pod"), (1, "held by 3 pods")])
            .seen_as(ALLOCATED, 7)
            .writes(0..=0),
        Step::new("a pod without scheduler")
            .says("It is put on the node by hand, and uses the switch. Nobody reserves that for it, so the controller does.")
            .does(|stage| place_by_hand(stage).boxed())
            .expects([(6, "held by 1 pod"), (1, "held by 4 pods")])
            .seen_as(ALLOCATED, 7)
            .writes(1..=1)
            .explains(SWITCH_KEY, "  pod demo-probe stays reserved"),
        Step::new("two pods finish")
            .says("They are still there, but their GPUs and NICs are free for others. The switch is still in use.")
            .does(|stage| finish(stage, [TRAINS[0], TRAINS[1]]).boxed())
            .expects([(2, "held by 1 pod"), (1, "held by 2 pods")])
            .seen_as(ALLOCATED, 3)
            // Four claims are freed, unprotected and deleted; the switch loses both pods at once, or one after the
            // other.
            .writes(13..=14),
        Step::new("the others finish, too")
            .says("Nobody uses the switch any more, so it is free as well. Its claim stays: somebody made it by hand.")
            .does(|stage| finish(stage, [TRAINS[2], PROBE]).boxed())
            .expects([(1, "not allocated")])
            .seen_as(UNALLOCATED, 1)
            // Two claims as before, and the switch, at once or pod by pod. The switch keeps its finalizer for five more
            // minutes.
            .writes(7..=8),
    ]
}

fn tally(claim: &DynamicObject) -> Tally {
    let status = &claim.data["status"];
    let pods = status["reservedFor"].as_array().map_or(0, Vec::len);
    let state = match (status["allocation"].is_object(), pods) {
        (false, _) => "not allocated".to_owned(),
        (true, 0) => "held by nobody".to_owned(),
        (true, 1) => "held by 1 pod".to_owned(),
        (true, pods) => format!("held by {pods} pods"),
    };
    if claim.metadata.deletion_timestamp.is_some() {
        return Tally::leaving(format!("{state}, leaving"));
    }
    Tally::plain(state)
}

fn claims(stage: &Stage) -> Api<ResourceClaim> {
    Api::namespaced(stage.client.clone(), NAMESPACE)
}

async fn populate(stage: &Stage) -> Result<()> {
    stage.ensure_ready_node(NODE).await?;
    for device in OWN {
        let template = json!({
            "metadata": {"name": format!("demo-{device}"), "labels": labels()},
            // The claims get the label as well, so that the demo finds them.
            "spec": {"metadata": {"labels": labels()}, "spec": claim_spec(device)},
        });
        stage.create::<ResourceClaimTemplate>(template).await?;
    }
    let switch = json!({"metadata": {"name": SWITCH, "labels": labels()}, "spec": claim_spec(SHARED)});
    stage.create::<ResourceClaim>(switch).await?;
    for name in TRAINS {
        create_pod(stage, name, &OWN, None).await?;
    }
    Ok(())
}

fn claim_spec(device: &str) -> Value {
    json!({"devices": {"requests": [
        {"name": device, "exactly": {"deviceClassName": format!("{device}.example.com")}},
    ]}})
}

/// Creates a pod with these entries for claims of its own, and the switch. Only the demo schedules it.
async fn create_pod(stage: &Stage, name: &str, own: &[&str], node: Option<&str>) -> Result<()> {
    let own = own
        .iter()
        .map(|device| json!({"name": device, "resourceClaimTemplateName": format!("demo-{device}")}));
    let shared = json!({"name": SHARED, "resourceClaimName": SWITCH});
    let entries: Vec<_> = own.chain([shared]).collect();
    let used: Vec<_> = entries
        .iter()
        .map(|entry| json!({"name": entry["name"]}))
        .collect();
    let pod = json!({
        "metadata": {"name": name, "labels": labels()},
        "spec": {
            "schedulerName": "controllers-demo",
            "nodeName": node,
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "resourceClaims": entries,
            "containers": [{
                "name": "pause", "image": "registry.k8s.io/pause:3.10", "resources": {"claims": used},
            }],
        },
    });
    stage.create::<Pod>(pod).await?;
    Ok(())
}

/// Reference to a pod.
fn reference(pod: &Pod) -> Value {
    json!({"resource": "pods", "name": pod.name_any(), "uid": pod.uid()})
}

async fn lose_a_claim(stage: &Stage) -> Result<()> {
    let [_, pod, _] = TRAINS;
    let [lost, kept] = recorded(&get_pod(stage, pod).await?)?;
    let deleted = claims(stage).delete(&lost, &DeleteParams::default()).await;
    deleted.with_context(|| format!("delete claim {lost}"))?;
    let looking = async {
        loop {
            let now = recorded(&get_pod(stage, pod).await?)?;
            if now[0] != lost {
                return anyhow::Ok(now);
            }
            stage.clock.sleep(LOOK_EVERY).await;
        }
    };
    let made = stage.clock.timeout(stage.within, looking).await;
    let [made, still] = made.with_context(|| format!("claim {lost} does not come back"))??;
    if still != kept {
        bail!("{pod} has another {} as well: {still} instead of {kept}", OWN[1]);
    }
    stage.note(format!(
        "{lost} was deleted. The {} of {pod} is {made} now, its {} is still {kept}.",
        OWN[0], OWN[1]
    ));
    Ok(())
}

async fn get_pod(stage: &Stage, name: &str) -> Result<Pod> {
    let found = stage.pods().get(name).await;
    found.with_context(|| format!("get pod {name}"))
}

/// Names of the pod's own claims from its status, in the order of [`OWN`].
fn recorded(pod: &Pod) -> Result<[String; 2]> {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.resource_claim_statuses.as_ref());
    let name = |entry: &str| {
        let status = statuses?.iter().find(|status| status.name == entry)?;
        status.resource_claim_name.clone()
    };
    match OWN.map(name) {
        [Some(gpu), Some(nic)] => Ok([gpu, nic]),
        _ => bail!("the status of {} does not name all of its claims", pod.name_any()),
    }
}

async fn schedule_all(stage: &Stage) -> Result<()> {
    // One after the other, as a scheduler does, as they share a claim.
    for (number, name) in TRAINS.into_iter().enumerate() {
        let pod = get_pod(stage, name).await?;
        for (device, claim) in OWN.into_iter().zip(recorded(&pod)?) {
            allocate(stage, &claim, device, number, &pod).await?;
        }
        allocate(stage, SWITCH, SHARED, 0, &pod).await?;
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": name}, "target": {"kind": "Node", "name": NODE},
        });
        let (pods, params) = (stage.pods(), PostParams::default());
        let bound = pods.create_subresource::<_, Status>("binding", name, &params, &binding);
        bound.await.with_context(|| format!("bind pod {name}"))?;
        set_phase(stage, name, "Running").await?;
    }
    Ok(())
}

/// Adds the finalizer to the claim, allocates a device, and reserves the claim for the pod.
async fn allocate(stage: &Stage, claim: &str, device: &str, number: usize, pod: &Pod) -> Result<()> {
    let protection = Patch::Strategic(json!({"metadata": {"finalizers": [FINALIZER]}}));
    let result = json!({
        "request": device, "driver": format!("{device}.example.com"),
        "pool": NODE, "device": format!("{device}-{number}"),
    });
    let allocation = Patch::Strategic(json!({"status": {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [reference(pod)],
    }}));
    let (claims, params) = (claims(stage), PatchParams::default());
    let allocated = async {
        claims.patch(claim, &params, &protection).await?;
        claims.patch_status(claim, &params, &allocation).await
    };
    let allocated = allocated.await;
    allocated.with_context(|| format!("allocate claim {claim}"))?;
    Ok(())
}

async fn place_by_hand(stage: &Stage) -> Result<()> {
    create_pod(stage, PROBE, &[], Some(NODE)).await?;
    set_phase(stage, PROBE, "Running").await
}

async fn finish(stage: &Stage, pods: [&'static str; 2]) -> Result<()> {
    do_all(pods.map(|pod| set_phase(stage, pod, "Succeeded"))).await
}

/// Sets the phase as a kubelet would; there may be none.
async fn set_phase(stage: &Stage, pod: &str, phase: &str) -> Result<()> {
    let status = Patch::Merge(json!({"status": {"phase": phase}}));
    let (pods, params) = (stage.pods(), PatchParams::default());
    let patched = pods.patch_status(pod, &params, &status).await;
    patched.with_context(|| format!("make pod {pod} {phase}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tallied(claim: &Value) -> (Option<String>, String) {
        let Tally { expected, shown } = tally(&serde_json::from_value(claim.clone()).unwrap());
        (expected, shown)
    }

    #[test]
    fn a_claim_counts_by_those_who_hold_it_until_it_is_leaving() {
        let mut claim = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": {},
        });
        let plain = |what: &str| (Some(what.to_owned()), what.to_owned());
        assert_eq!(tallied(&claim), plain("not allocated"));
        claim["status"] = json!({"allocation": {}});
        assert_eq!(tallied(&claim), plain("held by nobody"));
        claim["status"]["reservedFor"] = json!([{"resource": "pods", "name": "a", "uid": "1"}]);
        assert_eq!(tallied(&claim), plain("held by 1 pod"));
        claim["status"]["reservedFor"] = json!([{"uid": "1"}, {"uid": "2"}]);
        assert_eq!(tallied(&claim), plain("held by 2 pods"));
        claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(tallied(&claim), (None, "held by 2 pods, leaving".to_owned()));
    }
}
