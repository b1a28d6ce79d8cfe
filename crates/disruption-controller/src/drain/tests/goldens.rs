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
    let given = [("output", vec!["json".to_owned()]), ("simulate", vec![])];
    let plan = Plan::of(&Given(given.into())).unwrap();
    let printed = Scene::of(&lines).judged(|world| printed_of(world, &plan, now()));
    insta::assert_snapshot!(printed.text);
}

#[rstest]
#[case::no_pods(&["ReplicaSet web wants 1"], "1", "a drain takes no round: no pods go\n")]
#[case::one_node(
    &["ReplicaSet web wants 1", "pod web-0 of ReplicaSet web"],
    "1",
    "a drain of 1 node takes 1 round, the last on a\n",
)]
#[case::a_budget_for_one_after_the_other(
    &[
        "ReplicaSet web wants 3", "pod web-0 of ReplicaSet web", "pod web-1 of ReplicaSet web, on b",
        "pod web-2 of ReplicaSet web, on b", "budget web maxUnavailable 1",
    ],
    "1",
    "a drain of 2 nodes, one after the other, takes 3 rounds, the last on b, held by PodDisruptionBudget default/web\n",
)]
#[case::two_at_a_time(
    &[
        "ReplicaSet web wants 3", "pod web-0 of ReplicaSet web", "pod web-1 of ReplicaSet web, on b",
        "pod web-2 of ReplicaSet web, on c", "budget web maxUnavailable 2",
    ],
    "2",
    "a drain of 3 nodes, 2 at a time, takes 2 rounds, the last on c, held by PodDisruptionBudget default/web\n",
)]
#[case::the_first_round_waits(
    &[
        "ReplicaSet web wants 2", "pod web-0 of ReplicaSet web, not ready", "pod web-1 of ReplicaSet web, not ready, on b",
        "budget web maxUnavailable 1",
    ],
    "2",
    "a drain of 2 nodes, 2 at a time, takes 3 rounds, the last on b, held by PodDisruptionBudget default/web\n",
)]
#[case::what_is_not_ready_goes_at_once(
    &[
        "ReplicaSet web wants 2", "pod web-0 of ReplicaSet web", "pod web-1 of ReplicaSet web, not ready, on b",
        "budget web maxUnavailable 1, AlwaysAllow",
    ],
    "2",
    "a drain of 2 nodes, 2 at a time, takes 2 rounds, the last on a, held by PodDisruptionBudget default/web\n",
)]
#[case::without_those_that_never_go(
    &[
        "ReplicaSet web wants 1", "pod web-0 of ReplicaSet web", "budget web minAvailable 1",
        "pod old of StatefulSet web, deleted until 11:00:00, finalizer example.com/keep, on b", "pod naked, app db, on c",
    ],
    "1",
    "a drain of 1 node takes 1 round, the last on c; it leaves out 2 pods that never go\n",
)]
fn a_drain_is_simulated(#[case] lines: &[&str], #[case] parallel: &str, #[case] line: &str) {
    let given = [("simulate", vec![]), ("parallel", vec![parallel.to_owned()])];
    let plan = Plan::of(&Given(given.into())).unwrap();
    let printed = Scene::of(lines).judged(|world| printed_of(world, &plan, now()));
    let (_, last) = printed
        .text
        .trim_end()
        .rsplit_once('\n')
        .unwrap_or(("", &printed.text));
    assert_eq!(last.trim_end(), line.trim_end(), "{}", printed.text);
}

#[rstest]
#[case::nothing("", "--parallel=: not a number of nodes")]
#[case::none("0", "--parallel=0: not a number of nodes")]
#[case::a_word("all", "--parallel=all: not a number of nodes")]
fn a_wrong_number_of_nodes_is_refused(#[case] value: &str, #[case] error: &str) {
    let parallel = ("parallel", vec![value.to_owned()]);
    let refused = |given: Given| Plan::of(&given).err().map(|error| error.to_string());
    assert_eq!(
        refused(Given([parallel.clone(), ("simulate", vec![])].into())).as_deref(),
        Some(error)
    );
    assert_eq!(
        refused(Given([parallel].into())).as_deref(),
        Some("--parallel is for --simulate")
    );
}
