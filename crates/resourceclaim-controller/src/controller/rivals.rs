//! Another writer that keeps undoing what we write (CORE-17).
//!
//! | what we did | it is undone when | it is done again after |
//! |---|---|---|
//! | named a claim in a status | the status names another or none, and the claim is still the right one | 1 min to 1 h: a pod starts later |
//! | reserved a claim | the pod needs it still | 1 s to 1 min: without it the device may be given to another pod |
//! | deleted the claim of a pod that is done | another was made for the same entry | 1 min to 1 h: it holds no device |
//!
//! The built-in loop contests the first and the last. What frees a device (a reservation that goes, an allocation that is
//! cleared) is never put off: each is right on its own, and answers one write of somebody else.

use std::sync::Arc;
use std::time::Duration;

use controller_core::api::CallFailed;
use controller_core::events::reference;
use controller_core::meta::Uid;
use controller_core::rival::{Pace, Verdict};
use k8s_openapi::api::core::v1::ObjectReference;

use super::Controller;
use crate::decide::{Claimant, Reserve};
use crate::notes::Undone;
use crate::view::{ClaimStatus, ClaimView};

/// How soon a reservation that another took off is written again.
const RESERVATIONS: Pace = Pace {
    first: Duration::from_secs(1),
    longest: Duration::from_mins(1),
};

/// What we did and another may undo.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Deed {
    /// The status of the object of this uid names this claim.
    Recorded { claimant: Uid, claim: Arc<str> },
    /// The claim is reserved for the consumer.
    Reserved { claim: Uid, consumer: Uid },
    /// This entry of the pod, which is done, has no claim.
    Deleted { pod: Uid, entry: Arc<str> },
}

impl Deed {
    /// None if the status names no claim.
    pub(super) fn recorded(claimant: &Uid, status: &ClaimStatus) -> Option<Self> {
        Some(Self::Recorded {
            claimant: claimant.clone(),
            claim: Arc::clone(status.claim.as_ref()?),
        })
    }

    pub(super) fn reserved(reserve: &Reserve) -> Self {
        Self::Reserved {
            claim: reserve.uid.clone(),
            consumer: reserve.consumer.uid.clone(),
        }
    }

    /// None if the claim was not made for an entry of a pod.
    pub(super) fn deleted(claim: &ClaimView) -> Option<Self> {
        Some(Self::Deleted {
            pod: claim.owning_pod()?.uid.clone(),
            entry: Arc::clone(claim.entry.as_ref()?),
        })
    }
}

impl Controller {
    /// The API server has accepted this.
    pub(super) fn did(&self, deed: &Deed) {
        self.rivals.wrote(deed, self.clock.instant());
    }

    /// The object of this uid is gone, and its statuses with it.
    pub(super) fn forget_recorded(&self, claimant: &Uid, statuses: &[ClaimStatus]) {
        let deeds = statuses
            .iter()
            .filter_map(|status| Deed::recorded(claimant, status));
        deeds.for_each(|deed| self.rivals.forget(&deed));
    }

    /// How long to leave the statuses of the claimant, of which these are to be written. Not as long as one of them may
    /// be: all go in one write.
    pub(super) async fn leave_statuses(
        &self,
        claimant: &Claimant<'_>,
        changed: &[&ClaimStatus],
    ) -> Option<Duration> {
        let now = self.clock.instant();
        let verdict = |status: &&ClaimStatus| match Deed::recorded(claimant.uid, status) {
            Some(deed) => (Arc::clone(&status.entry), self.rivals.undone(&deed, now)),
            None => (Arc::clone(&status.entry), Verdict::Write),
        };
        // Each is asked: what was undone counts, whatever becomes of the others.
        let verdicts: Vec<_> = changed.iter().map(verdict).collect();
        for (entry, verdict) in &verdicts {
            if let Verdict::BackOff { first: true, .. } = verdict {
                let manager = self
                    .live
                    .manager_of_status(claimant.kind, claimant.key, entry)
                    .await;
                let (api_version, kind) = claimant.kind.type_meta();
                let regarding = reference(api_version, kind, claimant.key, claimant.uid);
                self.name_rival(Undone::Status, regarding, manager);
            }
        }
        let waits = verdicts.into_iter().map(|(_, verdict)| match verdict {
            Verdict::Write => None,
            Verdict::BackOff { wait, .. } => Some(wait),
        });
        waits.collect::<Option<Vec<_>>>()?.into_iter().min()
    }

    /// How long to leave a claim that is to be reserved.
    pub(super) async fn leave_unreserved(&self, reserve: &Reserve) -> Option<Duration> {
        let now = self.clock.instant();
        match self.rivals.undone_at(RESERVATIONS, &Deed::reserved(reserve), now) {
            Verdict::Write => None,
            Verdict::BackOff { wait, first } => {
                if first {
                    let manager = self.live.manager_of_reservations(&reserve.claim).await;
                    let regarding = reference(
                        "resource.k8s.io/v1",
                        "ResourceClaim",
                        &reserve.claim,
                        &reserve.uid,
                    );
                    self.name_rival(Undone::Reservation, regarding, manager);
                }
                Some(wait)
            }
        }
    }

    /// How long to leave a claim that is to be deleted.
    pub(super) async fn leave_undeleted(&self, claim: &ClaimView) -> Option<Duration> {
        // A device that it holds is worth a delete at any time.
        let deed = Deed::deleted(claim).filter(|_| !claim.allocated)?;
        match self.rivals.undone(&deed, self.clock.instant()) {
            Verdict::Write => None,
            Verdict::BackOff { wait, first } => {
                if first {
                    let manager = self.live.maker_of_claim(&claim.key).await;
                    let regarding = reference("resource.k8s.io/v1", "ResourceClaim", &claim.key, &claim.uid);
                    self.name_rival(Undone::Deletion, regarding, manager);
                }
                Some(wait)
            }
        }
    }

    fn name_rival(
        &self,
        undone: Undone,
        regarding: ObjectReference,
        manager: Result<Option<String>, CallFailed>,
    ) {
        let manager = manager.ok().flatten();
        let manager = manager.as_deref().unwrap_or("an unknown field manager");
        if self.rivals.may_warn(manager, self.clock.instant()) {
            self.notes.rival(undone, regarding, manager);
        }
    }
}
