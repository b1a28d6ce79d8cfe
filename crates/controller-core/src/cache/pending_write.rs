//! One accepted write, or one read, that the watch has not shown.

use std::sync::Arc;

use derive_where::derive_where;

/// Changes a view, but not its key. It must be quick: the loop waits for it.
pub type Patch<V> = Arc<dyn Fn(&V) -> V + Send + Sync>;

#[derive(Debug)]
#[derive_where(Clone)]
pub(super) struct PendingWrite<V> {
    /// As answered; 0 if the answer had none.
    pub(super) version: u64,
    /// The watch has shown the write once it reaches this version.
    pub(super) shown_at: u64,
    pub(super) done: PendingEffect<V>,
    /// The step of the answer.
    pub(super) answered: u64,
    /// The number of the request; for a read, that of the write before it; 0 if there was none.
    pub(super) id: u64,
}

/// What the write has done to the view.
#[derive_where(Clone)]
#[derive_where(Debug; V)]
pub(super) enum PendingEffect<V> {
    Object(Arc<V>),
    Patch(#[derive_where(skip(Debug))] Patch<V>),
    Deleted,
}

impl<V> PendingWrite<V> {
    /// The write with number `id`. The answer had this version, and came at step `answered`.
    pub(super) fn new(version: Option<u64>, done: PendingEffect<V>, answered: u64, id: u64) -> Self {
        let shown_at = match (&done, version) {
            (PendingEffect::Deleted, None) => u64::MAX,
            (PendingEffect::Deleted, Some(version)) => version.saturating_add(1),
            (PendingEffect::Object(_) | PendingEffect::Patch(_), version) => version.unwrap_or_default(),
        };
        Self {
            version: version.unwrap_or_default(),
            shown_at,
            done,
            answered,
            id,
        }
    }

    /// Returns whether it shows the whole object, or its end, and is as new as `other`.
    pub(super) fn includes(&self, other: &Self) -> bool {
        match self.done {
            PendingEffect::Object(_) => self.version >= other.shown_at,
            PendingEffect::Deleted => self.shown_at > other.version,
            PendingEffect::Patch(_) => false,
        }
    }

    pub(super) fn is_deleted(&self) -> bool {
        matches!(self.done, PendingEffect::Deleted)
    }
}
