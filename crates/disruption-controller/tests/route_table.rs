//! Which changes wake whom, and how soon.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;

use controller_core::meta::{ObjectKey, OwnerRef, Uid};
use disruption_controller::decide::{Numbers, StatusPatch};
use disruption_controller::labels::Labels;
use disruption_controller::route::{counts_alike, pdb_wakes, repeats, undoes, urgency};
use disruption_controller::selector::Selector;
use disruption_controller::view::{Amount, Condition, DisruptionTarget, PdbView, Phase, PodView, Status};
use jiff::Timestamp;
use rstest::rstest;
fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn pod() -> PodView {
    PodView {
        key: ObjectKey::namespaced("ns", "p"),
        uid: Uid::from("uid"),
        created: 0,
        labels: labels("bar"),
        controller: None,
        target: None,
        ready: true,
        deleting: false,
        node: Some("n".into()),
        phase: Phase::Running,
    }
}

fn labels(value: &str) -> Arc<Labels> {
    Arc::new(Labels::new([("foo", value)]))
}

fn pdb() -> PdbView {
    PdbView {
        key: ObjectKey::namespaced("ns", "p"),
        uid: Uid::from("uid"),
        version: "18".into(),
        generation: 1,
        selector: Selector::all().into(),
        min_available: Some(Amount::Int(1)),
        max_unavailable: None,
        always_allow: false,
        status: Status::default(),
        written_by: None,
    }
}

fn owner() -> OwnerRef {
    OwnerRef {
        api_version: "v1".into(),
        kind: "Kind".into(),
        name: "n".into(),
        uid: Uid::from("u"),
        controller: true,
    }
}

#[rstest]
#[case::another_uid(|pod: &mut PodView| pod.uid = Uid::from("other"), true)]
#[case::other_labels(|pod: &mut PodView| {
    pod.labels = labels("baz");
}, true)]
#[case::another_controller(|pod: &mut PodView| pod.controller = Some(Arc::new(owner())), true)]
#[case::readiness(|pod: &mut PodView| pod.ready = false, true)]
#[case::a_deletion(|pod: &mut PodView| pod.deleting = true, true)]
#[case::an_end(|pod: &mut PodView| pod.phase = Phase::Failed, true)]
#[case::another_node(|pod: &mut PodView| pod.node = None, false)]
#[case::a_phase(|pod: &mut PodView| pod.phase = Phase::Pending, false)]
#[case::a_disruption(|pod: &mut PodView| {
    pod.target = Some(Arc::new(DisruptionTarget {
        reason: "r".into(), since: now(), version: "1".into(), generation: 1,
    }));
}, false)]
fn only_what_a_rule_reads_of_a_pod_wakes(#[case] change: fn(&mut PodView), #[case] requeues: bool) {
    let old = pod();
    let mut new = old.clone();
    change(&mut new);
    assert_ne!(old, new);
    assert_eq!(!counts_alike(&old, &new), requeues);
}

#[rstest]
#[case::another_version(|pdb: &mut PdbView| pdb.version = "19".into(), false)]
#[case::another_writer(|pdb: &mut PdbView| pdb.written_by = Some("kubectl".into()), false)]
#[case::another_uid(|pdb: &mut PdbView| pdb.uid = Uid::from("other"), true)]
#[case::another_generation(|pdb: &mut PdbView| pdb.generation = 2, true)]
#[case::another_selector(|pdb: &mut PdbView| pdb.selector = Selector::Nothing.into(), true)]
#[case::another_minimum(|pdb: &mut PdbView| pdb.min_available = Some(Amount::Int(2)), true)]
#[case::a_maximum(|pdb: &mut PdbView| pdb.max_unavailable = Some(Amount::Int(2)), true)]
#[case::an_eviction(|pdb: &mut PdbView| {
    pdb.status.disrupted_pods.insert("p".into(), now());
}, true)]
#[case::another_status(|pdb: &mut PdbView| pdb.status.disruptions_allowed = 7, true)]
fn only_what_a_rule_reads_of_a_budget_wakes(#[case] change: fn(&mut PdbView), #[case] requeues: bool) {
    let old = pdb();
    let mut new = old.clone();
    change(&mut new);
    assert_ne!(old, new);
    assert_eq!(pdb_wakes(&old, &new), requeues);
}

#[rstest]
#[case::less(1, 2, true)]
#[case::as_much(2, 2, false)]
#[case::more(3, 2, false)]
fn less_than_what_was_written_does_not_wait(
    #[case] allowed: i64,
    #[case] promised: i64,
    #[case] urgent: bool,
) {
    assert_eq!(urgency(allowed, promised), urgent);
}

fn ours() -> Status {
    Status {
        disruptions_allowed: 2,
        current_healthy: 5,
        desired_healthy: 3,
        expected_pods: 6,
        condition: Some(condition(true, "SufficientPods")),
        ..Status::default()
    }
}

fn condition(allowed: bool, reason: &str) -> Condition {
    Condition {
        allowed,
        reason: reason.into(),
        message: "".into(),
        observed_generation: 1,
        since: Some(now()),
    }
}

#[rstest]
#[case::nothing(|_: &mut Status| {}, false)]
#[case::an_eviction(|status: &mut Status| {
    status.disruptions_allowed = 1;
    status.disrupted_pods.insert("p".into(), now());
}, false)]
#[case::the_last_evictions(|status: &mut Status| {
    status.disruptions_allowed = 0;
    status.disrupted_pods = ["p", "q"].map(|pod| (pod.into(), now())).into();
    status.condition = Some(condition(false, "InsufficientPods"));
}, false)]
#[case::less_allowed_without_an_eviction(|status: &mut Status| status.disruptions_allowed = 1, true)]
#[case::another_reason_than_that_of_an_eviction(|status: &mut Status| {
    status.disruptions_allowed = 0;
    status.disrupted_pods.insert("p".into(), now());
    status.condition = Some(condition(false, "SyncFailed"));
}, true)]
#[case::a_reason_that_an_eviction_has_not_yet(|status: &mut Status| {
    status.disruptions_allowed = 1;
    status.disrupted_pods.insert("p".into(), now());
    status.condition = Some(condition(false, "InsufficientPods"));
}, true)]
#[case::another_message(|status: &mut Status| {
    status.condition.as_mut().unwrap().message = "in other words".into();
}, true)]
#[case::no_condition(|status: &mut Status| status.condition = None, true)]
#[case::another_time(|status: &mut Status| status.condition.as_mut().unwrap().since = None, false)]
#[case::more_allowed(|status: &mut Status| status.disruptions_allowed = 3, true)]
#[case::other_pods(|status: &mut Status| status.expected_pods = 5, true)]
#[case::other_health(|status: &mut Status| status.current_healthy = 4, true)]
#[case::another_wish(|status: &mut Status| status.desired_healthy = 4, true)]
fn an_eviction_undoes_nothing(#[case] change: fn(&mut Status), #[case] undone: bool) {
    let mut now = ours();
    change(&mut now);
    assert_eq!(undoes(&ours(), &now), undone);
}

fn write(numbers: Option<Numbers>) -> StatusPatch {
    StatusPatch {
        pdb: Arc::new(pdb()),
        current: numbers.map_or(0, |numbers| numbers.current),
        numbers,
        dropped: Vec::new(),
        overdue: Vec::new(),
        condition: condition(numbers.is_some(), "SufficientPods"),
    }
}

#[test]
fn a_write_repeats_what_it_said() {
    let numbers = Numbers {
        allowed: 2,
        current: 5,
        desired: 3,
        expected: 6,
    };
    assert!(repeats(&ours(), &write(Some(numbers))));
    assert!(!repeats(
        &ours(),
        &write(Some(Numbers {
            current: 4,
            ..numbers
        }))
    ));
    assert!(!repeats(&ours(), &write(None)));
}
