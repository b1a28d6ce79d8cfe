//! Priorities and namespaces of keys, for the queues that hold them.

use super::levels::Seats;
use super::{Controller, Priority};

/// The controller, with the state and caches by which it judges keys.
pub(super) struct Seating<'a, C: Controller> {
    pub(super) controller: &'a C,
    pub(super) state: &'a C::State,
    pub(super) stores: &'a C::Stores,
}

impl<C: Controller> Seats<C::Key> for Seating<'_, C> {
    fn priority(&self, key: &C::Key) -> Priority {
        self.controller.priority(self.state, self.stores, key)
    }

    fn namespace<'a>(&self, key: &'a C::Key) -> Option<&'a str> {
        self.controller.namespace_of(key)
    }
}
