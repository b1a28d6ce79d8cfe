//! Writes.
//!
//! Each write to a claim names the uid and the resourceVersion that were judged, and only what it changes: other
//! finalizers, other reservations and unknown fields stay.
//!
//! | rule | function | test |
//! |---|---|---|
//! | RC-3 | `new_claim` | `tests/sync/claims/mod.rs::the_requests_of_one_pods_life` |
//! | RC-5 | `recorded` | `tests/sync/claims/mod.rs::a_claim_deleted_by_hand_comes_back_and_the_others_stay_recorded` |
//! | RC-8 | `reserved` | `tests/sync/reservations/mod.rs::a_pod_on_a_node_gets_its_claim_reserved` |
//! | RC-11 | `patch` | `tests/sync/reservations/extended.rs::a_write_that_races_the_scheduler_is_judged_again`, `tests/sync/reservations/ends.rs::other_finalizers_stay` |
//! | RC-12 | `released` | `tests/sync/reservations/ends.rs::an_allocated_claim_without_users_goes_when_it_is_deleted_and_not_before` |
//! | RC-13 | `delete` | `tests/sync/reservations/ends.rs::the_claim_of_a_pod_that_was_never_scheduled_is_deleted_with_it` |

use std::sync::Arc;

use controller_core::api::Verb;
use controller_core::controller::{self, Description, Object, Request};
use controller_core::meta::{ObjectKey, Uid};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube_core::params::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{CLAIMS, CLAIMS_STATUS, claimants, claims_in};
use crate::contested::WriteKey;
use crate::decide::{ClaimPlan, Create, FIELD_MANAGER, Reserve};
use crate::view::{
    ClaimStatus, ClaimView, ClaimantKind, Consumer, ConsumerKind, ENTRY_ANNOTATION, FINALIZER,
    SCHEDULING_GROUP,
};

/// A write. Equal writes are the same attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Make a claim from its template (RC-3).
    Create(Create),
    /// Record all claims of a pod or a group in its status (RC-5).
    Record(Record),
    /// Reserve a claim for one more consumer (RC-8).
    Reserve(Reserve),
    /// A step of giving the claim back (RC-11, RC-12, RC-13), if it is still as it was judged.
    GiveBack(Arc<ClaimView>, ClaimPlan),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub kind: ClaimantKind,
    /// The pod or group.
    pub key: ObjectKey,
    pub uid: Uid,
    /// All of `status.resourceClaimStatuses`.
    pub statuses: Vec<ClaimStatus>,
    /// The statuses that are not recorded yet.
    pub changed: Vec<ClaimStatus>,
}

/// A claim to be made.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewClaim<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: ObjectMeta,
    /// Copied from the template.
    spec: &'a RawValue,
}

impl Write {
    /// What another writer could undo of this write.
    pub fn keys(&self) -> Vec<WriteKey> {
        match self {
            Self::Record(Record {
                kind, uid, changed, ..
            }) => {
                let keys = changed
                    .iter()
                    .filter_map(|status| WriteKey::recorded(*kind, uid, status));
                keys.collect()
            }
            Self::Reserve(reserve) => vec![WriteKey::reserved(reserve)],
            Self::GiveBack(claim, ClaimPlan::Delete) => WriteKey::deleted(claim).into_iter().collect(),
            Self::Create(_) | Self::GiveBack(..) => Vec::new(),
        }
    }
}

impl controller::Write for Write {
    const PLANNED: &'static [&'static str] = &[
        "create-claim",
        "record-claims",
        "reserve-claim",
        "release-claim",
        "remove-finalizer",
        "delete-claim",
    ];

    fn request(&self) -> Request {
        match self {
            Self::Create(create) => {
                let claim = create.claim();
                let http = serde_json::to_vec(&new_claim(create, claim.name.to_string()))
                    .map_err(kube_core::request::Error::SerializeBody)
                    .and_then(|body| claims_of(&claim).create(&PostParams::default(), body));
                Request::new(Verb::Create, CLAIMS, &claim, http)
            }
            Self::Record(record) => {
                let params = PatchParams::apply(FIELD_MANAGER).force();
                let (http, _) = claimants(record.kind, &record.key);
                let body = Patch::Apply(recorded(record));
                let http = http.patch_subresource("status", &record.key.name, &params, &body);
                let resource = match record.kind {
                    ClaimantKind::Pod => "pods/status",
                    ClaimantKind::PodGroup(_) => "podgroups.scheduling.k8s.io/status",
                };
                Request::new(Verb::Patch, resource, &record.key, http)
            }
            Self::Reserve(reserve) => {
                let change = json!({ "status": { "reservedFor": [reserved(&reserve.consumer)] } });
                patch((&reserve.claim, &reserve.uid, &reserve.version), change)
            }
            Self::GiveBack(claim, step) => {
                let judged = (&claim.key, &claim.uid, &claim.version);
                match step {
                    ClaimPlan::Release {
                        gone,
                        all,
                        deallocate,
                    } => patch(judged, json!({ "status": released(gone, *all, *deallocate) })),
                    ClaimPlan::RemoveFinalizer => {
                        let finalizers = json!({ "$deleteFromPrimitiveList/finalizers": [FINALIZER] });
                        patch(judged, json!({ "metadata": finalizers }))
                    }
                    ClaimPlan::Delete => delete(judged),
                }
            }
        }
    }

    fn object(&self) -> Object {
        let (resource, key) = match self {
            Self::Create(create) => ("resourceclaims", create.claim()),
            Self::Reserve(reserve) => ("resourceclaims", reserve.claim.clone()),
            Self::GiveBack(claim, _) => ("resourceclaims", claim.key.clone()),
            Self::Record(Record { kind, key, .. }) => match kind {
                ClaimantKind::Pod => ("pods", key.clone()),
                ClaimantKind::PodGroup(_) => ("podgroups", key.clone()),
            },
        };
        Object { resource, key }
    }

    fn describe(&self) -> Description {
        let (action, text) = match self {
            Self::Create(create) => {
                let (_, kind) = create.kind.type_meta();
                let (entry, claimant) = (&create.entry, &create.claimant);
                let text = format!("ResourceClaim created for entry {entry} of {kind} {claimant}");
                ("create-claim", text)
            }
            Self::Record(record) => ("record-claims", format!("claims recorded: {}", told(record))),
            Self::Reserve(Reserve { consumer, .. }) => {
                let text = format!("ResourceClaim written: reserved for {consumer}");
                ("reserve-claim", text)
            }
            Self::GiveBack(claim, step) => given_back(claim, step),
        };
        Description { action, text }
    }
}

fn claims_of(claim: &ObjectKey) -> kube_core::Request {
    claims_in(claim.namespace.as_deref())
}

/// A strategic merge patch of a claim that is still in the state that was judged.
fn patch((claim, uid, version): (&ObjectKey, &Uid, &Arc<str>), mut change: Value) -> Request {
    let of_status = change.get("status").is_some();
    change["metadata"]["uid"] = json!(uid.to_string());
    change["metadata"]["resourceVersion"] = json!(**version);
    let (params, patch) = (PatchParams::default(), Patch::Strategic(change));
    let (resource, http) = if of_status {
        let http = claims_of(claim).patch_subresource("status", &claim.name, &params, &patch);
        (CLAIMS_STATUS, http)
    } else {
        (CLAIMS, claims_of(claim).patch(&claim.name, &params, &patch))
    };
    Request::new(Verb::Patch, resource, claim, http)
}

/// Deletes this very claim, not a later one of its name, nor one that is in use again.
fn delete((claim, uid, version): (&ObjectKey, &Uid, &Arc<str>)) -> Request {
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(uid.to_string()),
            resource_version: Some(version.to_string()),
        }),
        ..DeleteParams::default()
    };
    let http = claims_of(claim).delete(&claim.name, &params);
    Request::new(Verb::Delete, CLAIMS, claim, http)
}

fn new_claim(create: &Create, name: String) -> NewClaim<'_> {
    let template = &*create.template;
    let mut annotations = template.annotations.clone();
    annotations.insert(ENTRY_ANNOTATION.to_owned(), create.entry.to_string());
    let (api_version, kind) = create.kind.type_meta();
    NewClaim {
        api_version: "resource.k8s.io/v1",
        kind: "ResourceClaim",
        metadata: ObjectMeta {
            name: Some(name),
            generate_name: Some(create.generate_name()),
            labels: Some(template.labels.clone()).filter(|labels| !labels.is_empty()),
            annotations: Some(annotations),
            owner_references: Some(vec![OwnerReference {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                name: create.claimant.name.to_string(),
                uid: create.uid.to_string(),
                controller: Some(true),
                block_owner_deletion: None,
            }]),
            ..ObjectMeta::default()
        },
        spec: &template.spec,
    }
}

/// A server-side apply; the uid restricts it to this object.
fn recorded(record: &Record) -> Value {
    let (api_version, kind) = record.kind.type_meta();
    let statuses = record.statuses.iter().map(|status| {
        let mut entry = json!({ "name": *status.entry });
        if let Some(claim) = &status.claim {
            entry["resourceClaimName"] = json!(**claim);
        }
        entry
    });
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "namespace": record.key.namespace.as_deref(),
            "name": *record.key.name,
            "uid": record.uid.to_string(),
        },
        "status": { "resourceClaimStatuses": statuses.collect::<Vec<_>>() },
    })
}

fn reserved(consumer: &Consumer) -> Value {
    let mut entry = json!({
        "resource": "pods",
        "name": *consumer.name,
        "uid": consumer.uid.to_string(),
    });
    if consumer.kind == ConsumerKind::PodGroup {
        entry["apiGroup"] = json!(SCHEDULING_GROUP);
        entry["resource"] = json!("podgroups");
    }
    entry
}

fn released(gone: &[Uid], all: bool, deallocate: bool) -> Value {
    let gone = gone
        .iter()
        .map(|uid| json!({ "$patch": "delete", "uid": uid.to_string() }));
    let reserved = if all { Value::Null } else { gone.collect() };
    let mut status = json!({ "reservedFor": reserved });
    if deallocate {
        status["allocation"] = Value::Null;
    }
    status
}

fn told(record: &Record) -> String {
    let told = record.statuses.iter().map(|status| match &status.claim {
        Some(claim) => format!("{} is {claim}", status.entry),
        None => format!("{} needs none", status.entry),
    });
    told.collect::<Vec<_>>().join(", ")
}

fn given_back(claim: &ClaimView, step: &ClaimPlan) -> (&'static str, String) {
    match step {
        ClaimPlan::Release { gone, deallocate, .. } => {
            let names = claim.reserved.iter();
            let names = names.filter(|consumer| gone.contains(&consumer.uid));
            let names: Vec<_> = names.map(|consumer| &*consumer.name).collect();
            let what = match (names.join(", "), deallocate) {
                (names, _) if names.is_empty() => "its allocation is given back".to_owned(),
                (names, true) => format!("no longer reserved for {names}, its allocation is given back"),
                (names, false) => format!("no longer reserved for {names}"),
            };
            ("release-claim", format!("ResourceClaim written: {what}"))
        }
        ClaimPlan::RemoveFinalizer => (
            "remove-finalizer",
            "ResourceClaim written: finalizer removed, for nothing is allocated".to_owned(),
        ),
        ClaimPlan::Delete => {
            let pod = claim.owner.as_ref().map_or("", |owner| &owner.name);
            let text = format!("ResourceClaim deleted: pod {pod} needs it no more");
            ("delete-claim", text)
        }
    }
}
