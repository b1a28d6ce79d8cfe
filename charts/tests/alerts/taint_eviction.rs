//! Nodes that get a taint for a minute and a half, and pods that tolerate it not at all, for some time, or for ever.

use std::time::Duration;

use controller_testing::Start;
use embedded_apiserver::{Actors, KubeletOptions, NODES, RequestVerb, Server};
use futures::FutureExt;
use serde_json::{Value, json};
use taint_eviction_controller::TaintEvictionController;

use crate::cluster::{Controller, fill, insert_replica_set, start, start_dry};
use crate::faults::{Fault, LEFT_DRY, leave_dry, once_an_object, writes};

const NODES_THERE: u64 = 6;
/// Time that a node has its taint, 90 s; then the next one gets it.
const TICKS_TAINTED: u64 = 9;

pub(crate) const CONTROLLER: Controller = Controller {
    name: "taint-eviction-controller",
    start: start::<TaintEvictionController>,
    start_dry: start_dry::<TaintEvictionController>,
    prepare,
    actors: || {
        let kubelet = KubeletOptions::new().stop_within(Duration::from_secs(4));
        Actors::new().kubelet(kubelet)
    },
    load: |server, tick| async move { load(&server, tick) }.boxed(),
    faults: FAULTS,
};

const FAULTS: &[Fault] = &[
    Fault {
        name: "a node fails, and a policy refuses the deletes",
        begin: |cluster| {
            let refused = writes(cluster, embedded_apiserver::Fault::status(403, "Forbidden"));
            cluster.server.fail(refused.verb(RequestVerb::Delete));
            cluster.fault = Some(|server, _| async move { taint(&server, NODES_THERE - 1, true) }.boxed());
        },
        told_by: &["EvictionsOverdue", "RequestsRefused"],
    },
    Fault {
        name: "the API server lets each delete wait for 80 s",
        begin: |cluster| {
            let wait = embedded_apiserver::Fault::Throttled {
                retry_after: Duration::from_secs(80),
            };
            let deletes = writes(cluster, wait).verb(RequestVerb::Delete);
            cluster.server.fail(once_an_object(deletes));
        },
        told_by: &["EvictionsLate"],
    },
    Fault {
        name: "a script taints every node, and the brake holds evictions back",
        begin: |cluster| {
            cluster.replicas.clear();
            for _ in 0..2 {
                cluster.start_as(|identity, client, clock| {
                    let braked = Start::of::<TaintEvictionController>().elected_as(identity);
                    let braked =
                        braked.configured(|config| config.eviction_brake_pods = Some("5".to_owned()));
                    braked.start(client, clock)
                });
            }
            cluster.fault = Some(|server, _| {
                async move { (0..NODES_THERE).for_each(|node| taint(&server, node, true)) }.boxed()
            });
        },
        told_by: &["EvictionBrakeEngaged"],
    },
    Fault {
        name: LEFT_DRY,
        begin: |cluster| {
            leave_dry(cluster);
            cluster.fault = Some(|server, _| async move { taint(&server, NODES_THERE - 1, true) }.boxed());
        },
        told_by: &["PlannedWritesUndone"],
    },
];

fn prepare(server: &Server) {
    for node in 0..NODES_THERE {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name(node)}});
        server.insert(node).unwrap();
    }
    let tolerates =
        |seconds: Value| json!([{"key": "k", "operator": "Exists", "tolerationSeconds": seconds}]);
    for (app, tolerations) in [
        ("not", json!([])),
        ("some-seconds", tolerates(json!(20))),
        ("longer-than-it-takes", tolerates(json!(300))),
        ("for-ever", tolerates(Value::Null)),
    ] {
        let pod = json!({"tolerations": tolerations, "containers": [{"name": "c", "image": "i"}]});
        insert_replica_set(server, app, 6, &pod);
    }
}

fn load(server: &Server, tick: u64) {
    fill(server, tick);
    if !tick.is_multiple_of(TICKS_TAINTED) {
        return;
    }
    let turn = tick / TICKS_TAINTED;
    taint(server, turn + NODES_THERE - 1, false);
    taint(server, turn, true);
}

fn taint(server: &Server, number: u64, tainted: bool) {
    let taint = json!([{"key": "k", "effect": "NoExecute"}]);
    let edit = |node: &mut Value| node["spec"]["taints"] = if tainted { taint } else { Value::Null };
    server
        .edit(&NODES, "", &name(number % NODES_THERE), edit)
        .unwrap();
}

fn name(number: u64) -> String {
    format!("node-{number}")
}
