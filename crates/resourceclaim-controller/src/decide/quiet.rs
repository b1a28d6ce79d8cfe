//! For how long a claim has been as it is (RC-11).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use controller_core::meta::{ObjectKey, Uid};
use tokio::time::Instant;

use crate::view::ClaimView;

/// Since when each claim that has a finalizer and nothing else is seen in the version that it has now.
#[derive(Debug, Default)]
pub struct Quiet(HashMap<ObjectKey, Seen>);

#[derive(Debug)]
struct Seen {
    uid: Uid,
    version: Arc<str>,
    since: Instant,
}

impl Quiet {
    /// For how long `claim` has been seen in this very version: from now on, if it is seen for the first time. A claim
    /// that has more than a finalizer is forgotten.
    pub fn unchanged(&mut self, claim: &ClaimView, now: Instant) -> Duration {
        if !claim.finalizer || claim.allocated || claim.deleting.is_some() || !claim.reserved.is_empty() {
            self.forget(&claim.key);
            return Duration::ZERO;
        }
        match self.0.get(&claim.key) {
            Some(seen) if seen.uid == claim.uid && seen.version == claim.version => {
                now.saturating_duration_since(seen.since)
            }
            _ => {
                let seen = Seen {
                    uid: claim.uid.clone(),
                    version: Arc::clone(&claim.version),
                    since: now,
                };
                self.0.insert(claim.key.clone(), seen);
                Duration::ZERO
            }
        }
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
