//! The results for the entries of one pod or group.

use std::sync::Arc;
use std::time::Duration;

use controller_core::controller::{Failed, Requeue};

use super::{Action, Key};
use crate::error::{self, EntryError};
use crate::view::Entry;

/// The results for the entries of one object.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// The claims of the entries that have one made for them.
    pub(super) names: Vec<(Arc<str>, Arc<str>)>,
    pub(super) failures: Vec<(Arc<str>, EntryError)>,
    /// How long to wait before a write is repeated that another writer keeps undoing.
    left: Option<Duration>,
    /// The next pass must go on.
    pub(super) breaks_off: bool,
}

impl Settled {
    /// The claim that was made for the entry.
    pub(super) fn name_of(&self, entry: &Entry) -> Option<&Arc<str>> {
        let made = self.names.binary_search_by(|(of, _)| of.cmp(&entry.name));
        self.names.get(made.ok()?).map(|(_, name)| name)
    }

    /// Adds a failure. If groups do not count, that is the same for all entries: only the first is reported.
    pub(super) fn fail(&mut self, entry: Arc<str>, error: EntryError) {
        let is_told = |(_, told): &(Arc<str>, EntryError)| told.is_of_groups();
        if !error.is_of_groups() || !self.failures.iter().any(is_told) {
            self.failures.push((entry, error));
        }
    }

    pub(super) fn leave(&mut self, wait: Option<Duration>) {
        self.left = self.left.into_iter().chain(wait).min();
    }

    /// Ends the pass. Waiting for something else is no failure; a failed request has already been reported.
    pub(super) fn end(self, key: Key) -> Action {
        let enqueue = match self.left {
            _ if self.breaks_off => Some(Requeue::Now),
            left => left.map(Requeue::After),
        };
        let requeues = enqueue.map(|enqueue| (key, enqueue)).into_iter().collect();
        let failures = self.failures;
        let is_told = failures.iter().any(|(_, error)| error.is_of_a_request());
        if is_told || failures.iter().all(|(_, error)| error.waits()) {
            return Action::Done(requeues);
        }
        Action::Fail(Failed {
            reason: "EntryFailed",
            text: error::told(&failures),
            not_before: Duration::ZERO,
            requeues,
        })
    }
}
