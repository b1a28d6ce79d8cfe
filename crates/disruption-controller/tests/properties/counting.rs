//! One process, to which nothing bad happens: many acts, one by one, and what it makes of each.

use std::sync::Arc;
use std::time::Duration;

use controller_core::controller::{Loop, LoopEvent, Now};
use controller_core::time::saturating_add;
use controller_testing::sim::{Model, NOW, Unlimited};
use disruption_controller::DisruptionController;
use proptest::collection::vec;
use proptest::prelude::*;

use super::acts::{Act, Pod, any_action, any_pod};
use super::judge::Judge;
use super::world::{BUDGETS, Cluster, DEPLOYMENT, GONE, PODS};

#[derive(Clone, Debug)]
pub(super) enum Step {
    Act(Act),
    /// A watch delivers its next event.
    Show(usize),
    List(usize),
    Pass(Duration),
    /// The loop does what is due, and all that it sends is answered.
    Turn,
}

fn shown(act: Act) -> Vec<Step> {
    let watch = match act {
        Act::Budget(..)
        | Act::DeleteBudget(_)
        | Act::Evict { .. }
        | Act::Approve { .. }
        | Act::Overwrite(..) => 1,
        Act::Scale(DEPLOYMENT, _) | Act::DeleteWorkload(DEPLOYMENT) => 3,
        Act::Scale(..) | Act::DeleteWorkload(_) => 2,
        _ => 0,
    };
    vec![Step::Act(act), Step::Show(watch)]
}

fn comes(pod: usize, becomes: Pod) -> Vec<Step> {
    let anew = true;
    shown(Act::Pod { pod, becomes, anew })
}

fn seconds(seconds: u64) -> Step {
    Step::Pass(Duration::from_secs(seconds))
}

/// A pod that was approved to go, or did not exist, is replaced twice.
fn replaced() -> impl Strategy<Value = Vec<Step>> {
    let times = || prop_oneof![2 => Just(0), 2 => 1..3_u64, 1 => 100..130_u64];
    let drawn = (0..BUDGETS, 0..PODS, any_pod(), times(), times());
    drawn.prop_map(|(budget, pod, becomes, first, then)| {
        let approved = shown(Act::Approve { budget, pod });
        let replaced = comes(pod, becomes);
        let [first, then] = [first, then].map(|time| vec![seconds(time)]);
        [approved, first, replaced.clone(), then, replaced].concat()
    })
}

/// A pod comes and stays, while all of its siblings terminate; their controller may be gone.
fn siblings() -> impl Strategy<Value = Vec<Step>> {
    let drawn = (0..PODS, 0..PODS, any_pod(), any::<bool>());
    drawn.prop_map(|(goes, stays, becomes, is_gone)| {
        let owner = if is_gone { Some(GONE) } else { becomes.owner };
        let [goes, comes] = [(goes, true), (stays, false)].map(|(pod, deleting)| {
            let becomes = Pod {
                deleting,
                owner,
                ..becomes
            };
            comes(pod, becomes)
        });
        [goes, computed(), comes, shown(Act::End(stays))].concat()
    })
}

/// A pod that was approved to go is ready again, and another is not.
fn recovers() -> impl Strategy<Value = Vec<Step>> {
    (0..BUDGETS, 0..PODS, 0..PODS).prop_map(|(budget, pod, other)| {
        let ready = |pod, ready| shown(Act::Ready(pod, ready));
        let approved = shown(Act::Approve { budget, pod });
        [
            ready(pod, false),
            approved,
            computed(),
            ready(pod, true),
            ready(other, false),
        ]
        .concat()
    })
}

fn computed() -> Vec<Step> {
    vec![Step::Pass(Duration::from_millis(150)), Step::Turn, Step::Show(1)]
}

/// Mostly acts that are shown at once.
pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let steps = prop_oneof![
        10 => any_action().prop_map(shown),
        1 => any_action().prop_map(|act| vec![Step::Act(act)]),
        1 => replaced(),
        1 => siblings(),
        1 => recovers(),
        1 => (0..4_usize).prop_map(|watch| vec![Step::Show(watch)]),
        1 => (0..4_usize).prop_map(|watch| vec![Step::List(watch)]),
        1 => (0..90_u64).prop_map(|time| vec![seconds(time)]),
        5 => Just(computed()),
    ];
    vec(steps, 1..200).prop_map(|steps| steps.concat())
}

/// Takes `steps`, and judges each that reaches the loop.
pub(super) fn run(mut cluster: Cluster, steps: &[Step]) {
    let controller = Arc::new(cluster.controller());
    let mut event_loop = Loop::new(Arc::clone(&controller), [None, None, None], false);
    let (mut judge, mut now) = (Judge::new(&controller), NOW);
    for (_, watch) in cluster.watches() {
        watch.restart();
        watch.deliver(&mut event_loop, now);
    }
    event_loop.on_event(LoopEvent::Synced, now);
    event_loop.on_event(LoopEvent::Leading(true), now);
    for step in steps {
        match step {
            Step::Act(act) => {
                cluster.act(act, now);
                continue;
            }
            Step::Pass(time) => {
                now.uptime += *time;
                now.wall = saturating_add(now.wall, *time);
                continue;
            }
            Step::Show(watch) => _ = cluster.watches()[*watch].1.deliver(&mut event_loop, now),
            Step::List(watch) => cluster.watches()[*watch].1.begin_list(&mut event_loop, now),
            Step::Turn => turn(&mut cluster, &mut event_loop, now),
        }
        judge.judge(&event_loop, now);
    }
}

fn turn(cluster: &mut Cluster, event_loop: &mut Loop<DisruptionController>, now: Now) {
    // What a status that the watch has not shown conflicts with is retried later.
    for _ in 0..8 {
        let effects = event_loop.poll(now, &Unlimited).effects;
        for effect in effects {
            let completed = cluster.arrive(&effect.ask, now);
            event_loop.completed(effect.id, completed, now);
        }
    }
}
