//! Which changes wake whom, and which worker it is that wakes.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-6 | `wake` | `tests/route_table.rs::a_pod_that_is_gone_is_forgotten` |
//! | TE-12 | `shard` | `tests/route_table.rs::a_node_has_one_worker` |
//! | TE-13 | `wake` | `tests/route_table.rs::only_what_a_rule_reads_wakes` |

use controller_core::informer::Change;

use crate::view::PodView;

/// What a change of a pod asks for. Every change of a node's view wakes the node: nothing else is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Judge the pod.
    Judge,
    /// Forget the pod: it is gone or on its way (TE-6, TE-7).
    Forget,
    /// Nothing: no rule reads what has changed.
    Nothing,
}

/// What `change` asks for.
pub fn wake(change: &Change<'_, PodView>) -> Wake {
    match change {
        Change::Deleted(_) => Wake::Forget,
        Change::Added(new) | Change::Updated { new, .. } if new.deleting => Wake::Forget,
        Change::Updated { old, new } if judges_alike(old, new) => Wake::Nothing,
        Change::Added(_) | Change::Updated { .. } => Wake::Judge,
    }
}

/// Whether two states of a pod are the same to every rule (TE-13).
fn judges_alike(old: &PodView, new: &PodView) -> bool {
    old.uid == new.uid
        && old.node == new.node
        && old.tolerations == new.tolerations
        && old.bound == new.bound
        && old.deleting == new.deleting
}

/// Which of `workers` works on `node` and its pods: FNV-1a of 32 bit, as upstream (TE-12).
pub fn shard(node: &str, workers: usize) -> usize {
    const OFFSET_BASIS: u32 = 0x811c_9dc5;
    const PRIME: u32 = 0x0100_0193;
    let hash = node.bytes().fold(OFFSET_BASIS, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(PRIME)
    });
    usize::try_from(hash).unwrap_or_default() % workers.max(1)
}
