//! What others do to the world, drawn.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::{BUDGETS, DEPLOYMENT, GONE, PODS, SELECTORS, WIDGET, WORKLOADS};

#[derive(Clone, Copy, Debug)]
pub(super) struct Pod {
    pub(super) app: Option<&'static str>,
    pub(super) ready: bool,
    pub(super) deleting: bool,
    pub(super) owner: Option<usize>,
}

#[derive(Clone, Debug)]
pub(super) enum Act {
    /// A pod becomes so, or is created, anew in the place of the one with its number.
    Pod {
        pod: usize,
        becomes: Pod,
        anew: bool,
    },
    Ready(usize, bool),
    /// Its containers end for good.
    Fail(usize),
    Relabel(usize, Option<&'static str>),
    End(usize),
    /// A budget is created, or demands something else.
    Budget(usize, Value),
    DeleteBudget(usize),
    /// A workload wants this number of pods; it is created if it does not exist.
    Scale(usize, i64),
    DeleteWorkload(usize),
    /// The Eviction API approves, and deletes the pod or dies before.
    Evict {
        pod: usize,
        deletes: bool,
    },
    /// A budget has an entry for a pod, whatever has become of the pod.
    Approve {
        budget: usize,
        pod: usize,
    },
    /// Somebody marks a pod for disruption, whatever its budgets allow, and dies before deleting it.
    Preempt(usize),
    /// Somebody writes over a status.
    Overwrite(usize, i64),
}

fn any_app() -> impl Strategy<Value = Option<&'static str>> {
    prop_oneof![3 => Just(Some("web")), 1 => Just(Some("db")), 1 => Just(None)]
}

pub(super) fn any_pod() -> impl Strategy<Value = Pod> {
    let owner = prop_oneof![
        1 => Just(None),
        6 => (0..DEPLOYMENT).prop_map(Some),
        1 => Just(Some(WIDGET)),
        1 => Just(Some(GONE)),
    ];
    let (ready, deleting) = (prop::bool::weighted(0.7), prop::bool::weighted(0.2));
    (any_app(), ready, deleting, owner).prop_map(|(app, ready, deleting, owner)| Pod {
        app,
        ready,
        deleting,
        owner,
    })
}

fn any_budget() -> impl Strategy<Value = Act> {
    let selectors = prop::sample::select(vec![0, 1, 1, 2, 2, 2, 2, 3, 3, 4, 4, 5, 5]);
    let field = prop_oneof![Just("minAvailable"), Just("maxUnavailable")];
    let amount = prop_oneof![
        (0..6_i64).prop_map(|pods| json!(pods)),
        (0..=100_i64).prop_map(|percent| json!(format!("{percent}%"))),
    ];
    let drawn = (0..BUDGETS, prop::option::of(selectors), field, amount);
    drawn.prop_map(|(budget, selector, field, amount)| {
        // Often the same, so that the demand alone changes.
        let selector = &SELECTORS[selector.unwrap_or(budget + 2)].written;
        Act::Budget(budget, json!({ "selector": selector, field: amount }))
    })
}

pub(super) fn any_action() -> impl Strategy<Value = Act> {
    let pods = || 0..PODS;
    let budgets = || 0..BUDGETS;
    let new_pod = (pods(), any_pod(), prop::bool::weighted(0.6));
    prop_oneof![
        6 => new_pod.prop_map(|(pod, becomes, anew)| Act::Pod { pod, becomes, anew }),
        3 => (pods(), any::<bool>()).prop_map(|(pod, ready)| Act::Ready(pod, ready)),
        1 => (pods(), any_app()).prop_map(|(pod, app)| Act::Relabel(pod, app)),
        1 => pods().prop_map(Act::Fail),
        1 => pods().prop_map(Act::End),
        3 => any_budget(),
        1 => budgets().prop_map(Act::DeleteBudget),
        4 => (0..WORKLOADS, -1..6_i64).prop_map(|(workload, replicas)| Act::Scale(workload, replicas)),
        1 => (0..WORKLOADS).prop_map(Act::DeleteWorkload),
        3 => (pods(), any::<bool>()).prop_map(|(pod, deletes)| Act::Evict { pod, deletes }),
        2 => (budgets(), pods()).prop_map(|(budget, pod)| Act::Approve { budget, pod }),
        1 => pods().prop_map(Act::Preempt),
        1 => (budgets(), 0..4_i64).prop_map(|(budget, allowed)| Act::Overwrite(budget, allowed)),
    ]
}
