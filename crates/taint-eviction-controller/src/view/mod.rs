//! What the controller reads of a pod (its node, since when, its tolerations) and of a node (its `NoExecute` taints).
//!
//! | rule | code | test |
//! |---|---|---|
//! | TE-16 | `PodView`, `NodeView` | `src/view/wire.rs::equal_lists_of_tolerations_are_one`, `src/view/wire.rs::pods_without_a_node_are_not_kept` |

mod messages;
mod wire;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use controller_core::cache::View;
use controller_core::meta::{ObjectKey, Uid};
use jiff::Timestamp;

pub use self::wire::{NodeWire, PodWire};

/// The only effect that evicts.
const NO_EXECUTE: &str = "NoExecute";

/// What the store keeps of a pod that is bound to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodView {
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `spec.nodeName`.
    pub node: Arc<str>,
    /// The entries of `spec.tolerations` that can match a `NoExecute` taint, in their order; equal lists share one
    /// allocation.
    pub tolerations: Arc<Vec<Toleration>>,
    /// When the pod was bound: the transition of its condition `PodScheduled`, else its creation.
    pub bound: Option<Timestamp>,
    /// `metadata.generation`, for the condition that is written.
    pub generation: i64,
    /// The pod has a deletionTimestamp.
    pub deleting: bool,
}

/// What the store keeps of a node that has a `NoExecute` taint. To the rules, other nodes do not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    pub key: ObjectKey,
    /// The `NoExecute` taints, in their order.
    pub taints: Vec<Taint>,
}

/// A taint with effect `NoExecute`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Taint {
    pub key: Arc<str>,
    /// Empty if the taint has none.
    pub value: Arc<str>,
    pub time_added: Option<Timestamp>,
}

/// A toleration whose effect is `NoExecute` or empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// Empty for any key.
    pub key: Arc<str>,
    /// How the values are compared once the keys match.
    pub operator: Operator,
    pub value: Arc<str>,
    /// `tolerationSeconds`; `None` is for ever.
    pub seconds: Option<i64>,
}

/// The `operator` of a toleration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `Equal` or empty: the values are equal.
    Equal,
    /// `Exists`: any value.
    Exists,
    /// `Lt`: the taint's value is less.
    Lt,
    /// `Gt`: the taint's value is greater.
    Gt,
    Unknown,
}

impl View for PodView {
    /// The name of its node.
    type Index = Arc<str>;

    fn key(&self) -> &ObjectKey {
        &self.key
    }

    fn index(&self, out: &mut Vec<Arc<str>>) {
        out.push(Arc::clone(&self.node));
    }
}

impl View for NodeView {
    type Index = Infallible;

    fn key(&self) -> &ObjectKey {
        &self.key
    }
}

/// `key=value:NoExecute`, or `key:NoExecute` without a value, as `kubectl taint` has it.
impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        if !self.value.is_empty() {
            write!(f, "={}", self.value)?;
        }
        write!(f, ":{NO_EXECUTE}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_are_written_as_kubectl_writes_them() {
        let taint = |value: &str| Taint {
            key: "k".into(),
            value: value.into(),
            time_added: None,
        };
        assert_eq!(taint("v").to_string(), "k=v:NoExecute");
        assert_eq!(taint("").to_string(), "k:NoExecute");
    }
}
