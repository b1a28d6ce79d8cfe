//! What happens to a few nodes and their pods, drawn and done; the ledger does not depend on what the controller did
//! before.

use std::time::Duration;

use controller_testing::fault_history::{At, Draw};
use controller_testing::history::{Scripted, step};
use controller_testing::objects::{delete, edit, find};
use controller_testing::past::{at, millis, second};
use embedded_apiserver::{NODES, PODS, Server};
use serde_json::{Value, json};

use crate::ledger::{Bound, FAILED, Ledger, Toleration};

const NODE_COUNT: usize = 3;
pub(super) const KEYS: [&str; 4] = ["k", "other", FAILED[0], FAILED[1]];

/// The steps of a history that lasts `length`, in order.
pub(super) fn drawn(draw: &mut Draw, length: Duration) -> Vec<At<Scripted<Ledger>>> {
    let pods = draw.number(4..12);
    let mut furniture: Vec<_> = (0..NODE_COUNT).map(add_node).collect();
    for node in 0..NODE_COUNT {
        if draw.chance(25) {
            furniture.push(taint(draw, node, 60));
        }
    }
    furniture.extend((0..pods).map(|pod| bind(draw, pod, 100)));
    // Deadlines fall on whole seconds, or on whole seconds after a step that begins something. If steps that end
    // something may fall on them, too, either may be first.
    let close = draw.chance(20);
    let mut steps: Vec<_> = (0..draw.number(4..20))
        .map(|_| {
            let (begins, what) = drawn_step(draw, pods);
            let time = draw.time(Duration::from_secs(1)..length);
            let apart = Duration::from_millis(if begins { 200 } else { 600 });
            let apart = Duration::from_secs(time.as_secs()) + apart;
            let time = if close { time } else { apart };
            At { time, what }
        })
        .collect();
    steps.sort_by_key(|step| step.time);
    let furniture = furniture.into_iter().map(|step| At::seconds(0, step));
    furniture.chain(steps).collect()
}

/// A step, and whether a toleration may begin to run with it.
fn drawn_step(draw: &mut Draw, pods: usize) -> (bool, Scripted<Ledger>) {
    let node = draw.number(0..NODE_COUNT);
    match draw.number(0..24) {
        0..8 => (true, taint(draw, node, 30)),
        8..13 => (false, untaint(node, draw.pick(&KEYS))),
        13..15 => (false, swap(node)),
        15..17 => {
            let pod = draw.number(0..pods);
            (true, bind(draw, pod, 1))
        }
        17 => (false, delete_pod(draw.number(0..pods))),
        18 => (false, delete_node(node)),
        19 => (true, add_node(node)),
        _ => {
            let pod = draw.number(0..pods);
            (false, tolerate(draw, pod))
        }
    }
}

/// A node comes, unless it exists.
fn add_node(node: usize) -> Scripted<Ledger> {
    let says = format!("node {node} comes, if it is not there");
    step(says, move |_, server| {
        let name = node_name(node);
        let _ = server.insert(json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } }));
    })
}

/// A node goes, its pods stay behind.
fn delete_node(node: usize) -> Scripted<Ledger> {
    let says = format!("node {node} is deleted");
    step(says, move |ledger: &mut Ledger, server| {
        delete(server, &NODES, &node_name(node));
        ledger.untainted(millis(server.elapsed()), &node_name(node), |_| true);
    })
}

/// A taint comes, with a `timeAdded` of some seconds ago or without one.
fn taint(draw: &mut Draw, node: usize, longest_ago: usize) -> Scripted<Ledger> {
    let ago = i64::try_from(draw.number(0..longest_ago)).unwrap();
    let key = draw.pick(&KEYS);
    let ago = draw.pick(&[None, Some(0), Some(0), Some(ago), Some(-ago)]);
    let since = ago.map_or("without a time".to_owned(), |ago| format!("as if {ago} s ago"));
    let says = format!("node {node} is tainted {key}, {since}");
    step(says, move |ledger: &mut Ledger, server| {
        if find(server, &NODES, &node_name(node)).is_some() {
            let added = ago.map(|ago| (second(server) - ago) * 1000);
            ledger.tainted(millis(server.elapsed()), &node_name(node), (key, ""), added);
            show_taints(server, ledger, &node_name(node));
        }
    })
}

fn untaint(node: usize, key: &'static str) -> Scripted<Ledger> {
    let says = format!("the taint {key} of node {node} goes");
    step(says, move |ledger: &mut Ledger, server| {
        ledger.untainted(millis(server.elapsed()), &node_name(node), |stay| stay.key == key);
        show_taints(server, ledger, &node_name(node));
    })
}

/// `not-ready` becomes `unreachable`, or vice versa, if the node has one of them.
fn swap(node: usize) -> Scripted<Ledger> {
    let says = format!("not-ready and unreachable change places on node {node}");
    step(says, move |ledger: &mut Ledger, server| {
        let (name, now) = (node_name(node), millis(server.elapsed()));
        let had = FAILED.map(|key| ledger.taints(&name).any(|stay| stay.key == key));
        let [from, to] = match had {
            [true, false] => FAILED,
            [false, true] => [FAILED[1], FAILED[0]],
            _ => return,
        };
        ledger.untainted(now, &name, |stay| stay.key == from);
        ledger.tainted(now, &name, (to, ""), Some(second(server) * 1000));
        show_taints(server, ledger, &name);
    })
}

/// A pod was bound to a node some seconds ago, in the place of the one with its number.
fn bind(draw: &mut Draw, pod: usize, longest_ago: usize) -> Scripted<Ledger> {
    let exists = |key: Option<&'static str>, seconds| Toleration {
        key,
        value: None,
        seconds,
    };
    let seconds = |draw: &mut Draw| Some(draw.pick(&[0, 3, 10, 20, 45, 70]));
    let tolerations = match draw.number(0..8) {
        0 => Vec::new(),
        1 => vec![exists(None, None)],
        2..4 => vec![exists(None, seconds(draw))],
        4..6 => FAILED.map(|key| exists(Some(key), seconds(draw))).to_vec(),
        6 => vec![exists(Some("k"), None), exists(None, seconds(draw))],
        _ => vec![exists(Some("k"), seconds(draw)), exists(None, None)],
    };
    let node = draw.number(0..NODE_COUNT);
    let ago = i64::try_from(draw.number(0..longest_ago)).unwrap();
    let says = format!("pod {pod} is bound anew to node {node}, as if {ago} s ago, with {tolerations:?}");
    step(says, move |ledger: &mut Ledger, server| {
        let bound = Bound {
            node: node_name(node),
            at: (second(server) - ago) * 1000,
            tolerations: tolerations.clone(),
        };
        let time = at(bound.at).to_string();
        let scheduled = json!({ "type": "PodScheduled", "status": "True", "lastTransitionTime": time });
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": pod_name(pod) },
            "spec": { "nodeName": bound.node, "tolerations": listed(&tolerations), "containers": [] },
            "status": { "conditions": [scheduled] },
        });
        delete(server, &PODS, &controller_testing::objects::name(&pod));
        ledger.pods.create(server, pod, bound);
    })
}

/// Changes a pod's tolerations as an API server permits: new ones come, and old ones last for another time. Source:
/// `validateOnlyAddedTolerations` in `k8s.io/kubernetes/pkg/apis/core/validation`.
fn tolerate(draw: &mut Draw, pod: usize) -> Scripted<Ledger> {
    let seconds = draw.pick(&[None, Some(0), Some(3), Some(10), Some(20), Some(45), Some(70)]);
    if draw.chance(50) {
        let place = draw.number(0..2);
        let says = format!("pod {pod}, if it is there, tolerates what its {place}th does for {seconds:?} s");
        return retold(pod, says, move |tolerations| {
            // The number wraps around.
            let place = place.checked_rem(tolerations.len());
            if let Some(place) = place {
                tolerations[place].seconds = seconds;
            }
        });
    }
    let key = draw.pick(&[
        None,
        Some(KEYS[0]),
        Some(KEYS[1]),
        Some(FAILED[0]),
        Some(FAILED[1]),
    ]);
    let (toleration, first) = (
        Toleration {
            key,
            value: None,
            seconds,
        },
        draw.chance(50),
    );
    let says = format!("pod {pod}, if it is there, gets {toleration:?}, before its others: {first}");
    retold(pod, says, move |tolerations| {
        let place = if first { 0 } else { tolerations.len() };
        tolerations.insert(place, toleration.clone());
    })
}

fn retold(
    pod: usize,
    says: String,
    change: impl Fn(&mut Vec<Toleration>) + Send + Sync + 'static,
) -> Scripted<Ledger> {
    step(says, move |ledger: &mut Ledger, server| {
        let told = ledger
            .pods
            .tell(server, &pod_name(pod), |bound| change(&mut bound.tolerations));
        if let Some(bound) = told {
            let listed = listed(&bound.tolerations);
            edit(server, &PODS, &pod_name(pod), |pod| {
                pod["spec"]["tolerations"] = listed;
            });
        }
    })
}

fn delete_pod(pod: usize) -> Scripted<Ledger> {
    let says = format!("somebody deletes pod {pod}");
    step(says, move |ledger: &mut Ledger, server| {
        ledger.pods.delete(server, &PODS, &pod_name(pod));
    })
}

fn node_name(node: usize) -> String {
    format!("node-{node}")
}

fn pod_name(pod: usize) -> String {
    format!("pod-{pod}")
}

fn listed(tolerations: &[Toleration]) -> Value {
    let listed = tolerations.iter().map(|Toleration { key, seconds, .. }| {
        json!({ "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds })
    });
    listed.collect()
}

/// Gives the node the taints in the ledger, if it exists.
fn show_taints(server: &Server, ledger: &Ledger, name: &str) {
    let taints = ledger.taints(name).map(|stay| {
        json!({ "key": stay.key, "effect": "NoExecute", "timeAdded": stay.added.map(|at| self::at(at).to_string()) })
    });
    let taints: Value = taints.collect();
    edit(server, &NODES, name, |node| node["spec"]["taints"] = taints);
}
