//! Takes the steps of a history: what the server shows, and what the ledger keeps.

use harness::objects::{stays, text};
use harness::sim::START;
use jiff::SignedDuration;
use serde_json::{Value, json};
use testkit::embedded::{NODES, PODS, Server};

use super::ledger::{FAILED, Ledger, Life, Told, Toleration, millis};
use super::steps::Action;

/// Takes one step. The ledger does not depend on what the controller did before.
pub(super) fn take(server: &Server, ledger: &mut Ledger, action: &Action) {
    let now = millis(server.elapsed());
    match action {
        Action::AddNode(node) => {
            let node =
                json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": node_name(*node) } });
            // It may be there already.
            let _ = server.insert(node);
        }
        Action::DeleteNode(node) => {
            let name = node_name(*node);
            // It may be gone already.
            let _ = server.delete(&NODES, "", &name);
            ledger.untainted(now, &name, |_| true);
        }
        Action::Bind {
            pod,
            node,
            tolerations,
            ago,
        } => {
            delete_pod(server, ledger, &pod_name(*pod));
            bind(
                server,
                ledger,
                (&pod_name(*pod), &node_name(*node)),
                tolerations,
                *ago,
            );
        }
        Action::Tolerate { pod, edit } => {
            let name = pod_name(*pod);
            ledger.told(now, &name, |tolerations| edit.apply(tolerations));
            let Some(life) = ledger.standing().find(|life| life.name == name) else {
                return;
            };
            let listed = listed(life.tolerations());
            // It may be gone already.
            let _ = server.edit(&PODS, "default", &name, |pod| {
                pod["spec"]["tolerations"] = listed.clone();
            });
        }
        Action::DeletePod(pod) => delete_pod(server, ledger, &pod_name(*pod)),
        Action::Taint { node, key, ago } => {
            let name = node_name(*node);
            if server.get(&NODES, "", &name).is_some() {
                let added = ago.map(|ago| (second(server) - ago) * 1000);
                ledger.tainted(now, &name, key, added);
                show_taints(server, ledger, &name);
            }
        }
        Action::Untaint { node, key } => {
            let name = node_name(*node);
            ledger.untainted(now, &name, |stay| stay.key == *key);
            show_taints(server, ledger, &name);
        }
        Action::Swap(node) => {
            let name = node_name(*node);
            let added = second(server) * 1000;
            let had = FAILED.map(|key| ledger.taints(&name).any(|stay| stay.key == key));
            let [from, to] = match had {
                [true, false] => FAILED,
                [false, true] => [FAILED[1], FAILED[0]],
                _ => return,
            };
            ledger.untainted(now, &name, |stay| stay.key == from);
            ledger.tainted(now, &name, to, Some(added));
            show_taints(server, ledger, &name);
        }
    }
}

/// Whether just this pod is there; no kubelet ends those that are being deleted.
pub(super) fn lives(server: &Server, life: &Life) -> bool {
    let pod = server.get(&PODS, "default", &life.name);
    pod.is_some_and(|pod| pod["metadata"]["uid"] == life.uid && stays(Some(&pod)))
}

fn node_name(node: usize) -> String {
    format!("node-{node}")
}

fn pod_name(pod: usize) -> String {
    format!("pod-{pod}")
}

/// Seconds since the start.
fn second(server: &Server) -> i64 {
    i64::try_from(server.elapsed().as_secs()).unwrap()
}

fn time(millis: i64) -> String {
    START
        .checked_add(SignedDuration::from_millis(millis))
        .unwrap()
        .to_string()
}

fn bind(
    server: &Server,
    ledger: &mut Ledger,
    (name, node): (&str, &str),
    tolerations: &[Toleration],
    ago: i64,
) {
    let bound = (second(server) - ago) * 1000;
    let scheduled = json!({ "type": "PodScheduled", "status": "True", "lastTransitionTime": time(bound) });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": { "nodeName": node, "tolerations": listed(tolerations), "containers": [] },
        "status": { "conditions": [scheduled] },
    });
    let pod = server.insert(pod).unwrap();
    let uid = text(&pod["metadata"]["uid"]);
    let from = millis(server.elapsed());
    ledger.pods.push(Life {
        name: name.to_owned(),
        uid,
        node: node.to_owned(),
        told: vec![Told {
            from,
            tolerations: tolerations.to_vec(),
        }],
        bound,
        from,
        until: None,
    });
}

fn listed(tolerations: &[Toleration]) -> Value {
    tolerations
        .iter()
        .map(|toleration| {
            let Toleration { key, seconds } = toleration;
            json!({ "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds })
        })
        .collect()
}

fn delete_pod(server: &Server, ledger: &mut Ledger, name: &str) {
    // It may be gone already.
    let _ = server.delete(&PODS, "default", name);
    ledger.deleted(millis(server.elapsed()), name);
}

/// Gives the node the taints that the ledger knows, if it is there.
fn show_taints(server: &Server, ledger: &Ledger, name: &str) {
    let taints: Vec<Value> = ledger
        .taints(name)
        .map(|stay| json!({ "key": stay.key, "effect": "NoExecute", "timeAdded": stay.added.map(time) }))
        .collect();
    let _ = server.edit(&NODES, "", name, |node| node["spec"]["taints"] = json!(taints));
}
