//! What a user sees, for ten worlds.

use controller_core::app::Flags as Given;
use rstest::rstest;

use super::scene::{Scene, now};
use crate::drain::blockers::{Plan, printed_of};

#[rstest]
#[case("nothing_blocks", &[
    "Deployment web wants 3", "ReplicaSet web-1 of Deployment web wants 3",
    "pod web-0 of ReplicaSet web-1, on a", "pod web-1 of ReplicaSet web-1, on b", "pod web-2 of ReplicaSet web-1, on b",
    "budget web maxUnavailable 1",
])]
#[case("max_unavailable_zero", &[
    "Deployment web wants 2", "ReplicaSet web-1 of Deployment web wants 2",
    "pod web-0 of ReplicaSet web-1, on a", "pod web-1 of ReplicaSet web-1, on b",
    "budget web maxUnavailable 0",
])]
#[case("one_replica_that_must_be_there", &[
    "Deployment web wants 1", "ReplicaSet web-1 of Deployment web wants 1", "pod web-0 of ReplicaSet web-1",
    "budget web minAvailable 1",
])]
#[case("pods_that_are_not_ready", &[
    "StatefulSet web wants 5",
    "pod web-0 of StatefulSet web", "pod web-1 of StatefulSet web, not ready, on b",
    "pod web-2 of StatefulSet web, unscheduled", "pod web-3 of StatefulSet web, deleted until 12:00:20, on b",
    "budget web maxUnavailable 1",
])]
#[case("two_budgets", &[
    "ReplicaSet web wants 1", "pod web-0 of ReplicaSet web",
    "budget web maxUnavailable 1", "budget everything minAvailable 0, for all",
])]
#[case("owners_that_do_not_scale", &[
    "pod web-0 of Job web", "budget web maxUnavailable 1",
    "pod db-0, app db", "budget db minAvailable 50%, for db",
    "pod old-0 of ReplicaSet gone, app old", "budget old maxUnavailable 1, for old",
])]
#[case("the_primary_alone", &[
    "StatefulSet web wants 3", "pod web-0 of StatefulSet web, app primary", "pod web-1 of StatefulSet web",
    "pod web-2 of StatefulSet web", "budget primary maxUnavailable 1, for primary",
])]
#[case("what_drain_asks_flags_for", &[
    "ReplicaSet web wants 1", "pod naked", "pod scratch of ReplicaSet web, emptyDir", "pod both, emptyDir",
    "pod agent of DaemonSet agent", "pod kube-proxy-a, mirror", "pod done of Job done, over",
])]
#[case("what_stays_although_it_is_deleted", &[
    "StatefulSet web wants 2",
    "pod web-0 of StatefulSet web, deleted until 11:00:00, finalizer example.com/detach",
    "pod web-1 of StatefulSet web, deleted until 11:50:00, on b",
])]
#[case("what_autoscalers_leave_alone", &[
    "ReplicaSet web wants 3", "pod web-0 of ReplicaSet web, annotated karpenter.sh/do-not-disrupt true",
    "pod web-1 of ReplicaSet web, annotated cluster-autoscaler.kubernetes.io/safe-to-evict false",
    "pod web-2 of ReplicaSet web", "budget web maxUnavailable 1",
])]
#[case("a_status_that_nobody_writes", &[
    "ReplicaSet web wants 2", "pod web-0 of ReplicaSet web", "budget web maxUnavailable 1", "status web allowed 0",
    "ReplicaSet db wants 2", "pod db-0 of ReplicaSet db, app db", "budget db maxUnavailable 2, for db",
    "status db generation 1",
])]
fn what_a_user_sees(#[case] name: &str, #[case] lines: &[&str]) {
    let printed = |format: &str| {
        let output = ("output", vec![format.to_owned()]);
        let plan = Plan::of(&Given([output].into())).unwrap();
        Scene::of(lines).judged(|world| printed_of(world, &plan, now()))
    };
    let (text, wide) = (printed("text"), printed("wide"));
    let shown = format!("{}exit code {}\n\nwide:\n{}", text.text, text.code, wide.text);
    insta::assert_snapshot!(name, shown);
}

#[test]
fn the_report_as_json() {
    let lines = [
        "ReplicaSet web wants 1",
        "pod web-0 of ReplicaSet web",
        "pod free of Job free, app free",
        "budget web maxUnavailable 0",
    ];
    let plan = Plan::of(&Given([("output", vec!["json".to_owned()])].into())).unwrap();
    let printed = Scene::of(&lines).judged(|world| printed_of(world, &plan, now()));
    insta::assert_snapshot!(printed.text);
}
