//! The status of a pod, as a kubelet reports it.

use serde_json::{Value, json};

use crate::embedded::object::text;

/// Whether the pod has ended by itself.
pub(super) fn is_terminal(pod: &Value) -> bool {
    matches!(text(&pod["status"], "phase"), "Succeeded" | "Failed")
}

/// Whether the pod takes part in its service.
pub(super) fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready").is_some_and(|condition| condition["status"] == "True")
}

/// A condition of a pod or a node.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let mut conditions = object["status"]["conditions"].as_array()?.iter();
    conditions.find(|condition| condition["type"] == kind)
}

/// Sets a condition; its `lastTransitionTime` is `now` unless its status stays.
pub(super) fn set_condition(object: &mut Value, mut wanted: Value, now: &str) {
    let kind = text(&wanted, "type").to_owned();
    let since = condition(object, &kind)
        .filter(|old| old["status"] == wanted["status"])
        .map_or_else(|| json!(now), |old| old["lastTransitionTime"].clone());
    wanted["lastTransitionTime"] = since;
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = json!([]);
    }
    if let Some(conditions) = object["status"]["conditions"].as_array_mut() {
        match conditions.iter_mut().find(|old| old["type"] == *kind) {
            Some(old) => *old = wanted,
            None => conditions.push(wanted),
        }
    }
}

/// The pod runs and is ready.
pub(super) fn run(pod: &mut Value, host_ip: &str, pod_ip: &str, now: &str) {
    let statuses: Vec<Value> = containers(pod)
        .map(|(name, image)| {
            json!({
                "name": name,
                "image": image,
                "imageID": format!("{image}@sha256:{:064x}", name.len()),
                "containerID": format!("containerd://{name}"),
                "ready": true,
                "started": true,
                "restartCount": 0,
                "state": { "running": { "startedAt": now } },
                "lastState": {},
            })
        })
        .collect();
    let status = &mut pod["status"];
    status["phase"] = json!("Running");
    status["hostIP"] = json!(host_ip);
    status["hostIPs"] = json!([{ "ip": host_ip }]);
    status["podIP"] = json!(pod_ip);
    status["podIPs"] = json!([{ "ip": pod_ip }]);
    status["startTime"] = json!(now);
    status["containerStatuses"] = json!(statuses);
    for kind in [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ] {
        set_condition(pod, json!({ "type": kind, "status": "True" }), now);
    }
}

/// The containers of the pod have ended, all well or all badly.
pub(super) fn end(pod: &mut Value, phase: &str, now: &str) {
    let is_well = phase == "Succeeded";
    let (code, reason) = if is_well { (0, "Completed") } else { (1, "Error") };
    pod["status"]["phase"] = json!(phase);
    if let Some(statuses) = pod["status"]["containerStatuses"].as_array_mut() {
        for status in statuses {
            let started = status["state"]["running"]["startedAt"].clone();
            status["ready"] = json!(false);
            status["started"] = json!(false);
            status["state"] = json!({ "terminated": {
                "exitCode": code,
                "reason": reason,
                "startedAt": started,
                "finishedAt": now,
            } });
        }
    }
    let reason = if is_well { "PodCompleted" } else { "PodFailed" };
    for kind in ["Ready", "ContainersReady"] {
        set_condition(
            pod,
            json!({ "type": kind, "status": "False", "reason": reason }),
            now,
        );
    }
}

fn containers(pod: &Value) -> impl Iterator<Item = (&str, &str)> {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    containers.map(|container| (text(container, "name"), text(container, "image")))
}
