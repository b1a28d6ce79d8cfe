//! Draws what happens to two budgets and their pods.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::history::{At, Draw};

const BUDGETS: usize = 2;
/// Kind of each workload, and which one controls it.
pub(super) const WORKLOADS: [(&str, Option<usize>); 6] = [
    ("Deployment", None),
    ("ReplicaSet", Some(0)),
    ("ReplicaSet", None),
    ("StatefulSet", None),
    ("ReplicationController", None),
    ("Widget", None),
];
const APPS: [&str; 2] = ["a", "b"];

/// A step of the cluster; budgets, pods and workloads by number.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// Widgets are served, with a `/scale`.
    DefineWidgets,
    /// A workload comes, in the place of the one that has its number.
    Workload { workload: usize, replicas: i64 },
    /// A workload wants so many pods.
    Scale { workload: usize, replicas: i64 },
    /// A workload goes, its pods stay behind.
    DeleteWorkload(usize),
    /// A pod comes, in the place of the one that has its number.
    Pod { pod: usize, made: Made },
    /// The kubelet tells whether it is ready.
    Ready { pod: usize, ready: bool },
    /// It gets other labels.
    Relabel { pod: usize, labels: Labels },
    /// Its deletion begins and does not end.
    Terminate(usize),
    /// It goes at once.
    DeletePod(usize),
    /// A budget comes, in the place of the one that has its number.
    Budget {
        budget: usize,
        amount: Amount,
        selector: Value,
    },
    /// A budget asks for something else.
    Amount { budget: usize, amount: Amount },
    /// A budget is about other pods.
    Select { budget: usize, selector: Value },
    /// A budget goes.
    DeleteBudget(usize),
    /// Somebody asks the Eviction API.
    Evict(usize),
    /// The Eviction API approves, and dies before it deletes.
    Approve(usize),
    /// The pods that were evicted come back under their names.
    Replace,
}

/// How a pod is made.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) labels: Labels,
    pub(super) workload: Option<usize>,
    pub(super) ready: bool,
    /// Bound to a node, so that its deletion takes its time.
    pub(super) bound: bool,
}

/// `app`, and perhaps `tier`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Labels {
    pub(super) app: &'static str,
    pub(super) tier: bool,
}

/// `minAvailable` or `maxUnavailable`.
#[derive(Clone, Debug)]
pub(super) struct Amount {
    pub(super) field: &'static str,
    pub(super) amount: Value,
}

/// The steps of a history that lasts `length`, in order.
pub(super) fn drawn(draw: &mut Draw, length: Duration) -> Vec<At<Action>> {
    let pods = draw.number(5..10);
    let mut actions = vec![At::seconds(0, Action::DefineWidgets)];
    actions.extend((0..WORKLOADS.len()).map(|workload| {
        let replicas = drawn_replicas(draw);
        At::seconds(0, Action::Workload { workload, replicas })
    }));
    actions.extend((0..pods).map(|pod| {
        let made = drawn_pod(draw);
        At::seconds(0, Action::Pod { pod, made })
    }));
    actions.extend((0..BUDGETS).map(|budget| At::seconds(0, drawn_budget(draw, budget))));
    let mut steps: Vec<_> = (0..draw.number(6..22))
        .map(|_| At {
            time: draw.time(Duration::from_secs(1)..length),
            what: drawn_step(draw, pods),
        })
        .collect();
    steps.sort_by_key(|step| step.time);
    // Evictions come close upon changes, and upon each other: then they meet statuses that are being written.
    for at in 0..steps.len() {
        for _ in 0..draw.pick(&[0, 0, 0, 1, 2]) {
            let time = steps[at].time + Duration::from_millis(draw.pick(&[0, 3, 60]));
            let what = Action::Evict(draw.number(0..pods));
            steps.push(At { time, what });
        }
    }
    steps.sort_by_key(|step| step.time);
    actions.extend(steps);
    actions
}

fn drawn_step(draw: &mut Draw, pods: usize) -> Action {
    let pod = draw.number(0..pods);
    let budget = draw.number(0..BUDGETS);
    let workload = draw.number(0..WORKLOADS.len());
    match draw.number(0..34) {
        0..7 => Action::Ready {
            pod,
            ready: draw.chance(50),
        },
        7..11 => Action::Pod {
            pod,
            made: drawn_pod(draw),
        },
        11..13 => Action::DeletePod(pod),
        13 => Action::Terminate(pod),
        14..16 => Action::Relabel {
            pod,
            labels: drawn_labels(draw),
        },
        16..19 => Action::Scale {
            workload,
            replicas: drawn_replicas(draw),
        },
        19 => Action::DeleteWorkload(workload),
        20 => Action::Workload {
            workload,
            replicas: drawn_replicas(draw),
        },
        21..23 => Action::Amount {
            budget,
            amount: drawn_amount(draw),
        },
        23 => Action::Select {
            budget,
            selector: drawn_selector(draw, budget),
        },
        24 => drawn_budget(draw, budget),
        25 => Action::DeleteBudget(budget),
        26..28 => Action::Evict(pod),
        28..31 => Action::Approve(pod),
        _ => Action::Replace,
    }
}

fn drawn_replicas(draw: &mut Draw) -> i64 {
    draw.pick(&[0, 1, 1, 2, 2, 3])
}

fn drawn_labels(draw: &mut Draw) -> Labels {
    Labels {
        app: draw.pick(&APPS),
        tier: draw.chance(30),
    }
}

fn drawn_pod(draw: &mut Draw) -> Made {
    // A Deployment has no pods of its own.
    let workload = draw.number(1..WORKLOADS.len());
    Made {
        labels: drawn_labels(draw),
        workload: draw.chance(90).then_some(workload),
        ready: draw.chance(85),
        bound: draw.chance(50),
    }
}

fn drawn_budget(draw: &mut Draw, budget: usize) -> Action {
    Action::Budget {
        budget,
        amount: drawn_amount(draw),
        selector: drawn_selector(draw, budget),
    }
}

fn drawn_amount(draw: &mut Draw) -> Amount {
    let number = json!(draw.number(0..4));
    let (field, percents) = draw.pick(&[
        ("minAvailable", ["0%", "30%", "50%", "100%"]),
        ("maxUnavailable", ["0%", "30%", "50%", "70%"]),
        ("maxUnavailable", ["10%", "30%", "50%", "100%"]),
    ]);
    let percent = json!(draw.pick(&percents));
    Amount {
        field,
        amount: draw.pick(&[number, percent]),
    }
}

/// Mostly those pods that no other budget has: the Eviction API refuses those that several have.
fn drawn_selector(draw: &mut Draw, budget: usize) -> Value {
    let one = |key: &str, operator: &str, values: &[&str]| {
        let mut expression = json!({ "key": key, "operator": operator });
        if !values.is_empty() {
            expression["values"] = json!(values);
        }
        json!({ "matchExpressions": [expression] })
    };
    let app = APPS[budget % APPS.len()];
    let other = APPS[(budget + 1) % APPS.len()];
    match draw.number(0..14) {
        0..6 => json!({ "matchLabels": { "app": app } }),
        6..8 => one("app", "In", &[app, "none"]),
        8..10 => one("app", "NotIn", &[other]),
        10 => one("tier", "Exists", &[]),
        11 => one("tier", "DoesNotExist", &[]),
        12 => json!({}),
        _ => Value::Null,
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DefineWidgets => f.write_str("widgets are defined"),
            Self::Workload { workload, replicas } => {
                write!(f, "{} comes anew and wants {replicas} pods", Workload(*workload))
            }
            Self::Scale { workload, replicas } => {
                write!(f, "{} wants {replicas} pods", Workload(*workload))
            }
            Self::DeleteWorkload(workload) => write!(f, "{} is deleted", Workload(*workload)),
            Self::Pod { pod, made } => {
                let ready = if made.ready { "ready" } else { "not ready" };
                let bound = if made.bound { ", bound" } else { "" };
                write!(f, "pod {pod} comes anew, {ready}{bound}, {}", made.labels)?;
                match made.workload {
                    Some(workload) => write!(f, ", of {}", Workload(workload)),
                    None => f.write_str(", of nobody"),
                }
            }
            Self::Ready { pod, ready: true } => write!(f, "pod {pod} is ready"),
            Self::Ready { pod, ready: false } => write!(f, "pod {pod} is not ready"),
            Self::Relabel { pod, labels } => write!(f, "pod {pod} becomes {labels}"),
            Self::Terminate(pod) => write!(f, "the deletion of pod {pod} begins"),
            Self::DeletePod(pod) => write!(f, "pod {pod} is deleted"),
            Self::Budget {
                budget,
                amount,
                selector,
            } => write!(f, "budget {budget} comes anew: {amount} of {selector}"),
            Self::Amount { budget, amount } => write!(f, "budget {budget} asks for {amount}"),
            Self::Select { budget, selector } => write!(f, "budget {budget} is about {selector}"),
            Self::DeleteBudget(budget) => write!(f, "budget {budget} is deleted"),
            Self::Evict(pod) => write!(f, "somebody evicts pod {pod}"),
            Self::Approve(pod) => write!(f, "the eviction of pod {pod} is approved and does not come"),
            Self::Replace => f.write_str("the pods that were evicted are replaced"),
        }
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "app={}{}", self.app, if self.tier { ",tier" } else { "" })
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.field, self.amount)
    }
}

struct Workload(usize);

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", WORKLOADS[self.0].0, self.0)
    }
}
