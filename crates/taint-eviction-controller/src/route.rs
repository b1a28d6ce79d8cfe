//! Which changes of a pod matter to a rule.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-6 | `effect_of` | `tests/route_table.rs::a_pod_that_is_gone_is_forgotten` |
//! | TE-13 | `effect_of` | `tests/route_table.rs::only_what_a_rule_reads_wakes` |

use controller_core::informer::Change;

use crate::view::PodView;

/// What a change of a pod asks for. Every change of a node's view wakes the node: nothing else is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Judge,
    /// Forget the pod: it is gone or on its way (TE-6, TE-7).
    Forget,
    /// Nothing: no rule reads what has changed.
    Nothing,
}

/// What `change` asks for.
pub fn effect_of(change: &Change<'_, PodView>) -> Effect {
    match change {
        Change::Deleted(_) => Effect::Forget,
        Change::Added(new) | Change::Updated { new, .. } if new.deleting => Effect::Forget,
        Change::Updated { old, new } if judges_alike(old, new) => Effect::Nothing,
        Change::Added(_) | Change::Updated { .. } => Effect::Judge,
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
