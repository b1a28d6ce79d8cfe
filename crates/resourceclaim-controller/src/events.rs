//! What users see: reports when an entry begins to fail, when a claim is full, and when another writer keeps undoing
//! our writes; not at every sync.
//!
//! | rule | function | test |
//! |---|---|---|
//! | RC-6 | `Event::record` | `tests/sync/claims/mod.rs::a_missing_template_is_reported_once_and_its_creation_helps_at_once` |
//! | RC-6 | `Event::record` | `tests/sync/numbers.rs::a_pod_of_abusive_size_is_reported_now_and_then` |
//! | RC-8 | `Event::record` | `tests/sync/reservations/mod.rs::a_full_claim_is_reported_once_and_waited_for` |

use std::sync::Arc;

use controller_core::events::{Event as Published, Recorder, reference};
use controller_core::meta::{ObjectKey, Uid};
use prometheus::IntCounter;

use crate::contested::{Contested, WriteKey};
use crate::decide::{MANY_ENTRIES, REQUESTS_A_PASS, RESERVED_FOR_MAX_SIZE};
use crate::metrics::Creates;
use crate::view::ClaimantKind;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An entry has no claim.
    CannotCreate {
        kind: ClaimantKind,
        claimant: (ObjectKey, Uid),
        entry: Arc<str>,
        why: String,
    },
    /// A claim has no room for a pod.
    Full {
        claim: (ObjectKey, Uid),
        pod: (ObjectKey, Uid),
    },
    /// A pod or a group has so many entries that its claims take long to make.
    Large {
        kind: ClaimantKind,
        claimant: (ObjectKey, Uid),
        entries: usize,
    },
    /// Another writer has undone a write of ours.
    Undone,
    /// Another writer keeps undoing our writes, here and perhaps elsewhere (CORE-17).
    Rival { contested: Contested, manager: String },
    /// A create was answered.
    Created {
        owner: ClaimantKind,
        /// The claim now exists.
        success: bool,
        /// The claim asks for admin access.
        admin_access: bool,
    },
}

impl Event {
    pub fn record(self, creates: &Creates, rival_writes: &IntCounter, recorder: &dyn Recorder) {
        match self {
            Self::CannotCreate {
                kind,
                claimant: (key, uid),
                entry,
                why,
            } => {
                let (api_version, kind) = kind.type_meta();
                let note = format!("{kind}ResourceClaim {entry}: {why}");
                tracing::warn!(%key, "{note}");
                let claimant = reference(api_version, kind, &key, &uid);
                let (reason, action) = ("FailedResourceClaimCreation", "CreateResourceClaim");
                recorder.publish(Published::warning(claimant, reason, action, note));
            }
            Self::Full {
                claim: (claim, uid),
                pod: (pod, pod_uid),
            } => {
                let note = format!(
                    "It is reserved for {RESERVED_FOR_MAX_SIZE} consumers, more than which it cannot have: pod {} waits \
                     for one of them to be done",
                    pod.name
                );
                tracing::warn!(%claim, "{note}");
                let claim = reference("resource.k8s.io/v1", "ResourceClaim", &claim, &uid);
                recorder.publish(Published {
                    related: Some(Box::new(reference("v1", "Pod", &pod, &pod_uid))),
                    ..Published::warning(claim, "ResourceClaimFull", "ReserveResourceClaim", note)
                });
            }
            Self::Large {
                kind,
                claimant: (key, uid),
                entries,
            } => {
                let (api_version, kind) = kind.type_meta();
                let note = format!(
                    "It has {entries} resourceClaims, more than {MANY_ENTRIES}: they are made {REQUESTS_A_PASS} at a time, \
                     in turn with what others wait for"
                );
                tracing::warn!(%key, "{note}");
                let claimant = reference(api_version, kind, &key, &uid);
                let (reason, action) = ("ManyResourceClaims", "CreateResourceClaim");
                recorder.publish(Published::warning(claimant, reason, action, note));
            }
            Self::Undone => rival_writes.inc(),
            Self::Rival { contested, manager } => record_rival(&contested, &manager, recorder),
            Self::Created {
                owner,
                success,
                admin_access,
            } => creates.count(success, admin_access, owner),
        }
    }
}

fn record_rival(Contested { write, object, uid }: &Contested, manager: &str, recorder: &dyn Recorder) {
    let claim = ("resource.k8s.io/v1", "ResourceClaim");
    let ((api_version, kind), what, action) = match write {
        WriteKey::Recorded { kind, .. } => (
            kind.type_meta(),
            "keeps undoing what is written to status.resourceClaimStatuses",
            "RecordResourceClaims",
        ),
        WriteKey::Reserved { .. } => (
            claim,
            "keeps taking a pod that runs off status.reservedFor",
            "ReserveResourceClaim",
        ),
        WriteKey::Deleted { .. } => (
            claim,
            "keeps making ResourceClaims for a pod that is done",
            "DeleteResourceClaim",
        ),
    };
    let note = format!(
        "{manager} {what} of this and perhaps other objects; writes to them back off. Does the built-in resourceclaim \
         controller still run?"
    );
    tracing::warn!(%object, manager, "rival: {note}");
    let object = reference(api_version, kind, object, uid);
    recorder.publish(Published::warning(object, "RivalWriter", action, note));
}
