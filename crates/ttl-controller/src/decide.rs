//! The rules: which TTL the size of the cluster asks for, and what that means for one node.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TTL-1 | `step` | `tests/decide_table.rs::the_step_follows_the_node_count_with_hysteresis` |
//! | TTL-2 | `plan` | `tests/decide_table.rs::a_node_is_written_only_when_its_value_differs`, `tests/sync/boundary.rs::the_patch_holds_nothing_but_the_annotation` |
//! | TTL-6 | `first_step` | `tests/decide_table.rs::a_start_adopts_what_most_nodes_carry_if_it_fits_the_count`, `tests/sync/stories/boundary.rs::a_restart_at_95_nodes_on_15_writes_nothing` |

use std::ops::RangeInclusive;

use controller_core::meta::ObjectKey;

use crate::view::{Annotation, NodeView};

/// The annotation from which the kubelet takes its TTL, in seconds (`v1.ObjectTTLAnnotationKey`, k8s.io/api/core/v1).
pub const OBJECT_TTL_ANNOTATION_KEY: &str = "node.alpha.kubernetes.io/ttl";

/// The steps (`ttlBoundaries`, pkg/controller/ttl): a range of node counts, and the TTL in seconds for it. Neighbouring
/// ranges overlap, so that a cluster at a boundary does not flip between two values.
pub const TTL_BOUNDARIES: [(RangeInclusive<usize>, i64); 5] = [
    (0..=100, 0),
    (90..=500, 15),
    (450..=1000, 30),
    (900..=2000, 60),
    (1800..=i32::MAX as usize, 300),
];

/// The current row of [`TTL_BOUNDARIES`]. Remembered between decisions, for the hysteresis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Step(usize);

/// A write of one node's annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotationWrite {
    pub node: ObjectKey,
    /// The new value; `None` takes the annotation off (`--remove`).
    pub ttl_seconds: Option<i64>,
    /// The annotation as it is now.
    pub replaces: Annotation,
}

impl Step {
    /// Every step, lowest first.
    pub fn all() -> impl DoubleEndedIterator<Item = Self> {
        (0..TTL_BOUNDARIES.len()).map(Self)
    }

    /// The node counts for which a cluster may stay at this step.
    pub const fn nodes(self) -> &'static RangeInclusive<usize> {
        &TTL_BOUNDARIES[self.0].0
    }

    /// The TTL that every node should carry, in seconds.
    pub const fn ttl_seconds(self) -> i64 {
        TTL_BOUNDARIES[self.0].1
    }

    /// The row in the table, from 0.
    pub const fn number(self) -> usize {
        self.0
    }
}

/// The step for `nodes` nodes when the cluster was at `from`: up while there are too many nodes for the step, down
/// while there are too few, else unchanged. A count that jumps takes several steps.
pub fn step(from: Step, nodes: usize) -> Step {
    let Step(mut at) = from;
    while nodes > *Step(at).nodes().end() && at + 1 < TTL_BOUNDARIES.len() {
        at += 1;
    }
    while nodes < *Step(at).nodes().start() && at > 0 {
        at -= 1;
    }
    Step(at)
}

/// The step to start from, given every node's annotation.
///
/// If more than half of the nodes carry the TTL of a step whose range holds their count, the previous controller had
/// reached that step: keep it. Otherwise climb from `otherwise` (the first step, or what a standby has counted
/// meanwhile).
pub fn first_step<'a, A>(annotations: A, otherwise: Step) -> Step
where
    A: IntoIterator<Item = &'a Annotation, IntoIter: Clone>,
{
    let annotations = annotations.into_iter();
    let nodes = annotations.clone().count();
    let is_carried = |at: &Step| {
        let wanted = Annotation::Seconds(at.ttl_seconds());
        annotations.clone().filter(|found| **found == wanted).count() > nodes / 2
    };
    Step::all()
        .find(|at| at.nodes().contains(&nodes) && is_carried(at))
        .unwrap_or_else(|| step(otherwise, nodes))
}

/// The write that gives the node `ttl_seconds`, or takes its annotation off; `None` if nothing differs.
pub fn plan(node: &NodeView, ttl_seconds: Option<i64>) -> Option<AnnotationWrite> {
    (node.annotation != Annotation::of(ttl_seconds)).then(|| AnnotationWrite {
        node: node.key.clone(),
        ttl_seconds,
        replaces: node.annotation.clone(),
    })
}
