mod urgency;

use std::cell::RefCell;

use controller_core::api::{AnswerClass as Answered, Call, CallFailed, Verb};
use controller_core::cache::Wire;
use controller_core::controller::{Accepted, Outcome, Priority};
use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::decide::{Decision, Fate, Numbers, Scales, Situation, StatusPatch, decide};
use crate::view::{PdbWire, PodWire};

fn decoded<W: Wire>(object: &Value) -> Arc<W::View> {
    let found = controller_core::cache::Versioned::read::<W>(object.to_string().as_bytes());
    Arc::new(found.unwrap().unwrap().view)
}

fn pod(name: &str, labels: &Value, ready: bool) -> Arc<PodView> {
    decoded::<PodWire>(&json!({
        "metadata": { "namespace": "ns", "name": name, "uid": name, "labels": labels },
        "status": { "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }] },
    }))
}

fn pdb(name: &str, version: u64, selector: &Value, allowed: i64) -> Arc<PdbView> {
    decoded::<PdbWire>(&json!({
        "metadata": { "namespace": "ns", "name": name, "uid": name, "resourceVersion": version.to_string() },
        "spec": { "selector": selector, "minAvailable": 2 },
        "status": { "disruptionsAllowed": allowed },
    }))
}

fn web() -> Value {
    json!({ "matchLabels": { "app": "web" } })
}

#[derive(Default)]
struct Bench(RefCell<State>);

fn web_key() -> ObjectKey {
    ObjectKey::namespaced("ns", "web")
}

fn decision(snapshot: &Situation) -> Decision {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    decide(snapshot, &Scales::default(), |_| None, now)
}

fn write(decision: &Decision) -> &StatusPatch {
    decision.plan.as_ref().unwrap()
}

fn accepted() -> Outcome {
    Outcome::Accepted(Accepted::default())
}

fn failed(outcome: Answered) -> Outcome {
    Outcome::Failed(CallFailed::Answered {
        call: Call {
            verb: Verb::Patch,
            resource: "poddisruptionbudgets.policy/status",
            target: String::new(),
        },
        outcome,
        code: None,
        message: String::new(),
    })
}

impl Bench {
    fn put(&self, pod: &Arc<PodView>) -> Changed {
        self.0
            .borrow_mut()
            .pod_changed(&pod.key, Some(pod), Duration::ZERO)
    }

    fn put_pdb(&self, pdb: &Arc<PdbView>) -> Changed {
        self.0.borrow_mut().pdb_changed(&pdb.key, Some(pdb), true)
    }

    fn remove_pdb(&self, name: &str) -> Changed {
        let key = ObjectKey::namespaced("ns", name);
        self.0.borrow_mut().pdb_changed(&key, None, true)
    }

    fn snapshot(&self) -> Situation {
        self.0.borrow().snapshot(&web_key()).unwrap()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Budget) -> T) -> T {
        self.0.borrow_mut().change(&web_key(), None, change).unwrap()
    }

    /// Computes as a pass does.
    fn compute(&self, by: ExpectedBy) -> Decision {
        let decision = decision(&self.snapshot());
        self.change(|budget| budget.basis = Some(Basis::of(&decision, by)));
        decision
    }

    /// Computes, and writes the result, which makes this version.
    fn compute_and_write(&self, version: u64) -> Numbers {
        let decision = self.compute(ExpectedBy::Selected);
        let write = write(&decision);
        self.change(|budget| budget.sent(write));
        let made = write.applied_to(&self.snapshot().pdb, Some(version));
        assert_eq!(self.put_pdb(&Arc::new(made)).enqueued, []);
        self.change(|budget| budget.ended(&accepted()));
        decision.result.unwrap()
    }

    /// The names of the budgets that a pod with these labels enqueues.
    fn enqueued(&self, labels: &Value) -> Vec<String> {
        let change = self.put(&pod("probe", labels, true));
        let key = ObjectKey::namespaced("ns", "probe");
        self.0.borrow_mut().pod_changed(&key, None, Duration::ZERO);
        let names = change
            .enqueued
            .iter()
            .map(|enqueued| enqueued.pdb.name.to_string());
        names.collect()
    }
}

#[test]
fn a_pod_wakes_every_budget_that_matches_it() {
    let bench = Bench::default();
    for (name, selector) in [
        ("web", web()),
        ("all", json!({})),
        ("none", json!(null)),
        ("db", json!({ "matchLabels": { "app": "db" } })),
        (
            "either",
            json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": ["db", "web"] }] }),
        ),
        (
            "not-db",
            json!({ "matchExpressions": [{ "key": "app", "operator": "NotIn", "values": ["db"] }] }),
        ),
        (
            "web-front",
            json!({ "matchLabels": { "app": "web", "tier": "front" } }),
        ),
    ] {
        bench.put_pdb(&pdb(name, 1, &selector, 0));
    }
    assert_eq!(
        bench.enqueued(&json!({ "app": "web" })),
        ["all", "either", "not-db", "web"]
    );
    assert_eq!(
        bench.enqueued(&json!({ "app": "web", "tier": "front" })),
        ["all", "either", "not-db", "web", "web-front"]
    );
    assert_eq!(bench.enqueued(&json!({ "app": "db" })), ["all", "db", "either"]);
    assert_eq!(bench.enqueued(&json!(null)), ["all", "not-db"]);
    for name in ["web", "all", "either"] {
        bench.remove_pdb(name);
    }
    assert_eq!(bench.enqueued(&json!({ "app": "web" })), ["not-db"]);
    for name in ["none", "db", "not-db", "web-front"] {
        bench.remove_pdb(name);
    }
    assert!(bench.0.borrow().namespaces.is_empty());
}

#[test]
fn a_pod_that_changes_its_labels_wakes_the_old_and_the_new() {
    let bench = Bench::default();
    bench.put_pdb(&pdb("web", 1, &web(), 0));
    bench.put_pdb(&pdb("db", 1, &json!({ "matchLabels": { "app": "db" } }), 0));
    bench.put(&pod("p", &json!({ "app": "web" }), true));
    let change = bench.put(&pod("p", &json!({ "app": "db" }), true));
    let names: Vec<_> = change
        .enqueued
        .iter()
        .map(|enqueued| &*enqueued.pdb.name)
        .collect();
    assert_eq!(names, ["db", "web"]);
}
