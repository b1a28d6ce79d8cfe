//! The status of a pod, as a kubelet reports it.

use serde_json::{Value, json};

use crate::conditions;
use crate::object::text;

/// True if the pod has ended by itself.
pub(super) fn is_terminal(pod: &Value) -> bool {
    matches!(text(&pod["status"], "phase"), "Succeeded" | "Failed")
}

/// Makes the pod running and ready.
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
        conditions::set(pod, json!({ "type": kind, "status": "True" }), now);
    }
}

/// Ends the pod's containers, all with success.
pub(super) fn end(pod: &mut Value, now: &str) {
    pod["status"]["phase"] = json!("Succeeded");
    if let Some(statuses) = pod["status"]["containerStatuses"].as_array_mut() {
        for status in statuses {
            let started = status["state"]["running"]["startedAt"].clone();
            status["ready"] = json!(false);
            status["started"] = json!(false);
            status["state"] = json!({ "terminated": {
                "exitCode": 0,
                "reason": "Completed",
                "startedAt": started,
                "finishedAt": now,
            } });
        }
    }
    for kind in ["Ready", "ContainersReady"] {
        let condition = json!({ "type": kind, "status": "False", "reason": "PodCompleted" });
        conditions::set(pod, condition, now);
    }
}

fn containers(pod: &Value) -> impl Iterator<Item = (&str, &str)> {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    containers.map(|container| (text(container, "name"), text(container, "image")))
}
