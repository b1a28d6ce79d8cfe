//! Cases in words, with literal results.

use rstest::rstest;

use super::scene::{Scene, key, now};
use crate::drain::{Finding, Flags, judge};

fn found(lines: &[&str], flags: Flags) -> Finding {
    Scene::of(lines).judged(|world| {
        let pod = *world.pods.get(&key("web-0")).unwrap();
        let judged = world.judged(world.budgets_of(&pod.pod), now())?;
        let budgets: Vec<_> = judged.values().collect();
        Ok(judge(pod, &budgets, flags, now()))
    })
}

#[rstest]
// No budget counts.
#[case::no_budget(&["ReplicaSet web wants 1", "pod web-0 of ReplicaSet web"], "now Evictable")]
#[case::a_budget_for_others(
    &["ReplicaSet web wants 1", "pod web-0 of ReplicaSet web", "budget db maxUnavailable 0, for db"],
    "now Evictable"
)]
#[case::pending(
    &["ReplicaSet web wants 1", "pod web-0 of ReplicaSet web, pending", "budget web maxUnavailable 0"],
    "now Evictable"
)]
#[case::over(
    &["Job web wants 1", "pod web-0 of Job web, over", "budget web maxUnavailable 0"],
    "now Evictable"
)]
#[case::deleted(
    &["ReplicaSet web wants 1", "pod web-0 of ReplicaSet web, deleted until 12:00:20", "budget web maxUnavailable 0"],
    "now Evictable"
)]
// The budget allows it.
#[case::enough(
    &["ReplicaSet web wants 2", "pod web-0 of ReplicaSet web", "pod web-1 of ReplicaSet web", "budget web minAvailable 1"],
    "now Evictable"
)]
#[case::unready_next_to_enough(
    &["ReplicaSet web wants 2", "pod web-0 of ReplicaSet web, not ready", "pod web-1 of ReplicaSet web", "budget web minAvailable 1"],
    "now Evictable"
)]
#[case::unready_under_always_allow(
    &["ReplicaSet web wants 1", "pod web-0 of ReplicaSet web, not ready", "budget web maxUnavailable 0, AlwaysAllow"],
    "now Evictable"
)]
#[case::an_extra_pod_of_no_controller(
    &["ReplicaSet web wants 1", "pod web-0 of ReplicaSet web", "pod more", "budget web maxUnavailable 0"],
    "now Evictable"
)]
#[case::a_status_that_allows_too_much(
    &["ReplicaSet web wants 1", "pod web-0 of ReplicaSet web", "budget web maxUnavailable 0", "status web allowed 1"],
    "now Evictable"
)]
// It waits.
#[case::while_the_last_expected_pod_is_deleted(
    &["counts Job.batch", "ReplicaSet web wants 0", "pod web-0 of ReplicaSet web",
      "pod web-1 of ReplicaSet web, not ready", "Job a wants 0", "pod a-0 of Job a, deleted until 12:00:20",
      "budget web maxUnavailable 0"],
    "waits NotEnoughHealthy"
)]
#[case::another_is_not_ready(
    &["ReplicaSet web wants 2", "pod web-0 of ReplicaSet web", "pod web-1 of ReplicaSet web, not ready", "budget web minAvailable 1"],
    "waits NotEnoughHealthy"
)]
#[case::another_does_not_exist(
    &["ReplicaSet web wants 2", "pod web-0 of ReplicaSet web", "budget web minAvailable 1"],
    "waits NotEnoughHealthy"
)]
#[case::another_is_being_deleted(
    &["ReplicaSet web wants 2", "pod web-0 of ReplicaSet web", "pod web-1 of ReplicaSet web, deleted until 12:00:20", "budget web maxUnavailable 1"],
    "waits NotEnoughHealthy"
)]
#[case::unready_with_too_few(
    &["ReplicaSet web wants 2", "pod web-0 of ReplicaSet web, not ready", "pod web-1 of ReplicaSet web, not ready", "budget web maxUnavailable 1"],
    "waits NotEnoughHealthy"
)]
#[case::unready_where_nothing_is_desired(
    &["ReplicaSet web wants 1", "pod web-0 of ReplicaSet web, not ready", "budget web minAvailable 0"],
    "waits NotEnoughHealthy"
)]
#[case::the_replica_sets_of_a_deployment_are_one(
    &["Deployment web wants 2", "ReplicaSet old of Deployment web wants 1", "ReplicaSet new of Deployment web wants 1",
      "pod web-0 of ReplicaSet old", "pod web-1 of ReplicaSet new, not ready", "budget web maxUnavailable 50%"],
    "waits NotEnoughHealthy"
)]
#[case::a_status_that_allows_too_little(
    &["ReplicaSet web wants 1", "pod web-0 of ReplicaSet web", "budget web maxUnavailable 1", "status web allowed 0"],
    "waits StatusOutdated"
)]
#[case::a_status_of_an_older_spec(
    &["ReplicaSet web wants 1", "pod web-0 of ReplicaSet web", "budget web maxUnavailable 1", "status web generation 1"],
    "waits StatusOutdated"
)]
#[case::a_status_below_zero(
    &["ReplicaSet web wants 1", "pod web-0 of ReplicaSet web", "budget web maxUnavailable 1", "status web allowed -1"],
    "waits StatusOutdated"
)]
#[case::what_fails_goes_away(
    &["ReplicaSet web wants 1", "pod web-0 of ReplicaSet web", "pod job of Job web, deleted until 12:00:20", "budget web maxUnavailable 1"],
    "waits NotComputable"
)]
// It never goes.
#[case::max_unavailable_0(
    &["ReplicaSet web wants 3", "pod web-0 of ReplicaSet web", "budget web maxUnavailable 0"],
    "never MaxUnavailableZero"
)]
#[case::max_unavailable_0_percent(
    &["ReplicaSet web wants 3", "pod web-0 of ReplicaSet web", "budget web maxUnavailable 0%"],
    "never MaxUnavailableZero"
)]
#[case::one_replica(
    &["Deployment web wants 1", "ReplicaSet web of Deployment web wants 1", "pod web-0 of ReplicaSet web", "budget web minAvailable 1"],
    "never MinAvailableTooHigh"
)]
#[case::one_replica_that_is_not_ready(
    &["ReplicaSet web wants 1", "pod web-0 of ReplicaSet web, not ready", "budget web minAvailable 1"],
    "never MinAvailableTooHigh"
)]
#[case::min_available_100_percent(
    &["ReplicaSet web wants 3", "pod web-0 of ReplicaSet web", "budget web minAvailable 100%"],
    "never MinAvailableTooHigh"
)]
#[case::a_percentage_that_rounds_up_to_all(
    &["ReplicaSet web wants 1", "pod web-0 of ReplicaSet web", "budget web minAvailable 50%"],
    "never MinAvailableTooHigh"
)]
#[case::more_than_no_controller_has(
    &["pod web-0", "pod web-1", "budget web minAvailable 2"],
    "never MinAvailableTooHigh"
)]
#[case::several_budgets(
    &["ReplicaSet web wants 3", "pod web-0 of ReplicaSet web", "budget web minAvailable 0", "budget all minAvailable 0, for all"],
    "never SeveralBudgets"
)]
#[case::a_controller_without_a_scale(
    &["pod web-0 of Job web", "budget web maxUnavailable 1"],
    "never NoScale"
)]
#[case::a_kind_that_is_not_served(
    &["pod web-0 of Unknown web", "budget web minAvailable 50%"],
    "never NoScale"
)]
#[case::another_pod_of_a_controller_without_a_scale(
    &["ReplicaSet web wants 1", "pod web-0 of ReplicaSet web", "pod job of Job web, over", "budget web maxUnavailable 1"],
    "never NoScale"
)]
// What is above counts, or what exists.
#[case::a_job_below_a_widget(
    &["chain", "Widget w wants 2", "Job web of Widget w wants 1", "pod web-0 of Job web", "pod web-1 of Job web",
        "budget web maxUnavailable 1"],
    "now Evictable"
)]
#[case::a_widget_that_wants_more(
    &["chain", "Widget w wants 3", "Job web of Widget w wants 1", "pod web-0 of Job web", "pod web-1 of Job web",
        "budget web maxUnavailable 1"],
    "waits NotEnoughHealthy"
)]
#[case::a_widget_that_counts_groups(
    &["chain", "Widget w wants 1", "Job web of Widget w wants 1", "pod web-0 of Job web",
        "pod web-1 of Job web, not ready", "budget web maxUnavailable 1"],
    "waits NotEnoughHealthy"
)]
#[case::a_widget_of_which_a_pod_is_deleted(
    &["chain", "Widget w wants 1", "Job web of Widget w wants 1", "pod web-0 of Job web",
        "pod web-1 of Job web, deleted until 12:00:20", "budget web maxUnavailable 1"],
    "waits NotEnoughHealthy"
)]
#[case::a_widget_of_which_none_may_go(
    &["chain", "Widget w wants 2", "Job web of Widget w wants 1", "pod web-0 of Job web", "pod web-1 of Job web",
        "budget web maxUnavailable 0"],
    "never MaxUnavailableZero"
)]
#[case::a_job_of_no_widget(
    &["chain", "Job web wants 1", "pod web-0 of Job web", "budget web maxUnavailable 1"],
    "never NoScale"
)]
#[case::a_job_whose_pods_count(
    &["counts Job.batch", "Job web wants 1", "pod web-0 of Job web", "pod web-1 of Job web",
        "budget web maxUnavailable 1"],
    "now Evictable"
)]
#[case::a_job_of_which_a_pod_failed(
    &["counts Job.batch", "Job web wants 1", "pod web-0 of Job web", "pod web-1 of Job web, not ready",
        "budget web maxUnavailable 1"],
    "waits NotEnoughHealthy"
)]
#[case::a_job_of_which_none_may_go(
    &["counts Job.batch", "Job web wants 1", "pod web-0 of Job web", "budget web maxUnavailable 0"],
    "never MaxUnavailableZero"
)]
#[case::a_percentage_of_the_pods_of_a_job(
    &["counts Job.batch", "Job web wants 1", "pod web-0 of Job web", "budget web minAvailable 50%"],
    "never MinAvailableTooHigh"
)]
#[case::a_controller_that_is_gone(
    &["pod web-0 of ReplicaSet web", "budget web maxUnavailable 1"],
    "never ControllerGone"
)]
#[case::max_unavailable_of_no_controller(&["pod web-0", "budget web maxUnavailable 1"], "never UnmanagedPods")]
#[case::a_percentage_of_no_controller(&["pod web-0", "budget web minAvailable 10%"], "never UnmanagedPods")]
#[case::a_controller_that_wants_nothing(
    &["Widget web wants 0", "pod web-0 of Widget web", "budget web maxUnavailable 1"],
    "never NothingExpected"
)]
#[case::a_selector_for_the_primary_only(
    &["StatefulSet web wants 3", "pod web-0 of StatefulSet web, app primary", "pod web-1 of StatefulSet web",
      "pod web-2 of StatefulSet web", "budget primary maxUnavailable 1, for primary"],
    "never SelectorTooNarrow"
)]
#[case::min_available_for_the_primary_only(
    &["StatefulSet web wants 3", "pod web-0 of StatefulSet web, app primary", "pod web-1 of StatefulSet web",
      "pod web-2 of StatefulSet web", "budget primary minAvailable 1, for primary"],
    "never MinAvailableTooHigh"
)]
#[case::a_percentage_that_is_none(
    &["ReplicaSet web wants 1", "pod web-0 of ReplicaSet web", "budget web maxUnavailable a%"],
    "never InvalidBudget"
)]
fn each_pod_has_its_verdict(#[case] lines: &[&str], #[case] verdict: &str) {
    // The pods of these tables may be without a controller.
    let flags = Flags {
        force: true,
        ..Flags::default()
    };
    let found = found(lines, flags);
    let (judged, reason) = (found.verdict.as_str(), found.reason.as_str());
    assert_eq!(format!("{judged} {reason}"), verdict, "{found:?}");
}

const FORCE: Flags = Flags {
    force: true,
    delete_emptydir_data: false,
};
const EMPTYDIR: Flags = Flags {
    force: false,
    delete_emptydir_data: true,
};

#[rstest]
#[case::no_controller("pod web-0", Flags::default(), "NoController")]
#[case::no_controller_with_force("pod web-0", FORCE, "Evictable")]
#[case::no_controller_and_over("pod web-0, over, emptyDir", Flags::default(), "Evictable")]
#[case::an_empty_dir("pod web-0 of ReplicaSet web, emptyDir", Flags::default(), "EmptyDir")]
#[case::an_empty_dir_with_its_flag("pod web-0 of ReplicaSet web, emptyDir", EMPTYDIR, "Evictable")]
#[case::both_and_one_flag("pod web-0, emptyDir", FORCE, "EmptyDir")]
#[case::within_its_grace(
    "pod web-0 of ReplicaSet web, deleted until 12:00:01",
    Flags::default(),
    "Evictable"
)]
#[case::beyond_its_grace(
    "pod web-0 of ReplicaSet web, deleted until 11:59:59",
    Flags::default(),
    "Terminating"
)]
#[case::held_by_a_finalizer(
    "pod web-0, deleted until 11:00:00, finalizer example.com/keep",
    Flags::default(),
    "Terminating"
)]
#[case::over_and_held_by_a_finalizer(
    "pod web-0, over, deleted until 11:00:00, finalizer example.com/keep",
    Flags::default(),
    "Terminating"
)]
#[case::a_finalizer_alone(
    "pod web-0 of ReplicaSet web, finalizer example.com/keep",
    Flags::default(),
    "Evictable"
)]
#[case::karpenter(
    "pod web-0 of ReplicaSet web, annotated karpenter.sh/do-not-disrupt true",
    Flags::default(),
    "DoNotDisrupt"
)]
#[case::karpenter_may(
    "pod web-0 of ReplicaSet web, annotated karpenter.sh/do-not-disrupt false",
    Flags::default(),
    "Evictable"
)]
#[case::cluster_autoscaler(
    "pod web-0 of ReplicaSet web, annotated cluster-autoscaler.kubernetes.io/safe-to-evict false",
    Flags::default(),
    "NotSafeToEvict"
)]
#[case::cluster_autoscaler_may(
    "pod web-0 of ReplicaSet web, annotated cluster-autoscaler.kubernetes.io/safe-to-evict true",
    Flags::default(),
    "Evictable"
)]
#[case::what_is_deleted_anyway(
    "pod web-0 of ReplicaSet web, deleted until 12:00:01, annotated karpenter.sh/do-not-disrupt true",
    Flags::default(),
    "Evictable"
)]
fn what_drain_refuses_apart_from_budgets(#[case] pod: &str, #[case] flags: Flags, #[case] reason: &str) {
    let found = found(&["ReplicaSet web wants 1", pod], flags);
    assert_eq!((found.verdict.as_str(), found.reason.as_str()), ("now", reason));
    assert_eq!(found.blocks(), reason != "Evictable");
}

#[test]
fn a_reason_names_three_budgets_and_how_many_more_there_are() {
    let mut lines = vec!["ReplicaSet web wants 1", "pod web-0 of ReplicaSet web"];
    lines.extend([
        "budget a maxUnavailable 1",
        "budget b maxUnavailable 1",
        "budget c maxUnavailable 1",
    ]);
    lines.extend(["budget d maxUnavailable 1", "budget e maxUnavailable 1"]);
    let finding = found(&lines, Flags::default());
    assert_eq!(
        (&*finding.message, &*finding.fix),
        (
            "the PodDisruptionBudgets a, b, c and 2 more select it, and the Eviction API refuses such a pod",
            "keep a, and delete b, c, d and 1 more or change the selectors"
        )
    );
}
