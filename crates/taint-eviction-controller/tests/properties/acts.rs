//! What others do to the world, drawn.

use proptest::collection::vec;
use proptest::prelude::*;

use super::world::{NODES, PODS, TAINTS};
use crate::ledger::{FAILED, Toleration};

#[derive(Clone, Debug)]
pub(super) enum Act {
    /// The taint with this number comes to a node, with a `timeAdded` some seconds ago or without.
    Taint {
        node: usize,
        taint: usize,
        ago: Option<i64>,
    },
    Untaint {
        node: usize,
        taint: usize,
    },
    /// A new pod of this name was bound some seconds ago.
    Bind {
        pod: usize,
        node: usize,
        ago: i64,
        tolerations: Vec<Toleration>,
    },
    /// From now on a pod has these.
    Tolerate(usize, Vec<Toleration>),
    /// Somebody deletes a pod.
    Delete(usize),
    /// A kubelet ends a pod that is being deleted.
    End(usize),
    /// Budgets refuse each eviction for five minutes.
    Refuse,
}

/// Every taint is tolerated for some seconds, or for ever.
pub(super) fn all(seconds: Option<i64>) -> Vec<Toleration> {
    let (key, value) = (None, None);
    vec![Toleration { key, value, seconds }]
}

fn any_toleration() -> impl Strategy<Value = Toleration> {
    let seconds = prop_oneof![
        1 => Just(None),
        3 => prop::sample::select(vec![0_i64, 3, 40, 300]).prop_map(Some),
        2 => (0..120_i64).prop_map(Some),
    ];
    let keys: Vec<_> = TAINTS
        .map(|(key, _)| Some(key))
        .into_iter()
        .chain([None])
        .collect();
    let value = prop_oneof![3 => Just(None), 1 => prop::sample::select(vec![Some(""), Some("v")])];
    let drawn = (prop::sample::select(keys), value, seconds);
    drawn.prop_map(|(key, value, seconds)| Toleration { key, value, seconds })
}

fn any_tolerations() -> impl Strategy<Value = Vec<Toleration>> {
    prop_oneof![
        2 => vec(any_toleration(), 0..4),
        1 => any_toleration().prop_map(|drawn| all(drawn.seconds)),
    ]
}

/// The two taints of a failed node count as one: if they have times, these tell which one a pod has met, and not when they
/// came.
fn tainted((node, taint, ago): (usize, usize, Option<i64>)) -> Act {
    let ago = ago.filter(|_| !FAILED.contains(&TAINTS[taint].0));
    Act::Taint { node, taint, ago }
}

pub(super) fn any_action() -> impl Strategy<Value = Act> {
    let ago = prop_oneof![Just(None), Just(Some(0)), (-30..100_i64).prop_map(Some),];
    let bound = prop_oneof![2 => Just(0), 1 => 0..60_i64];
    prop_oneof![
        3 => (0..NODES, 0..TAINTS.len(), ago).prop_map(tainted),
        2 => (0..NODES, 0..TAINTS.len()).prop_map(|(node, taint)| Act::Untaint { node, taint }),
        3 => (0..PODS, 0..NODES, bound, any_tolerations())
            .prop_map(|(pod, node, ago, tolerations)| Act::Bind { pod, node, ago, tolerations }),
        1 => (0..PODS, any_tolerations()).prop_map(|(pod, tolerations)| Act::Tolerate(pod, tolerations)),
        1 => (0..PODS).prop_map(Act::Delete),
        2 => (0..PODS).prop_map(Act::End),
        1 => Just(Act::Refuse),
    ]
}
