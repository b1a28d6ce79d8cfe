//! Runs that failed once.

use std::time::Duration;

use controller_core::config::GoDuration;
use controller_testing::sim::{self, Op};
use rstest::rstest;

use super::acts::{Act, all};
use super::world::Cluster;
use super::{bound, tainted};

#[test]
fn nothing_is_left_of_a_pod_that_goes_before_its_refusal_is_answered() {
    for answers in 0..4 {
        let mut ops = vec![
            Op::Act(Act::Refuse),
            Op::Act(bound(1, 0, None)),
            Op::Act(tainted(0, None)),
            Op::Deliver(0),
            Op::Deliver(1),
        ];
        ops.extend((0..answers).map(|_| Op::Answer(0)));
        let goes = [Act::Delete(1), Act::End(1)].map(Op::Act);
        ops.push(Op::Arrive(0));
        ops.extend(
            goes.into_iter()
                .chain([Op::Deliver(0), Op::Deliver(0), Op::Answer(0)]),
        );
        sim::run(Cluster::new().through_budgets(), &ops);
    }
}

#[test]
fn an_eviction_whose_answer_is_lost_after_a_refusal_is_tried_again() {
    let ops = [
        Op::Act(tainted(1, None)),
        Op::Act(tainted(0, None)),
        Op::Deliver(1),
        Op::Act(bound(0, 1, None)),
        Op::Deliver(0),
        Op::Act(Act::Refuse),
        Op::Answer(0),
        Op::Pass(Duration::from_millis(1)),
        Op::Arrive(0),
        Op::Answer(0),
        Op::Pass(Duration::from_secs(5)),
        Op::Answer(0),
        Op::Lose(0, sim::SimFailure::Broken),
    ];
    sim::run(Cluster::new().through_budgets(), &ops);
}

/// By the time the nodes are seen again, it is too late to delete what the brake let go before.
#[test]
fn a_pod_that_the_brake_lets_go_while_no_node_is_seen_goes_later() {
    let ops = [
        Op::Act(bound(1, 0, None)),
        Op::Act(Act::Tolerate(1, all(Some(0)))),
        Op::Act(tainted(0, None)),
        Op::Deliver(1),
        Op::Deliver(0),
        Op::BeginList(1),
        Op::Pass(Duration::from_secs(5)),
        Op::Deliver(0),
        Op::Pass(Duration::from_secs(61)),
    ];
    sim::run(Cluster::braked(Some(GoDuration::from_secs(60))), &ops);
}

/// The brake has let a pod go, and its delete is on its way.
fn a_delete_is_sent() -> Vec<Op<Act>> {
    let before = [
        Op::Act(tainted(1, Some(0))),
        Op::Act(bound(0, 1, None)),
        Op::Deliver(0),
        Op::Deliver(1),
        Op::Pass(Duration::from_secs(5)),
    ];
    before.into_iter().chain((0..4).map(|_| Op::Answer(0))).collect()
}

/// What a leader sent before it died comes within half a minute, or never.
#[test]
fn a_delete_of_a_leader_that_died_long_ago_does_not_come() {
    let mut ops = a_delete_is_sent();
    ops.extend([
        Op::Act(bound(1, 1, None)),
        Op::Crash,
        Op::Pass(Duration::from_secs(400)),
    ]);
    sim::run(Cluster::braked(None), &ops);
}

/// The pod stays by now, and yet it may go for as long as the delete is on its way.
#[test]
fn a_delete_that_comes_after_its_taint_has_gone_counts_from_then() {
    let mut ops = a_delete_is_sent();
    ops.extend([
        Op::Act(Act::Untaint { node: 1, taint: 0 }),
        Op::Deliver(1),
        Op::Act(bound(1, 0, None)),
        Op::Act(tainted(0, Some(0))),
        Op::Deliver(0),
        Op::Deliver(1),
        Op::Pass(Duration::from_secs(19)),
        Op::Arrive(0),
        Op::Pass(Duration::from_secs(5)),
    ]);
    sim::run(Cluster::braked(None), &ops);
}

/// The second gap in which no node is seen counts as the first, in which the deadline lies.
#[rstest]
fn a_pod_whose_next_try_comes_while_no_node_is_seen_is_tried_again(
    #[values(Cluster::new(), Cluster::braked(None))] cluster: Cluster,
) {
    let seconds = |seconds| Op::Pass(Duration::from_secs(seconds));
    let ops = [
        Op::Act(bound(1, 0, Some(3))),
        Op::Act(tainted(0, Some(0))),
        Op::Act(Act::Refuse),
        Op::Deliver(1),
        Op::Deliver(0),
        Op::BeginList(1),
        seconds(5),
        Op::Deliver(1),
        seconds(4),
        seconds(3),
    ]
    .into_iter()
    .chain((0..6).map(Op::Answer))
    .chain([Op::BeginList(1), seconds(6)]);
    sim::run(cluster.through_budgets(), &ops.collect::<Vec<_>>());
}

/// The brake must decide again by the time of the next try: the time ends by which its last delete must be sent.
#[test]
fn an_eviction_that_fails_as_the_brakes_time_ends_is_tried_again() {
    let seconds = |seconds| Op::Pass(Duration::from_secs(seconds));
    let ops = [
        Op::Act(tainted(1, None)),
        Op::Act(bound(0, 1, None)),
        Op::Deliver(1),
        Op::Deliver(0),
        seconds(5),
        Op::Answer(0),
        Op::Answer(0),
        Op::Answer(0),
        seconds(61),
        Op::Lose(0, sim::SimFailure::Broken),
    ];
    sim::run(Cluster::braked(Some(GoDuration::from_secs(60))), &ops);
}

/// Two tolerations have ended, and the watch of the nodes breaks: the same taint evicts the pod as before.
#[test]
fn the_taint_that_evicts_stays_the_same_while_no_node_is_seen() {
    let taint = |taint, ago| Op::Act(Act::Taint { node: 1, taint, ago });
    let ops = [
        Op::Act(bound(1, 1, Some(0))),
        taint(3, None),
        Op::Pass(Duration::from_millis(1)),
        Op::Deliver(1),
        Op::Deliver(0),
        taint(0, Some(0)),
        Op::Deliver(1),
        Op::Act(bound(0, 1, Some(0))),
        Op::Deliver(0),
        Op::BeginList(1),
        Op::Act(bound(0, 0, None)),
        Op::Act(tainted(0, None)),
    ];
    sim::run(Cluster::new(), &ops);
}

/// A leader that holds back must not forget what the one before it has deleted, or will have.
#[test]
fn what_the_leader_before_deletes_late_counts_while_another_holds_back() {
    let seconds = |seconds| Op::Pass(Duration::from_secs(seconds));
    let ops = [
        Op::Act(bound(0, 0, None)),
        Op::Act(tainted(1, None)),
        Op::Act(bound(1, 1, None)),
        Op::Deliver(1),
        Op::Deliver(0),
        Op::Deliver(0),
        seconds(1),
        Op::Act(tainted(0, None)),
        seconds(1),
        Op::Answer(0),
        Op::Answer(0),
        Op::Answer(0),
        Op::Answer(0),
        Op::Crash,
        seconds(5),
    ];
    sim::run(Cluster::braked(None), &ops);
}
