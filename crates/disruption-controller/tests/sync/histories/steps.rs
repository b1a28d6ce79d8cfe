//! What happens to two budgets and their pods, drawn and done. The cluster that the steps request must not depend on
//! which evictions the controller let pass: the requested pods are kept apart from the server, and evicted ones are
//! brought back.

use std::collections::BTreeMap;
use std::time::Duration;

use controller_testing::fault_history::{At, Draw};
use controller_testing::history::{Scripted, deletes, edits, step};
use controller_testing::objects::{delete, edit, find, name, owner, remove, stays, terminate, uid};
use controller_testing::past::now;
use embedded_apiserver::{CUSTOM_RESOURCE_DEFINITIONS, POD_DISRUPTION_BUDGETS, PODS, Server};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::EvictParams;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::suite::Budgets;
use crate::budget::definition;
use crate::by_hand::matches;
use crate::world::{pdb, pod as pod_of, ready, resource, workload as workload_of};

const BUDGETS: usize = 2;
/// The kind of each workload, and the index of the one that controls it.
const WORKLOADS: [(&str, Option<usize>); 6] = [
    ("Deployment", None),
    ("ReplicaSet", Some(0)),
    ("ReplicaSet", None),
    ("StatefulSet", None),
    ("ReplicationController", None),
    ("Widget", None),
];
/// The one whose kind may not be defined.
const WIDGET: usize = 5;
const APPS: [&str; 2] = ["a", "b"];

/// What the steps requested.
#[derive(Default)]
pub(super) struct Asked {
    pods: BTreeMap<String, Wanted>,
    /// The newest of each number.
    workloads: BTreeMap<usize, Value>,
    evictions: JoinSet<()>,
}

/// A pod that the steps requested.
struct Wanted {
    labels: Value,
    ready: bool,
    /// Bound to a node, so that its deletion takes its time.
    bound: bool,
    owner: Option<Value>,
    terminating: bool,
    /// The uid of the pod, until it is evicted.
    uid: String,
}

impl Asked {
    /// The steps are over: evictions stop, and the cluster becomes what they requested.
    pub(super) fn rest(&mut self, server: &Server) {
        self.evictions.abort_all();
        self.replace(server);
    }

    /// Changes a pod, whether it exists or was evicted.
    fn change(&mut self, server: &Server, pod: &str, change: impl FnOnce(&mut Wanted)) {
        let Some(wanted) = self.pods.get_mut(pod) else {
            return;
        };
        change(wanted);
        edit(server, &PODS, pod, |pod| {
            pod["metadata"]["labels"] = wanted.labels.clone();
            let conditions = pod["status"]["conditions"].as_array_mut();
            let mut conditions = conditions.into_iter().flatten();
            if let Some(held) = conditions.find(|condition| condition["type"] == "Ready") {
                *held = ready(wanted.ready);
            }
        });
    }

    /// Brings back the pods that were evicted.
    fn replace(&mut self, server: &Server) {
        for (name, wanted) in &mut self.pods {
            let is_there = find(server, &PODS, name)
                .is_some_and(|pod| uid(&pod) == wanted.uid && stays(Some(&pod)) != wanted.terminating);
            if !is_there {
                wanted.bring(server, name);
            }
        }
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "the person who drains a node is no task of the controller"
    )]
    fn evict(&mut self, server: &Server, name: String) {
        let pods: Api<Pod> = Api::namespaced(server.client_as("drain/test"), "default");
        self.evictions.spawn(async move {
            // The eviction may be refused, or meet a fault.
            let _ = pods.evict(&name, &EvictParams::default()).await;
        });
    }
}

impl Wanted {
    fn bring(&mut self, server: &Server, name: &str) {
        remove(server, &PODS, name);
        let pod = pod_of(name, &self.labels, self.ready, self.bound, self.owner.as_ref());
        self.uid = uid(&server.insert(pod).unwrap());
        if self.terminating {
            terminate(server, name);
        }
    }
}

/// The steps of a history that lasts `length`, in order.
pub(super) fn drawn(draw: &mut Draw, length: Duration) -> Vec<At<Scripted<Budgets>>> {
    let pods = draw.number(5..10);
    let mut furniture = vec![define_widgets()];
    furniture.extend((0..WORKLOADS.len()).map(|number| workload(number, replicas(draw))));
    furniture.extend((0..pods).map(|number| pod(draw, pod_name(number))));
    furniture.extend((0..BUDGETS).map(|number| budget(draw, number)));
    let mut steps: Vec<_> = (0..draw.number(6..22))
        .map(|_| At {
            time: draw.time(Duration::from_secs(1)..length),
            what: drawn_step(draw, pods),
        })
        .collect();
    steps.sort_by_key(|step| step.time);
    // Evictions follow closely on changes and on each other, so that they meet status writes in flight.
    for at in 0..steps.len() {
        for _ in 0..draw.pick(&[0, 0, 0, 1, 2]) {
            let time = steps[at].time + Duration::from_millis(draw.pick(&[0, 3, 60]));
            let what = evict(pod_name(draw.number(0..pods)));
            steps.push(At { time, what });
        }
    }
    steps.sort_by_key(|step| step.time);
    let furniture = furniture.into_iter().map(|step| At::seconds(0, step));
    furniture.chain(steps).collect()
}

fn drawn_step(draw: &mut Draw, pods: usize) -> Scripted<Budgets> {
    let name = pod_name(draw.number(0..pods));
    let of_budget = draw.number(0..BUDGETS);
    let of_workload = draw.number(0..WORKLOADS.len());
    match draw.number(0..37) {
        0..7 => become_ready(name, draw.chance(50)),
        7..11 => pod(draw, name),
        11..13 => delete_pod(name),
        13 => terminate_pod(name),
        14..16 => relabel(name, labels(draw)),
        16..19 => scale(of_workload, replicas(draw)),
        // Its pods stay behind.
        19 => deletes(resource(WORKLOADS[of_workload].0), workload_name(of_workload)),
        20 => workload(of_workload, replicas(draw)),
        21..23 => ask(budget_name(of_budget), amount(draw)),
        23 => select(budget_name(of_budget), selector(draw, of_budget)),
        24 => budget(draw, of_budget),
        25 => deletes(&POD_DISRUPTION_BUDGETS, budget_name(of_budget)),
        26..28 => evict(name),
        28..31 => approve(name),
        // Widgets go with their definition, their pods stay behind.
        31 => deletes(&CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com".to_owned()),
        32 => define_widgets(),
        33 => workload(WIDGET, replicas(draw)),
        _ => step(
            "the pods that were evicted are replaced",
            |budgets: &mut Budgets, server| {
                budgets.asked.replace(server);
            },
        ),
    }
}

fn define_widgets() -> Scripted<Budgets> {
    step("widgets are defined", |_, server: &Server| {
        drop(server.insert(definition("Widget", true)));
    })
}

fn replicas(draw: &mut Draw) -> i64 {
    draw.pick(&[0, 1, 1, 2, 2, 3])
}

/// `app`, and perhaps `tier`.
fn labels(draw: &mut Draw) -> Value {
    let app = draw.pick(&APPS);
    if draw.chance(30) {
        json!({ "app": app, "tier": "front" })
    } else {
        json!({ "app": app })
    }
}

/// `minAvailable` or `maxUnavailable`.
fn amount(draw: &mut Draw) -> Value {
    let number = json!(draw.number(0..4));
    let (field, percents) = draw.pick(&[
        ("minAvailable", ["0%", "30%", "50%", "100%"]),
        ("maxUnavailable", ["0%", "30%", "50%", "70%"]),
        ("maxUnavailable", ["10%", "30%", "50%", "100%"]),
    ]);
    let percent = json!(draw.pick(&percents));
    json!({ field: draw.pick(&[number, percent]) })
}

/// Mostly pods that no other budget selects: the Eviction API refuses pods that several select.
fn selector(draw: &mut Draw, budget: usize) -> Value {
    let one = |expression: Value| json!({ "matchExpressions": [expression] });
    let (app, other) = (APPS[budget % APPS.len()], APPS[(budget + 1) % APPS.len()]);
    match draw.number(0..14) {
        0..6 => json!({ "matchLabels": { "app": app } }),
        6..8 => one(json!({ "key": "app", "operator": "In", "values": [app, "none"] })),
        8..10 => one(json!({ "key": "app", "operator": "NotIn", "values": [other] })),
        10 => one(json!({ "key": "tier", "operator": "Exists" })),
        11 => one(json!({ "key": "tier", "operator": "DoesNotExist" })),
        12 => json!({}),
        _ => Value::Null,
    }
}

/// Creates a workload, in the place of the one with its number.
fn workload(number: usize, replicas: i64) -> Scripted<Budgets> {
    let (kind, above) = WORKLOADS[number];
    let says = format!("{kind} {number} comes anew and wants {replicas} pods");
    step(says, move |Budgets { asked, .. }: &mut Budgets, server| {
        delete(server, resource(kind), &workload_name(number));
        let above = above.and_then(|above| asked.workloads.get(&above));
        // Its kind may not be defined.
        if let Ok(made) = server.insert(workload_of(kind, &workload_name(number), replicas, above)) {
            asked.workloads.insert(number, made);
        }
    })
}

fn scale(number: usize, replicas: i64) -> Scripted<Budgets> {
    let (kind, name) = (WORKLOADS[number].0, workload_name(number));
    let says = format!("{kind} {number} wants {replicas} pods");
    edits(says, resource(kind), name, move |workload| {
        workload["spec"]["replicas"] = json!(replicas);
    })
}

/// Creates a pod, in the place of the one with its number.
fn pod(draw: &mut Draw, pod: String) -> Scripted<Budgets> {
    // A Deployment has no pods of its own.
    let workload = draw.number(1..WORKLOADS.len());
    let labels = labels(draw);
    let workload = draw.chance(90).then_some(workload);
    let (ready, bound) = (draw.chance(85), draw.chance(50));
    let of = workload.map_or("of nobody".to_owned(), |number| {
        format!("of {} {number}", WORKLOADS[number].0)
    });
    let says = format!("{pod} comes anew, {of}, {labels}, ready: {ready}, bound: {bound}");
    step(says, move |Budgets { asked, .. }: &mut Budgets, server| {
        let owner = workload
            .and_then(|workload| asked.workloads.get(&workload))
            .map(owner);
        let (labels, uid) = (labels.clone(), String::new());
        let mut wanted = Wanted {
            labels,
            ready,
            bound,
            owner,
            terminating: false,
            uid,
        };
        wanted.bring(server, &pod);
        asked.pods.insert(pod.clone(), wanted);
    })
}

/// The kubelet sets the pod's readiness.
fn become_ready(pod: String, ready: bool) -> Scripted<Budgets> {
    let says = format!("{pod} is {}", if ready { "ready" } else { "not ready" });
    step(says, move |budgets: &mut Budgets, server| {
        budgets.asked.change(server, &pod, |pod| pod.ready = ready);
    })
}

fn relabel(pod: String, labels: Value) -> Scripted<Budgets> {
    let says = format!("{pod} becomes {labels}");
    step(says, move |budgets: &mut Budgets, server| {
        budgets
            .asked
            .change(server, &pod, |pod| pod.labels.clone_from(&labels));
    })
}

/// The pod's deletion begins and does not end.
fn terminate_pod(pod: String) -> Scripted<Budgets> {
    let says = format!("the deletion of {pod} begins");
    step(says, move |budgets: &mut Budgets, server| {
        if let Some(wanted) = budgets.asked.pods.get_mut(&pod) {
            wanted.terminating = true;
            terminate(server, &pod);
        }
    })
}

/// The pod is gone at once.
fn delete_pod(pod: String) -> Scripted<Budgets> {
    let says = format!("{pod} is deleted");
    step(says, move |budgets: &mut Budgets, server| {
        budgets.asked.pods.remove(&pod);
        remove(server, &PODS, &pod);
    })
}

/// Creates a budget, in the place of the one with its number.
fn budget(draw: &mut Draw, budget: usize) -> Scripted<Budgets> {
    let mut spec = amount(draw);
    spec["selector"] = selector(draw, budget);
    step(format!("budget {budget} comes anew: {spec}"), move |_, server| {
        delete(server, &POD_DISRUPTION_BUDGETS, &budget_name(budget));
        server.insert(pdb(&budget_name(budget), &spec)).unwrap();
    })
}

fn ask(budget: String, amount: Value) -> Scripted<Budgets> {
    let says = format!("{budget} asks for {amount}");
    edits(says, &POD_DISRUPTION_BUDGETS, budget, move |pdb| {
        for field in ["minAvailable", "maxUnavailable"] {
            pdb["spec"][field] = amount[field].clone();
        }
    })
}

fn select(budget: String, selector: Value) -> Scripted<Budgets> {
    let says = format!("{budget} is about {selector}");
    edits(says, &POD_DISRUPTION_BUDGETS, budget, move |pdb| {
        pdb["spec"]["selector"] = selector.clone();
    })
}

/// Somebody calls the Eviction API.
fn evict(pod: String) -> Scripted<Budgets> {
    let says = format!("somebody evicts {pod}");
    step(says, move |budgets: &mut Budgets, server| {
        budgets.asked.evict(server, pod.clone());
    })
}

/// The Eviction API approves, and dies before it deletes: what it has written to the budget and the pod by then.
fn approve(pod: String) -> Scripted<Budgets> {
    let says = format!("the eviction of {pod} is approved and does not come");
    step(says, move |_, server| {
        let Some(pod) = find(server, &PODS, &pod).filter(|pod| stays(Some(pod))) else {
            return;
        };
        let has = &pod["metadata"]["labels"];
        let mut budgets = server.list(&POD_DISRUPTION_BUDGETS);
        budgets.retain(|pdb| matches(&pdb["spec"]["selector"], has));
        let [pdb] = &*budgets else { return };
        let allowed = pdb["status"]["disruptionsAllowed"].as_i64().unwrap_or_default();
        if allowed == 0 || pdb["status"]["observedGeneration"] != pdb["metadata"]["generation"] {
            return;
        }
        let since = Timestamp::from_second(now(server).as_second())
            .unwrap()
            .to_string();
        edit(server, &POD_DISRUPTION_BUDGETS, &name(pdb), |pdb| {
            pdb["status"]["disruptionsAllowed"] = json!(allowed - 1);
            pdb["status"]["disruptedPods"][name(&pod)] = json!(since);
        });
        let target = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting", "lastTransitionTime": since,
        });
        edit(server, &PODS, &name(&pod), |pod| {
            let conditions = pod["status"]["conditions"].as_array_mut().unwrap();
            conditions.retain(|condition| condition["type"] != "DisruptionTarget");
            conditions.push(target);
        });
    })
}

fn pod_name(pod: usize) -> String {
    format!("pod-{pod}")
}

fn budget_name(budget: usize) -> String {
    format!("budget-{budget}")
}

fn workload_name(workload: usize) -> String {
    format!("workload-{workload}")
}
