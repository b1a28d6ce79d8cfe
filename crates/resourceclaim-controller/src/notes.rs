//! What is said in events: when an entry begins to fail, when a claim is full, and when another writer keeps undoing what
//! we write; not at every sync.
//!
//! | rule | function | test |
//! |---|---|---|
//! | RC-6 | `Notes::entries` | `tests/sync/claims.rs::a_missing_template_is_told_once_and_its_creation_helps_at_once` |
//! | RC-8 | `Notes::full` | `tests/sync/reservations.rs::a_full_claim_is_told_once_and_waited_for` |

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use controller_core::events::{Event, EventType, Recorder, reference};
use controller_core::meta::{ObjectKey, Uid};
use k8s_openapi::api::core::v1::ObjectReference;
use parking_lot::Mutex;

use crate::decide::{Claimant, ClaimantKind, RESERVED_FOR_MAX_SIZE};
use crate::error::EntryError;
use crate::view::{ClaimView, PodView};

/// Publishes the events.
pub struct Notes {
    events: Recorder,
    failing: Mutex<HashMap<(ClaimantKind, ObjectKey), Failing>>,
    /// The claims that were told to be full.
    full: Mutex<HashMap<ObjectKey, Uid>>,
}

/// What of ours another writer keeps undoing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undone {
    /// What a status says of claims.
    Status,
    /// The reservation of a claim.
    Reservation,
    /// The deletion of the claim of a pod that is done.
    Deletion,
}

/// Why the entries of an object have no claims, as it was last told.
#[derive(Debug)]
struct Failing {
    uid: Uid,
    told: BTreeMap<Arc<str>, String>,
}

impl Notes {
    /// Publishes through `events`.
    pub fn new(events: Recorder) -> Self {
        Self {
            events,
            failing: Mutex::default(),
            full: Mutex::default(),
        }
    }

    /// These are the entries that fail now: what is new about it is told.
    pub fn entries(&self, claimant: &Claimant<'_>, failures: &[(Arc<str>, EntryError)]) {
        let news = failures.iter().filter(|(_, error)| error.is_news());
        let now: BTreeMap<_, _> = news
            .map(|(entry, error)| (Arc::clone(entry), error.to_string()))
            .collect();
        let place = (claimant.kind, claimant.key.clone());
        let before = {
            let mut failing = self.failing.lock();
            if now.is_empty() {
                // What failed only for a moment is no end of what was told.
                if failures.is_empty() {
                    failing.remove(&place);
                }
                return;
            }
            failing.insert(
                place,
                Failing {
                    uid: claimant.uid.clone(),
                    told: now.clone(),
                },
            )
        };
        let before = before.filter(|before| before.uid == *claimant.uid);
        let was_told = |entry: &Arc<str>, why: &String| {
            before
                .as_ref()
                .is_some_and(|before| before.told.get(entry) == Some(why))
        };
        let (api_version, kind) = claimant.kind.type_meta();
        for (entry, why) in now.iter().filter(|(entry, why)| !was_told(entry, why)) {
            let note = format!("{kind}ResourceClaim {entry}: {why}");
            tracing::warn!(key = %claimant.key, "{note}");
            self.events.publish(Event {
                regarding: reference(api_version, kind, claimant.key, claimant.uid),
                related: None,
                type_: EventType::Warning,
                reason: "FailedResourceClaimCreation",
                action: "CreateResourceClaim",
                note,
            });
        }
    }

    /// Nothing more is to be said of a pod or a group.
    pub fn forget(&self, kind: ClaimantKind, key: &ObjectKey) {
        self.failing.lock().remove(&(kind, key.clone()));
    }

    /// `pod` needs `claim`, which has no room for it.
    pub fn full(&self, claim: &ClaimView, pod: &PodView) {
        let told = self.full.lock().insert(claim.key.clone(), claim.uid.clone());
        if told.is_some_and(|told| told == claim.uid) {
            return;
        }
        let note = format!(
            "It is reserved for {RESERVED_FOR_MAX_SIZE} consumers, more than which it cannot have: pod {} waits for one \
             of them to be done",
            pod.key.name
        );
        tracing::warn!(claim = %claim.key, "{note}");
        self.events.publish(Event {
            regarding: reference("resource.k8s.io/v1", "ResourceClaim", &claim.key, &claim.uid),
            related: Some(reference("v1", "Pod", &pod.key, &pod.uid)),
            type_: EventType::Warning,
            reason: "ResourceClaimFull",
            action: "ReserveResourceClaim",
            note,
        });
    }

    /// `manager` keeps undoing something of ours, here and perhaps elsewhere (CORE-17).
    pub fn rival(&self, undone: Undone, regarding: ObjectReference, manager: &str) {
        let (what, action) = match undone {
            Undone::Status => (
                "keeps undoing what is written to status.resourceClaimStatuses",
                "RecordResourceClaims",
            ),
            Undone::Reservation => (
                "keeps taking a pod that runs off status.reservedFor",
                "ReserveResourceClaim",
            ),
            Undone::Deletion => (
                "keeps making ResourceClaims for a pod that is done",
                "DeleteResourceClaim",
            ),
        };
        let note = format!(
            "{manager} {what} of this and perhaps other objects; writes to them back off. Does the built-in \
             resourceclaim controller still run?"
        );
        let name = regarding.name.as_deref().unwrap_or_default();
        let namespace = regarding.namespace.as_deref().unwrap_or_default();
        tracing::warn!(object = %format_args!("{namespace}/{name}"), manager, "rival: {note}");
        self.events.publish(Event {
            regarding,
            related: None,
            type_: EventType::Warning,
            reason: "RivalWriter",
            action,
            note,
        });
    }

    /// A claim has room again, or is gone.
    pub fn has_room(&self, claim: &ObjectKey) {
        self.full.lock().remove(claim);
    }
}
