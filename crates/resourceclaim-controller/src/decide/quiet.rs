//! How long a claim has not changed (RC-11).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controller_core::meta::Uid;

use crate::view::ClaimView;

/// The claims, by uid, that have a finalizer and nothing else: the version of each, and since when it was seen. Times
/// count from the start of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Quiet(BTreeMap<Uid, (Arc<str>, Duration)>);

impl Quiet {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Notes the current state of the claim. A claim that has more than a finalizer is forgotten.
    pub fn observe(&mut self, claim: &ClaimView, now: Duration) {
        if !claim.finalizer || claim.allocated || claim.deleting.is_some() || !claim.reserved.is_empty() {
            return self.forget(&claim.uid);
        }
        let known = self.0.get(&claim.uid);
        if known.is_none_or(|(version, _)| *version != claim.version) {
            let seen = (Arc::clone(&claim.version), now);
            self.0.insert(claim.uid.clone(), seen);
        }
    }

    /// How long `claim` has been seen at this very version.
    pub fn unchanged(&self, claim: &ClaimView, now: Duration) -> Duration {
        match self.0.get(&claim.uid) {
            Some((version, since)) if *version == claim.version => now.saturating_sub(*since),
            _ => Duration::ZERO,
        }
    }

    pub fn forget(&mut self, claim: &Uid) {
        self.0.remove(claim);
    }
}
