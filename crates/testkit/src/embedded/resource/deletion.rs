//! What the server knows about the end of a kind's objects.

use super::Resource;

/// What a delete that does not say so does about dependents (`DefaultGarbageCollectionPolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependents {
    /// They are deleted after the object.
    Deleted,
    /// They stay.
    Orphaned,
    /// There are none: the garbage collector leaves the kind alone.
    Unsupported,
}

impl Resource {
    /// Sets what a delete that does not say so does about dependents.
    #[must_use]
    pub const fn dependents(mut self, rule: Dependents) -> Self {
        self.dependents = rule;
        self
    }

    /// Answers deletes with the deleted object rather than a `Status`.
    #[must_use]
    pub const fn returned_when_deleted(mut self) -> Self {
        self.returned_when_deleted = true;
        self
    }

    /// Whether this is the same resource, in whatever version.
    pub fn is(&self, other: &Self) -> bool {
        (self.group, self.plural) == (other.group, other.plural)
    }
}
