//! What is worked on.

use std::fmt;

use controller_core::meta::ObjectKey;

/// A key of the queue `resource_claim`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// A pod, which may need claims or reservations.
    Pod(ObjectKey),
    /// A claim, which somebody may need no more.
    Claim(ObjectKey),
    /// A `PodGroup`, which may need claims.
    PodGroup(ObjectKey),
}

/// As upstream's queue has them.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key) => write!(f, "pod:{key}"),
            Self::Claim(key) => write!(f, "claim:{key}"),
            Self::PodGroup(key) => write!(f, "podgroup:{key}"),
        }
    }
}
