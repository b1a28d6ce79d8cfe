use std::sync::Arc;

use controller_core::clock::Clock;
use controller_core::informer::Interner;
use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::decide::{Numbers, Plan, Situation, decide};
use crate::view::{PdbWire, PodWire};

fn pod(name: &str, labels: &Value, ready: bool) -> Arc<PodView> {
    let wire: PodWire = serde_json::from_value(json!({
        "metadata": { "namespace": "ns", "name": name, "uid": name, "labels": labels },
        "status": { "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }] },
    }))
    .unwrap();
    Arc::new(wire.into_fresh(&Interner::new()))
}

fn pdb(name: &str, version: u64, selector: &Value, allowed: i64) -> Arc<PdbView> {
    let wire: PdbWire = serde_json::from_value(json!({
        "metadata": { "namespace": "ns", "name": name, "uid": name, "resourceVersion": version.to_string() },
        "spec": { "selector": selector, "minAvailable": 2 },
        "status": { "disruptionsAllowed": allowed },
    }))
    .unwrap();
    Arc::new(wire.into_fresh(&Interner::new()))
}

fn web() -> Value {
    json!({ "matchLabels": { "app": "web" } })
}

struct Bench(Budgets);

impl Bench {
    fn new() -> Self {
        Self(Budgets::default())
    }

    fn put(&self, pod: &Arc<PodView>) -> PodChange {
        self.0.pod_changed(&pod.key, Some(pod), Clock::system().instant())
    }

    fn put_pdb(&self, pdb: &Arc<PdbView>) -> PdbChange {
        self.0.pdb_changed(&pdb.key, Some(pdb), true)
    }

    fn remove_pdb(&self, name: &str) {
        self.0.pdb_changed(&ObjectKey::namespaced("ns", name), None, true);
    }

    /// As a sync does.
    fn compute(&self, name: &str) -> Numbers {
        let key = ObjectKey::namespaced("ns", name);
        let snapshot = self.0.snapshot(&key).unwrap();
        let situation = Situation {
            pdb: &snapshot.pdb,
            counts: &snapshot.counts,
            entries: &snapshot.entries,
            scales: &crate::decide::Scales::default(),
        };
        let decision = decide(&situation, |_| None, "2026-01-01T00:00:00Z".parse().unwrap());
        self.0.computed(&snapshot, &decision, false);
        assert!(matches!(decision.plan, Plan::Write(_)));
        decision.result.unwrap()
    }

    /// The names of the budgets that a pod with these labels wakes.
    fn woken(&self, labels: &Value) -> Vec<String> {
        let change = self.put(&pod("probe", labels, true));
        self.0.pod_changed(
            &ObjectKey::namespaced("ns", "probe"),
            None,
            Clock::system().instant(),
        );
        let names = change.woken.iter().map(|woken| woken.pdb.name.to_string());
        names.collect()
    }
}

#[test]
fn a_pod_wakes_every_budget_that_matches_it() {
    let bench = Bench::new();
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
        bench.woken(&json!({ "app": "web" })),
        ["all", "either", "not-db", "web"]
    );
    assert_eq!(
        bench.woken(&json!({ "app": "web", "tier": "front" })),
        ["all", "either", "not-db", "web", "web-front"]
    );
    assert_eq!(bench.woken(&json!({ "app": "db" })), ["all", "db", "either"]);
    assert_eq!(bench.woken(&json!(null)), ["all", "not-db"]);
    for name in ["web", "all", "either"] {
        bench.remove_pdb(name);
    }
    assert_eq!(bench.woken(&json!({ "app": "web" })), ["not-db"]);
    for name in ["none", "db", "not-db", "web-front"] {
        bench.remove_pdb(name);
    }
    assert!(bench.0.0.lock().namespaces.is_empty());
}

#[test]
fn a_pod_that_changes_its_labels_wakes_the_old_and_the_new() {
    let bench = Bench::new();
    bench.put_pdb(&pdb("web", 1, &web(), 0));
    bench.put_pdb(&pdb("db", 1, &json!({ "matchLabels": { "app": "db" } }), 0));
    bench.put(&pod("p", &json!({ "app": "web" }), true));
    let change = bench.put(&pod("p", &json!({ "app": "db" }), true));
    let names: Vec<_> = change.woken.iter().map(|woken| &*woken.pdb.name).collect();
    assert_eq!(names, ["db", "web"]);
}

/// Three ready pods of a budget that wants two, computed and written.
fn three_of_two() -> Bench {
    let bench = Bench::new();
    bench.put_pdb(&pdb("web", 1, &web(), 0));
    for name in ["a", "b", "c"] {
        bench.put(&pod(name, &json!({ "app": "web" }), true));
    }
    assert_eq!(bench.compute("web").allowed, 1);
    bench.0.wrote("1", &pdb("web", 2, &web(), 1));
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
    assert_eq!(change.woken[0].urgent, urgent);
}

#[test]
fn a_value_below_the_one_on_its_way_is_urgent() {
    let bench = three_of_two();
    let key = ObjectKey::namespaced("ns", "web");
    for name in ["d", "e"] {
        assert!(!bench.put(&pod(name, &json!({ "app": "web" }), true)).woken[0].urgent);
    }
    bench.0.sending(&key, 3);
    assert!(bench.put(&pod("a", &json!({ "app": "web" }), false)).woken[0].urgent);
    bench.0.refused(&key);
    assert!(!bench.put(&pod("a", &json!({ "app": "web" }), true)).woken[0].urgent);
}

#[test]
fn a_budget_that_was_never_computed_is_urgent() {
    let bench = Bench::new();
    bench.put_pdb(&pdb("web", 1, &web(), 0));
    assert!(bench.put(&pod("a", &json!({ "app": "web" }), true)).woken[0].urgent);
}

#[test]
fn the_watch_does_not_take_back_what_we_wrote() {
    let bench = three_of_two();
    let key = ObjectKey::namespaced("ns", "web");
    let version = |bench: &Bench| bench.0.snapshot(&key).unwrap().pdb.version.to_string();
    bench.0.wrote("2", &pdb("web", 3, &web(), 2));
    assert_eq!(version(&bench), "3");
    // Ours, one after the other, late.
    assert!(!bench.put_pdb(&pdb("web", 2, &web(), 1)).wakes);
    assert_eq!(version(&bench), "3");
    assert!(!bench.put_pdb(&pdb("web", 3, &web(), 2)).wakes);
    // An eviction.
    assert!(bench.put_pdb(&pdb("web", 4, &web(), 1)).wakes);
    assert_eq!(version(&bench), "4");
    // An answer that is late itself.
    bench.0.wrote("3", &pdb("web", 4, &web(), 1));
    assert_eq!(version(&bench), "4");
    // A version that is skipped, by a list, is older than what comes.
    bench.0.wrote("4", &pdb("web", 5, &web(), 0));
    assert!(bench.put_pdb(&pdb("web", 7, &web(), 2)).wakes);
    assert_eq!(version(&bench), "7");
}

#[test]
fn overlaps_are_told_when_they_begin() {
    let bench = Bench::new();
    bench.put(&pod("p", &json!({ "app": "web" }), true));
    assert_eq!(bench.put_pdb(&pdb("one", 1, &web(), 0)).overlapping, None);
    let overlap = bench.put_pdb(&pdb("two", 1, &json!({}), 0)).overlapping.unwrap();
    assert_eq!(overlap.1, ["one".into(), "two".into()]);
    assert_eq!(
        bench
            .put(&pod("q", &json!({ "app": "web" }), true))
            .overlapping
            .len(),
        2
    );
    assert!(
        bench
            .put(&pod("q", &json!({ "app": "web" }), false))
            .overlapping
            .is_empty()
    );
}

#[test]
fn an_entry_that_is_approved_again_is_about_the_pod_that_is_there_then() {
    let bench = Bench::new();
    let with_entry = |version: u64, since: &str| {
        let wire: PdbWire = serde_json::from_value(json!({
            "metadata": { "namespace": "ns", "name": "web", "uid": "web", "resourceVersion": version.to_string() },
            "spec": { "selector": web(), "minAvailable": 2 },
            "status": { "disruptedPods": { "p": since } },
        }))
        .unwrap();
        Arc::new(wire.into_fresh(&Interner::new()))
    };
    let fate = || {
        bench
            .0
            .snapshot(&ObjectKey::namespaced("ns", "web"))
            .unwrap()
            .entries[0]
            .fate
            .clone()
    };
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
    // The entry came before the pod: it may be about it.
    bench.put_pdb(&with_entry(1, "2026-01-01T00:00:00Z"));
    assert_eq!(fate(), Fate::Gone);
    bench.put(&of_uid("first"));
    assert_eq!(fate(), here("first"));
    bench.put(&of_uid("second"));
    assert_eq!(fate(), Fate::Replaced);
    bench.put_pdb(&with_entry(2, "2026-01-01T00:00:30Z"));
    assert_eq!(fate(), here("second"));
}

#[test]
fn a_scale_that_changes_while_a_budget_is_computed_is_noticed() {
    let bench = three_of_two();
    let key = ObjectKey::namespaced("ns", "web");
    let snapshot = bench.0.snapshot(&key).unwrap();
    let decision = |snapshot: &Snapshot| {
        let situation = Situation {
            pdb: &snapshot.pdb,
            counts: &snapshot.counts,
            entries: &snapshot.entries,
            scales: &crate::decide::Scales::default(),
        };
        decide(&situation, |_| None, "2026-01-01T00:00:00Z".parse().unwrap())
    };
    bench.put(&pod("d", &json!({ "app": "web" }), true));
    let newer = bench.0.snapshot(&key).unwrap();
    bench.0.computed(&newer, &decision(&newer), true);
    assert!(!bench.0.allows_too_much(&key, 2));
    bench.0.scale_changed(&key);
    assert!(bench.0.allows_too_much(&key, 2));
    // Computed from before the change.
    bench.0.computed(&snapshot, &decision(&snapshot), true);
    assert!(bench.0.allows_too_much(&key, 2));
    let newest = bench.0.snapshot(&key).unwrap();
    bench.0.computed(&newest, &decision(&newest), true);
    assert!(!bench.0.allows_too_much(&key, 2));
}
