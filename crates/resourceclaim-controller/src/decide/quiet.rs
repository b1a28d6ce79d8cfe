//! For how long a claim has been as it is (RC-11).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controller_core::meta::{ObjectKey, Uid};

use crate::view::ClaimView;

/// Since when each claim that has a finalizer and nothing else is seen in the version that it has now. Times count from
/// the start of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Quiet(BTreeMap<ObjectKey, Seen>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Seen {
    uid: Uid,
    version: Arc<str>,
    since: Duration,
}

impl Quiet {
    /// The claim is like this now. One that has more than a finalizer is forgotten.
    pub fn observe(&mut self, claim: &ClaimView, now: Duration) {
        if !claim.finalizer || claim.allocated || claim.deleting.is_some() || !claim.reserved.is_empty() {
            return self.forget(&claim.key);
        }
        let known = self.0.get(&claim.key);
        if !known.is_some_and(|seen| seen.is_of(claim)) {
            let seen = Seen {
                uid: claim.uid.clone(),
                version: Arc::clone(&claim.version),
                since: now,
            };
            self.0.insert(claim.key.clone(), seen);
        }
    }

    /// For how long `claim` has been seen in this very version.
    pub fn unchanged(&self, claim: &ClaimView, now: Duration) -> Duration {
        let seen = self.0.get(&claim.key).filter(|seen| seen.is_of(claim));
        seen.map_or(Duration::ZERO, |seen| now.saturating_sub(seen.since))
    }

    /// The claim is gone.
    pub fn forget(&mut self, claim: &ObjectKey) {
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

impl Seen {
    fn is_of(&self, claim: &ClaimView) -> bool {
        self.uid == claim.uid && self.version == claim.version
    }
}
