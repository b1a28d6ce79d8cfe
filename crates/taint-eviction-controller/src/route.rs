//! Which changes of a pod matter to a rule.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-6 | `effect_of` | `tests/route_table.rs::a_pod_that_is_gone_is_forgotten` |
//! | TE-13 | `effect_of` | `tests/route_table.rs::only_what_a_rule_reads_wakes` |

use controller_core::cache::Change;

use crate::view::PodView;

/// What a change of a pod requires. Every change of a node's view enqueues the node, because the view holds nothing
/// else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodChange {
    Judge,
    /// Forget the pod: it is gone or on its way (TE-6, TE-7).
    Forget,
    /// No rule reads what has changed.
    Nothing,
}

pub fn effect_of(change: &Change<'_, PodView>) -> PodChange {
    match change {
        Change::Deleted(_) => PodChange::Forget,
        Change::Added(new) | Change::Updated { new, .. } if new.deleting => PodChange::Forget,
        Change::Updated { old, new } if judges_alike(old, new) => PodChange::Nothing,
        Change::Added(_) | Change::Updated { .. } => PodChange::Judge,
    }
}

/// True if two states of a pod are the same to every rule (TE-13).
fn judges_alike(old: &PodView, new: &PodView) -> bool {
    old.uid == new.uid
        && old.node == new.node
        && old.tolerations == new.tolerations
        && old.bound == new.bound
        && old.deleting == new.deleting
}
