//! The rules: which TTL the cluster's size asks for, and what that means for one node.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TTL-1 | `step` | `tests/decide_table.rs::the_step_follows_the_node_count_with_hysteresis` |
//! | TTL-2 | `plan` | `tests/decide_table.rs::a_node_is_written_only_when_its_value_differs`, `tests/sync/boundary.rs::the_patch_holds_nothing_but_the_annotation` |
//! | TTL-3 | `plan` | `tests/sync/boundary.rs::a_node_deleted_before_its_write_is_done`, `tests/sync/faults.rs::a_5xx_is_retried_and_nothing_is_forgotten` |
//! | TTL-4 | `first_step` | `tests/sync/boundary.rs::nothing_is_written_before_the_whole_list_is_counted` |
//! | TTL-5 | `step` | `tests/sync/boundary.rs::crossing_a_boundary_rewrites_every_node_at_once` |
//! | TTL-6 | `first_step` | `tests/decide_table.rs::a_start_adopts_what_most_nodes_carry_if_it_fits_the_count`, `tests/sync/boundary.rs::a_restart_inside_the_overlap_writes_nothing` |
//! | TTL-7 | `plan` | `tests/sync/boundary.rs::nodes_are_watched_as_metadata_only` |
//! | TTL-8 | `plan` | `tests/sync/removal.rs::removal_takes_the_annotation_off_every_node_and_ends` |

use controller_core::meta::ObjectKey;

use crate::view::{Annotation, NodeView};

/// Where the kubelet looks for its TTL, in seconds (`v1.ObjectTTLAnnotationKey`, k8s.io/api/core/v1).
pub const OBJECT_TTL_ANNOTATION_KEY: &str = "node.alpha.kubernetes.io/ttl";

/// The steps (`ttlBoundaries`, pkg/controller/ttl): neighbours overlap, so that a cluster at a boundary
/// does not flip between two values.
pub const TTL_BOUNDARIES: [Boundary; 5] = [
    Boundary::new(0, 100, 0),
    Boundary::new(90, 500, 15),
    Boundary::new(450, 1000, 30),
    Boundary::new(900, 2000, 60),
    Boundary::new(1800, i32::MAX as usize, 300),
];

/// One step: the node counts at which it stands, and the TTL it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// Fewer nodes than this: one step down.
    pub size_min: usize,
    /// More nodes than this: one step up.
    pub size_max: usize,
    /// What the nodes are told.
    pub ttl_seconds: i64,
}

/// Which of [`TTL_BOUNDARIES`] the cluster is at. Remembered between decisions: it is the hysteresis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Step(usize);

/// A write of one node's annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Which node.
    pub node: ObjectKey,
    /// The new value; `None` takes the annotation off (`--remove`).
    pub ttl_seconds: Option<i64>,
    /// What is there now.
    pub replaces: Annotation,
}

impl Boundary {
    const fn new(size_min: usize, size_max: usize, ttl_seconds: i64) -> Self {
        Self {
            size_min,
            size_max,
            ttl_seconds,
        }
    }

    const fn contains(&self, nodes: usize) -> bool {
        self.size_min <= nodes && nodes <= self.size_max
    }
}

impl Step {
    /// Every step, lowest first.
    pub fn all() -> impl DoubleEndedIterator<Item = Self> {
        (0..TTL_BOUNDARIES.len()).map(Self)
    }

    /// The table's row.
    pub const fn boundary(self) -> &'static Boundary {
        &TTL_BOUNDARIES[self.0]
    }

    /// The TTL that this step asks every node to carry, in seconds.
    pub const fn desired_ttl_seconds(self) -> i64 {
        self.boundary().ttl_seconds
    }

    /// The row's number, from 0.
    pub const fn number(self) -> usize {
        self.0
    }
}

/// The step for `nodes` nodes when the cluster was at `from`: up while there are too many for the
/// step, down while there are too few, else stay. A count that jumps takes several steps.
pub fn step(from: Step, nodes: usize) -> Step {
    let mut at = from.0;
    while nodes > TTL_BOUNDARIES[at].size_max && at + 1 < TTL_BOUNDARIES.len() {
        at += 1;
    }
    while nodes < TTL_BOUNDARIES[at].size_min && at > 0 {
        at -= 1;
    }
    Step(at)
}

/// The step to start from, given every node's annotation.
///
/// A step that more than half of the nodes carry, and whose range holds their count, is the one that
/// the controller before us had reached: keep it. Otherwise climb from `otherwise` (the first step,
/// or what a standby has counted meanwhile).
pub fn first_step<'a>(annotations: impl IntoIterator<Item = &'a Annotation>, otherwise: Step) -> Step {
    let mut nodes = 0_usize;
    let mut carrying = [0_usize; TTL_BOUNDARIES.len()];
    for annotation in annotations {
        nodes += 1;
        for (count, boundary) in carrying.iter_mut().zip(&TTL_BOUNDARIES) {
            *count += usize::from(*annotation == Annotation::Seconds(boundary.ttl_seconds));
        }
    }
    Step::all()
        .find(|at| carrying[at.0] > nodes / 2 && at.boundary().contains(nodes))
        .unwrap_or_else(|| step(otherwise, nodes))
}

/// What one node needs when every node should carry `ttl_seconds`, or no annotation.
pub fn plan(node: &NodeView, ttl_seconds: Option<i64>) -> Option<Plan> {
    (node.annotation != Annotation::of(ttl_seconds)).then(|| Plan {
        node: node.key.clone(),
        ttl_seconds,
        replaces: node.annotation.clone(),
    })
}
