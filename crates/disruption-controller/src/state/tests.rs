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
    fn compute(&self, by_scale: bool) -> Decision {
        let decision = decision(&self.snapshot());
        self.change(|budget| budget.basis = Some(Basis::of(&decision, by_scale)));
        decision
    }

    /// Computes, and writes the result, which makes this version.
    fn compute_and_write(&self, version: u64) -> Numbers {
        let decision = self.compute(false);
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

/// Three ready pods of a budget that wants two, computed and written.
fn three_of_two() -> Bench {
    let bench = Bench::default();
    bench.put_pdb(&pdb("web", 1, &web(), 0));
    for name in ["a", "b", "c"] {
        bench.put(&pod(name, &json!({ "app": "web" }), true));
    }
    assert_eq!(bench.compute_and_write(2).allowed, 1);
    bench
}

#[rstest]
#[case::another_pod("d", true, false)]
#[case::one_pod_less("a", false, true)]
fn a_value_below_the_last_written_one_is_urgent(
    #[case] name: &str,
    #[case] ready: bool,
    #[case] urgent: bool,
) {
    let bench = three_of_two();
    let change = bench.put(&pod(name, &json!({ "app": "web" }), ready));
    assert_eq!(change.enqueued[0].urgent, urgent);
}

#[rstest]
#[case::refused(Answered::Conflict, false)]
#[case::of_unknown_fate(Answered::retry(true), true)]
fn a_value_below_the_one_on_its_way_is_urgent(#[case] end: Answered, #[case] urgent_after: bool) {
    let bench = three_of_two();
    for name in ["d", "e"] {
        assert!(!bench.put(&pod(name, &json!({ "app": "web" }), true)).enqueued[0].urgent);
    }
    let decision = bench.compute(false);
    assert_eq!(write(&decision).allowed(), 3);
    bench.change(|budget| budget.sent(write(&decision)));
    assert!(bench.put(&pod("a", &json!({ "app": "web" }), false)).enqueued[0].urgent);
    bench.change(|budget| budget.ended(&failed(end)));
    assert_eq!(
        bench.put(&pod("b", &json!({ "app": "web" }), false)).enqueued[0].urgent,
        urgent_after
    );
    // A newer version tells what the API server believes.
    bench.put_pdb(&pdb("web", 3, &web(), 1));
    assert!(!bench.put(&pod("f", &json!({ "app": "web" }), true)).enqueued[0].urgent);
}

#[test]
fn a_budget_that_was_never_computed_is_urgent() {
    let bench = Bench::default();
    bench.put_pdb(&pdb("web", 1, &web(), 0));
    assert!(bench.put(&pod("a", &json!({ "app": "web" }), true)).enqueued[0].urgent);
}

#[test]
fn our_own_write_wakes_nothing_and_an_eviction_does() {
    let bench = three_of_two();
    assert_eq!(&*bench.snapshot().pdb.version, "2");
    let evicted = |version: Arc<str>| {
        let mut evicted = (*bench.snapshot().pdb).clone();
        evicted.version = version;
        evicted.status.disruptions_allowed = 0;
        Arc::new(evicted)
    };
    assert_eq!(bench.put_pdb(&evicted("3".into())).enqueued.len(), 1);
    // The result of a write is no news only while the write is in flight: a write whose answer was lost may come late.
    let decision = bench.compute(false);
    bench.change(|budget| budget.sent(write(&decision)));
    let made = write(&decision).applied_to(&bench.snapshot().pdb, Some(4));
    bench.change(|budget| budget.ended(&failed(Answered::retry(true))));
    assert_eq!(bench.put_pdb(&Arc::new(made)).enqueued.len(), 1);
}

#[test]
fn a_budget_is_behind_its_pods_until_their_change_is_written() {
    let bench = three_of_two();
    let change = |second| {
        let pod = pod("d", &json!({ "app": "web" }), second % 2 == 0);
        let now = Duration::from_secs(second);
        bench.0.borrow_mut().pod_changed(&pod.key, Some(&pod), now);
    };
    let end = |outcome: &Outcome| {
        let decision = bench.compute(false);
        bench.change(|budget| budget.sent(write(&decision)));
        change(20);
        change(21);
        bench.change(|budget| budget.ended(outcome))
    };
    change(10);
    assert_eq!(end(&failed(Answered::Conflict)), None);
    assert_eq!(end(&accepted()), Some(Duration::from_secs(10)));
    assert_eq!(end(&accepted()), Some(Duration::from_secs(20)));
}

#[test]
fn overlaps_are_told_when_they_begin() {
    let bench = Bench::default();
    bench.put(&pod("p", &json!({ "app": "web" }), true));
    assert_eq!(bench.put_pdb(&pdb("one", 1, &web(), 0)).overlapping, None);
    let overlap = bench.put_pdb(&pdb("two", 1, &json!({}), 0)).overlapping.unwrap();
    assert_eq!(overlap.1, ["one".into(), "two".into()]);
    assert_eq!(
        bench
            .put(&pod("q", &json!({ "app": "web" }), true))
            .overlapping
            .unwrap()
            .1
            .len(),
        2
    );
    assert!(
        bench
            .put(&pod("q", &json!({ "app": "web" }), false))
            .overlapping
            .is_none()
    );
}

#[test]
fn an_entry_that_is_approved_again_is_about_the_pod_that_is_there_then() {
    let bench = Bench::default();
    let with_entry = |version: u64, since: &str| {
        decoded::<PdbWire>(&json!({
            "metadata": { "namespace": "ns", "name": "web", "uid": "web", "resourceVersion": version.to_string() },
            "spec": { "selector": web(), "minAvailable": 2 },
            "status": { "disruptedPods": { "p": since } },
        }))
    };
    let fate = || bench.snapshot().entries[0].fate.clone();
    let at_second = |text: &str| text.parse::<Timestamp>().unwrap().as_second();
    let here = |uid: &str| Fate::Here {
        uid: Uid::from(uid),
        healthy: true,
    };
    let of_uid = |uid: &str| {
        Arc::new(PodView {
            uid: Uid::from(uid),
            created: at_second("2026-01-01T00:00:20Z"),
            ..(*pod("p", &json!({ "app": "web" }), true)).clone()
        })
    };
    // The entry came before the pod, and may be about it.
    bench.put_pdb(&with_entry(1, "2026-01-01T00:00:00Z"));
    assert_eq!(fate(), Fate::Gone);
    bench.put(&of_uid("first"));
    assert_eq!(fate(), here("first"));
    bench.put(&of_uid("second"));
    assert_eq!(fate(), Fate::Replaced);
    bench.put_pdb(&with_entry(2, "2026-01-01T00:00:30Z"));
    assert_eq!(fate(), here("second"));
}

#[rstest]
#[case::counted_by_scale(true, true)]
#[case::counted_without(false, false)]
fn what_was_computed_before_a_controller_came_does_not_hold_any_more(
    #[case] by_scale: bool,
    #[case] urgent: bool,
) {
    let bench = three_of_two();
    bench.compute(by_scale);
    assert!(!bench.put(&pod("d", &json!({ "app": "web" }), true)).enqueued[0].urgent);
    let controller = OwnerRef {
        api_version: "apps/v1".into(),
        kind: "ReplicaSet".into(),
        name: "web".into(),
        uid: Uid::from("web"),
        controller: true,
    };
    let owned = PodView {
        controller: Some(Arc::new(controller)),
        ..(*pod("e", &json!({ "app": "web" }), true)).clone()
    };
    assert_eq!(bench.put(&Arc::new(owned)).enqueued[0].urgent, urgent);
    bench.compute(by_scale);
    assert!(!bench.put(&pod("f", &json!({ "app": "web" }), true)).enqueued[0].urgent);
}

#[test]
fn a_kind_is_remembered_while_its_version_has_a_scale() {
    let mut state = State::default();
    let kinds = |scales| {
        let (name, plural) = ("Widget".to_owned(), "widgets".to_owned());
        let kind = Kind {
            name,
            plural,
            namespaced: true,
            scales,
        };
        Arc::new(vec![kind])
    };
    let version = "example.com/v1".into();
    for (said, remembered) in [
        (Some(kinds(false)), false),
        (Some(kinds(true)), true),
        (None, false),
    ] {
        state.discovered(&version, said.as_ref());
        assert_eq!(state.kinds.contains_key(&version), remembered);
    }
}

fn priority(bench: &Bench, name: &str) -> Priority {
    let key = ObjectKey::namespaced("ns", name);
    bench.0.borrow().budget(&key).unwrap().priority()
}

#[test]
fn a_budget_goes_first_while_less_is_allowed_than_is_believed() {
    let bench = three_of_two();
    assert_eq!(priority(&bench, "web"), Priority::Normal);
    drop(bench.put(&pod("a", &json!({ "app": "web" }), false)));
    assert_eq!(priority(&bench, "web"), Priority::High);
}

#[test]
fn a_budget_goes_last_while_each_of_its_pods_has_another_and_is_woken_when_one_has_not() {
    let bench = three_of_two();
    for name in ["other", "third"] {
        drop(bench.put_pdb(&pdb(name, 1, &web(), 1)));
    }
    for name in ["web", "other", "third"] {
        assert_eq!(priority(&bench, name), Priority::Low, "{name}");
    }
    // One pod of its own is enough.
    drop(bench.put_pdb(&pdb("third", 2, &json!({}), 1)));
    drop(bench.put(&pod("own", &json!({}), true)));
    assert_eq!(priority(&bench, "third"), Priority::High);
    drop(bench.put(&pod("a", &json!({ "app": "web" }), false)));
    assert_eq!(priority(&bench, "web"), Priority::Low);
    let enqueued = bench.remove_pdb("third");
    assert_eq!(enqueued, Changed::default(), "two are left");
    let enqueued = bench.remove_pdb("other").enqueued;
    let expected = Woken {
        pdb: web_key(),
        urgent: true,
    };
    assert_eq!(enqueued, [expected]);
    assert_eq!(priority(&bench, "web"), Priority::High);
}

#[test]
fn a_budget_without_pods_is_one_of_many() {
    let bench = Bench::default();
    drop(bench.put_pdb(&pdb("web", 1, &web(), 0)));
    bench.compute(false);
    assert_eq!(priority(&bench, "web"), Priority::Normal);
}
