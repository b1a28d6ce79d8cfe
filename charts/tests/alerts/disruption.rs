//! Workloads under budgets. Their pods are evicted now and then, are created again and become ready.

use std::time::Duration;

use controller_testing::Start;
use disruption_controller::DisruptionController;
use embedded_apiserver::{Actors, KubeletOptions, NODES, POD_DISRUPTION_BUDGETS, PODS, Server};
use futures::FutureExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::EvictParams;
use serde_json::{Value, json};

use crate::cluster::{Controller, fill, insert_replica_set, start, start_dry};
use crate::faults::{Fault, LEFT_DRY, leave_dry, writes};

const WORKLOADS: u64 = 3;
const NODES_READY: u64 = 5;
/// Ticks between evictions.
const TICKS_AN_EVICTION: u64 = 5;

pub(crate) const CONTROLLER: Controller = Controller {
    name: "disruption-controller",
    start: start::<DisruptionController>,
    start_dry: start_dry::<DisruptionController>,
    prepare,
    actors: || {
        let kubelet = KubeletOptions::new()
            .start_after(Duration::from_secs(8))
            .stop_within(Duration::from_secs(4));
        Actors::new().kubelet(kubelet)
    },
    load: |server, tick| load(server, tick).boxed(),
    faults: FAULTS,
};

const FAULTS: &[Fault] = &[
    Fault {
        name: "a budget selects pods of a controller that does not scale",
        begin: |cluster| {
            let owner = json!({
                "apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": true,
            });
            let mut pod = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "of-a-job", "labels": {"app": "job"}},
                "spec": {"nodeName": "node-0", "containers": []},
            });
            pod["metadata"]["ownerReferences"] = json!([owner]);
            cluster.server.insert(pod).unwrap();
            cluster
                .server
                .insert(budget("job", &json!({"maxUnavailable": 1})))
                .unwrap();
        },
        told_by: &["BudgetsFail"],
    },
    Fault {
        name: "the API server takes 20 s for a status",
        begin: |cluster| {
            let slow = embedded_apiserver::Fault::Delay(Duration::from_secs(20));
            cluster.server.fail(writes(cluster, slow));
        },
        told_by: &["StatusLate"],
    },
    Fault {
        name: "the built-in loop was not switched off, and thinks otherwise",
        begin: |cluster| cluster.fault = Some(|server, _| async move { undo(&server) }.boxed()),
        told_by: &["RivalWriter"],
    },
    Fault {
        name: "a budget lets no pod go for a day",
        begin: |cluster| {
            forbid(&cluster.server);
            cluster.stays = Duration::from_hours(25);
        },
        told_by: &["BudgetNeverAllows"],
    },
    Fault {
        name: "a drain hangs for an hour next to an observer",
        begin: |cluster| {
            forbid(&cluster.server);
            for node in 0..NODES_READY {
                let cordon = |node: &mut Value| node["spec"]["unschedulable"] = json!(true);
                let name = format!("node-{node}");
                cluster.server.edit(&NODES, "", &name, cordon).unwrap();
            }
            cluster.start_as(|_, client, clock| {
                let observer = Start::of::<DisruptionController>().configured(|config| config.observe = true);
                observer.start(client, clock)
            });
            cluster.stays = Duration::from_mins(90);
        },
        told_by: &["NodeCannotBeDrained"],
    },
    Fault {
        name: LEFT_DRY,
        begin: leave_dry,
        told_by: &["PlannedWritesUndone"],
    },
];

fn prepare(server: &Server) {
    for node in 0..NODES_READY {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("node-{node}")}});
        server.insert(node).unwrap();
    }
    let amounts = [
        json!({"minAvailable": 2}),
        json!({"maxUnavailable": 1}),
        json!({"minAvailable": "50%"}),
    ];
    for (workload, amount) in (0..WORKLOADS).zip(amounts.iter().cycle()) {
        let app = app(workload);
        insert_replica_set(
            server,
            &app,
            3,
            &json!({"containers": [{"name": "c", "image": "i"}]}),
        );
        server.insert(budget(&app, amount)).unwrap();
    }
}

async fn load(server: Server, tick: u64) {
    fill(&server, tick);
    if !tick.is_multiple_of(TICKS_AN_EVICTION) {
        return;
    }
    let app = app(tick / TICKS_AN_EVICTION % WORKLOADS);
    let pods = server.list(&PODS);
    let Some(pod) = pods.iter().find(|pod| pod["metadata"]["labels"]["app"] == *app) else {
        return;
    };
    let drain: Api<Pod> = Api::namespaced(server.client_as("drain/test"), "default");
    let name = pod["metadata"]["name"].as_str().unwrap();
    // The budget may refuse the eviction, and the API server may be away.
    let _ = drain.evict(name, &EvictParams::default()).await;
}

fn budget(app: &str, amount: &Value) -> Value {
    let mut pdb = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app},
        "spec": amount,
    });
    pdb["spec"]["selector"] = json!({"matchLabels": {"app": app}});
    pdb
}

/// Lets no pod of the first workload go.
fn forbid(server: &Server) {
    let none = |pdb: &mut Value| {
        pdb["spec"]["minAvailable"].take();
        pdb["spec"]["maxUnavailable"] = json!(0);
    };
    server
        .edit(&POD_DISRUPTION_BUDGETS, "default", &app(0), none)
        .unwrap();
}

/// What a rival does as soon as it sees our status.
fn undo(server: &Server) {
    let differ = |pdb: &mut Value| pdb["status"]["disruptionsAllowed"] = json!(3);
    server
        .edit(&POD_DISRUPTION_BUDGETS, "default", &app(0), differ)
        .unwrap();
}

fn app(workload: u64) -> String {
    format!("web-{workload}")
}
