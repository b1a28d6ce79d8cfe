//! Carries out plans: the only file that writes to the API.
//!
//! Each write to a claim insists on the uid and the resourceVersion that were judged, and names only what it changes:
//! other finalizers, other reservations and fields that we do not know stay.
//!
//! | rule | function | test |
//! |---|---|---|
//! | RC-3 | `Apply::create` | `tests/sync/claims.rs::the_requests_of_one_pods_life` |
//! | RC-5 | `Apply::record` | `tests/sync/claims.rs::a_claim_deleted_by_hand_comes_back_and_the_others_stay_recorded` |
//! | RC-8 | `Apply::reserve` | `tests/sync/reservations.rs::a_pod_on_a_node_gets_its_claim_reserved` |
//! | RC-11 | `Apply::step` | `tests/sync/reservations.rs::a_write_that_races_the_scheduler_is_judged_again`, `tests/sync/reservations.rs::other_finalizers_stay` |
//! | RC-12 | `Apply::step` | `tests/sync/reservations.rs::an_allocated_claim_without_users_goes_when_it_is_deleted_and_not_before` |
//! | RC-13 | `Apply::delete` | `tests/sync/reservations.rs::the_claim_of_a_pod_that_was_never_scheduled_is_deleted_with_it` |

use std::collections::BTreeMap;
use std::sync::Arc;

use controller_core::api::{Call, CallFailed, Caller, Outcome, Verb};
use controller_core::informer::Interner;
use controller_core::leader::Term;
use controller_core::meta::{ObjectKey, Uid};
use controller_core::metrics::PlannedWrites;
use controller_core::runtime::Env;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use k8s_openapi::api::scheduling::v1alpha2::PodGroup;
use kube::Resource;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::decide::{Claimant, ClaimantKind, Create, FIELD_MANAGER, Reserve, Step};
use crate::view::{
    ClaimStatus, ClaimView, ClaimWire, ConsumerKind, ENTRY_ANNOTATION, FINALIZER, SCHEDULING_GROUP,
};

/// The actions' names in metrics and logs.
const CREATE: &str = "create-claim";
const RECORD: &str = "record-claims";
const RESERVE: &str = "reserve-claim";
const RELEASE: &str = "release-claim";
const REMOVE_FINALIZER: &str = "remove-finalizer";
const DELETE: &str = "delete-claim";
/// What claims are called in messages.
const CLAIMS: &str = "resourceclaims.resource.k8s.io";
const CLAIMS_STATUS: &str = "resourceclaims.resource.k8s.io/status";

/// Writes, or in a dry run only says what it would write.
#[derive(Clone)]
pub struct Apply {
    client: kube::Client,
    caller: Caller,
    planned: PlannedWrites,
    interner: Arc<Interner>,
    dry_run: bool,
}

/// What came of a create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// The claim was made.
    Made(Arc<ClaimView>),
    /// A claim of that name exists.
    Exists,
    /// A dry run: nothing left the process.
    Planned,
}

/// What came of another write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied<T> {
    /// The API server accepted it; the object as it is since.
    Written(T),
    /// The object was gone, another has its name, or it went with this write.
    Gone,
    /// A dry run: nothing left the process.
    Planned,
}

/// A claim to be made.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewClaim<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: NewMetadata<'a>,
    /// As the template has it.
    spec: &'a RawValue,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewMetadata<'a> {
    name: &'a str,
    generate_name: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: &'a BTreeMap<String, String>,
    annotations: BTreeMap<&'a str, &'a str>,
    owner_references: [Value; 1],
}

impl Apply {
    /// Writes to the API server of `env`, or not at all in a dry run.
    pub fn new(env: &Env, interner: Arc<Interner>, dry_run: bool) -> Self {
        Self {
            client: env.client.clone(),
            caller: env.caller.clone(),
            planned: env.planned.clone(),
            interner,
            dry_run,
        }
    }

    /// Makes a claim from its template (RC-3).
    pub async fn create(&self, create: &Create, term: &Term) -> Result<Created, CallFailed> {
        let claim = create.claim();
        let (_, kind) = create.kind.type_meta();
        let (claimant, entry) = (&create.claimant, &create.entry);
        if self.only_plans(CREATE, &claim, || {
            format!("for entry {entry} of {kind} {claimant}")
        }) {
            return Ok(Created::Planned);
        }
        let request = async {
            let body =
                serde_json::to_vec(&new_claim(create, &claim.name)).map_err(kube::Error::SerdeError)?;
            let request = Request::new(claims(&claim)).create(&PostParams::default(), body);
            self.claim(request).await
        };
        match self.write(term, Verb::Create, CLAIMS, &claim, request).await {
            Ok(made) => {
                tracing::info!(%claim, action = CREATE, "ResourceClaim created for entry {entry} of {kind} {claimant}");
                Ok(Created::Made(Arc::new(made)))
            }
            Err(failed) if failed.outcome() == Outcome::AlreadyExists => Ok(Created::Exists),
            Err(failed) => Err(failed),
        }
    }

    /// Records all claims of a pod or a group in its status (RC-5).
    pub async fn record(
        &self,
        claimant: &Claimant<'_>,
        statuses: &[ClaimStatus],
        term: &Term,
    ) -> Result<Applied<()>, CallFailed> {
        let key = claimant.key;
        let told = || {
            let told = statuses.iter().map(|status| match &status.claim {
                Some(claim) => format!("{} is {claim}", status.entry),
                None => format!("{} needs none", status.entry),
            });
            told.collect::<Vec<_>>().join(", ")
        };
        if self.only_plans(RECORD, key, told) {
            return Ok(Applied::Planned);
        }
        let (path, resource) = match claimant.kind {
            ClaimantKind::Pod => (Pod::url_path(&(), key.namespace.as_deref()), "pods/status"),
            ClaimantKind::PodGroup => (
                PodGroup::url_path(&(), key.namespace.as_deref()),
                "podgroups.scheduling.k8s.io/status",
            ),
        };
        let request = async {
            let params = PatchParams::apply(FIELD_MANAGER).force();
            let body = Patch::Apply(recorded(claimant, statuses));
            let request = Request::new(path).patch_subresource("status", &key.name, &params, &body);
            let request = request.map_err(kube::Error::BuildRequest)?;
            self.client.request::<IgnoredAny>(request).await
        };
        match self.write(term, Verb::Patch, resource, key, request).await {
            Ok(_) => {
                tracing::info!(%key, action = RECORD, "claims recorded: {}", told());
                Ok(Applied::Written(()))
            }
            Err(failed) if failed.is_gone() => Ok(Applied::Gone),
            Err(failed) => Err(failed),
        }
    }

    /// Reserves a claim for one consumer more (RC-8).
    pub async fn reserve(
        &self,
        reserve: &Reserve,
        term: &Term,
    ) -> Result<Applied<Arc<ClaimView>>, CallFailed> {
        let consumer = &reserve.consumer;
        let mut entry = json!({
            "resource": "pods",
            "name": *consumer.name,
            "uid": consumer.uid.to_string(),
        });
        if consumer.kind == ConsumerKind::PodGroup {
            entry["apiGroup"] = json!(SCHEDULING_GROUP);
            entry["resource"] = json!("podgroups");
        }
        let change = json!({ "status": { "reservedFor": [entry] } });
        let judged = (&reserve.claim, &reserve.uid, &reserve.version);
        let kind = match consumer.kind {
            ConsumerKind::PodGroup => "PodGroup",
            ConsumerKind::Pod | ConsumerKind::Other => "pod",
        };
        let told = || format!("reserved for {kind} {}", consumer.name);
        self.patch(RESERVE, judged, change.clone(), told, term).await
    }

    /// Does one step of giving `claim` back (RC-11, RC-12, RC-13).
    pub async fn step(
        &self,
        claim: &ClaimView,
        step: &Step,
        term: &Term,
    ) -> Result<Applied<Arc<ClaimView>>, CallFailed> {
        let judged = (&claim.key, &claim.uid, &claim.version);
        match step {
            Step::Release {
                gone,
                all,
                deallocate,
            } => {
                let mut status = json!({});
                if *all {
                    status["reservedFor"] = Value::Null;
                } else {
                    let gone = gone
                        .iter()
                        .map(|uid| json!({ "$patch": "delete", "uid": uid.to_string() }));
                    status["reservedFor"] = Value::Array(gone.collect());
                }
                if *deallocate {
                    status["allocation"] = Value::Null;
                }
                let told = || {
                    let names = claim
                        .reserved
                        .iter()
                        .filter(|consumer| gone.contains(&consumer.uid));
                    let names: Vec<_> = names.map(|consumer| &*consumer.name).collect();
                    match (names.join(", "), deallocate) {
                        (names, _) if names.is_empty() => "its allocation is given back".to_owned(),
                        (names, true) => {
                            format!("no longer reserved for {names}, its allocation is given back")
                        }
                        (names, false) => format!("no longer reserved for {names}"),
                    }
                };
                self.patch(RELEASE, judged, json!({ "status": status }), told, term)
                    .await
            }
            Step::RemoveFinalizer => {
                let change = json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": [FINALIZER] } });
                let told = || "finalizer removed, for nothing is allocated".to_owned();
                self.patch(REMOVE_FINALIZER, judged, change, told, term).await
            }
            Step::Delete => self.delete(claim, term).await,
        }
    }

    /// A strategic merge patch of a claim that is still in the state that was judged.
    async fn patch(
        &self,
        action: &'static str,
        (claim, uid, version): (&ObjectKey, &Uid, &Arc<str>),
        mut change: Value,
        told: impl Fn() -> String,
        term: &Term,
    ) -> Result<Applied<Arc<ClaimView>>, CallFailed> {
        if self.only_plans(action, claim, &told) {
            return Ok(Applied::Planned);
        }
        let of_status = change.get("status").is_some();
        change["metadata"]["uid"] = json!(uid.to_string());
        change["metadata"]["resourceVersion"] = json!(**version);
        let request = async {
            let (request, params) = (Request::new(claims(claim)), PatchParams::default());
            let patch = Patch::Strategic(change);
            self.claim(if of_status {
                request.patch_subresource("status", &claim.name, &params, &patch)
            } else {
                request.patch(&claim.name, &params, &patch)
            })
            .await
        };
        let resource = if of_status { CLAIMS_STATUS } else { CLAIMS };
        match self.write(term, Verb::Patch, resource, claim, request).await {
            Ok(written) => {
                tracing::info!(%claim, action, "ResourceClaim written: {}", told());
                Ok(Applied::Written(Arc::new(written)))
            }
            Err(failed) if failed.is_gone() => Ok(Applied::Gone),
            Err(failed) => Err(failed),
        }
    }

    /// Deletes the claim, and no later one of its name, nor one that is in use again.
    async fn delete(&self, judged: &ClaimView, term: &Term) -> Result<Applied<Arc<ClaimView>>, CallFailed> {
        let claim = &judged.key;
        let told = || {
            let pod = judged.owner.as_ref().map_or("", |owner| &owner.name);
            format!("pod {pod} needs it no more")
        };
        if self.only_plans(DELETE, claim, told) {
            return Ok(Applied::Planned);
        }
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(judged.uid.to_string()),
                resource_version: Some(judged.version.to_string()),
            }),
            ..DeleteParams::default()
        };
        let request = async {
            let request = Request::new(claims(claim)).delete(&claim.name, &params);
            self.claim(request).await
        };
        match self.write(term, Verb::Delete, CLAIMS, claim, request).await {
            Ok(left) => {
                tracing::info!(%claim, action = DELETE, "ResourceClaim deleted: {}", told());
                // The answer is the claim while a finalizer holds it, else its last state or a `Status`.
                let stays = left.uid == judged.uid && left.deleting.is_some();
                Ok(if stays {
                    Applied::Written(Arc::new(left))
                } else {
                    Applied::Gone
                })
            }
            Err(failed) if failed.is_gone() => Ok(Applied::Gone),
            Err(failed) => Err(failed),
        }
    }

    /// Whether this is a dry run; the plan is then counted and logged.
    fn only_plans(&self, action: &'static str, object: &ObjectKey, told: impl Fn() -> String) -> bool {
        if self.dry_run {
            self.planned.count(action);
            tracing::info!(%object, action, "dry run, not written: {}", told());
        }
        self.dry_run
    }

    async fn claim(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> kube::Result<ClaimView> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        let answer = self.client.request::<ClaimWire>(request).await?;
        Ok(answer.into_fresh(&self.interner))
    }

    async fn write<T>(
        &self,
        term: &Term,
        verb: Verb,
        resource: &'static str,
        target: &ObjectKey,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, CallFailed> {
        let call = Call {
            verb,
            resource,
            target: target.to_string(),
        };
        self.caller.write(term, call, request).await
    }
}

fn claims(claim: &ObjectKey) -> String {
    ResourceClaim::url_path(&(), claim.namespace.as_deref())
}

fn new_claim<'a>(create: &'a Create, name: &'a str) -> NewClaim<'a> {
    let template = &*create.template;
    let annotations = template.annotations.iter();
    let mut annotations: BTreeMap<&str, &str> = annotations
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    annotations.insert(ENTRY_ANNOTATION, &create.entry);
    let (api_version, kind) = create.kind.type_meta();
    NewClaim {
        api_version: "resource.k8s.io/v1",
        kind: "ResourceClaim",
        metadata: NewMetadata {
            name,
            generate_name: create.generate_name(),
            labels: &template.labels,
            annotations,
            owner_references: [json!({
                "apiVersion": api_version,
                "kind": kind,
                "name": *create.claimant.name,
                "uid": create.uid.to_string(),
                "controller": true,
            })],
        },
        spec: &template.spec,
    }
}

/// The uid makes it an apply to this object alone.
fn recorded(claimant: &Claimant<'_>, statuses: &[ClaimStatus]) -> Value {
    let (api_version, kind) = claimant.kind.type_meta();
    let statuses = statuses.iter().map(|status| {
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
            "namespace": claimant.key.namespace.as_deref(),
            "name": *claimant.key.name,
            "uid": claimant.uid.to_string(),
        },
        "status": { "resourceClaimStatuses": statuses.collect::<Vec<_>>() },
    })
}
