//! For how long a claim has been as it is (RC-11).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controller_core::meta::Uid;

use crate::view::ClaimView;

/// The claims, by uid, that have a finalizer and nothing else: the version of each, and since when it is seen in it. Times
/// count from the start of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Quiet(BTreeMap<Uid, (Arc<str>, Duration)>);

impl Quiet {
    /// The claim is like this now. One that has more than a finalizer is forgotten.
    pub fn observe(&mut self, claim: &ClaimView, now: Duration) {
        if !claim.finalizer || claim.allocated || claim.deleting.is_some() || !claim.reserved.is_empty() {
            return self.forget(&claim.uid);
        }
        match self.0.get(&claim.uid) {
            Some((version, _)) if *version == claim.version => {}
            _ => {
                _ = self
                    .0
                    .insert(claim.uid.clone(), (Arc::clone(&claim.version), now))
            }
        }
    }

    /// For how long `claim` has been seen in this very version.
    pub fn unchanged(&self, claim: &ClaimView, now: Duration) -> Duration {
        match self.0.get(&claim.uid) {
            Some((version, since)) if *version == claim.version => now.saturating_sub(*since),
            _ => Duration::ZERO,
        }
    }

    /// The claim of this uid is gone.
    pub fn forget(&mut self, claim: &Uid) {
        self.0.remove(claim);
    }

    /// How many claims are watched.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
