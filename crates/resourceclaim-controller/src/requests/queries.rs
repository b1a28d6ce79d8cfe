//! Reads that bypass the cache.
//!
//! | rule | function | test |
//! |---|---|---|
//! | RC-9 | `Query` | `tests/sync/reservations/mod.rs::a_consumer_that_the_cache_does_not_show_keeps_its_reservation_if_it_is_there` |

use std::sync::Arc;

use controller_core::api::Verb;
use controller_core::cache::{Page, Versioned};
use controller_core::controller::{self, Request, requests_to};
use controller_core::meta::ObjectKey;
use controller_core::rival::manager_of;
use controller_core::version::ServerVersion;
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, ManagedFieldsEntry};
use kube_core::params::{GetParams, ListParams};
use kube_core::{PartialObjectMeta, Request as Http};
use serde::de::Error;
use serde_json::{from_slice, json};

use super::{CLAIMS, TEMPLATES, claimants, claims_in};
use crate::NAME;
use crate::contested::{Contested, WriteKey};
use crate::decide::{Being, ClaimantId};
use crate::pod_group::GroupVersion;
use crate::view::{
    AlphaPodGroupWire, ClaimView, ClaimWire, ClaimantKind, ClaimantView, PodGroupWire, PodWire,
    SCHEDULING_GROUP, TemplateView, TemplateWire,
};

/// A read that bypasses the cache.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Query {
    /// A claim, which the cache may not show yet.
    Claim(ObjectKey),
    /// A pod or a group, for the claims recorded in it.
    Claimant(ClaimantKind, ObjectKey),
    /// Which object has the name of this pod or group. The uid is part of the query, because an answer for another uid
    /// may be older than this one.
    Being(ClaimantId),
    /// The field manager that undoes this write of ours.
    Rival(Contested),
    /// The API server's version.
    Version,
    /// The served versions of the API group of `PodGroup`.
    Served,
    /// All claims of a namespace, for `explain`.
    Claims(Option<Arc<str>>),
    /// All templates of a namespace, for `explain`.
    Templates(Option<Arc<str>>),
}

/// The answer to a [`Query`].
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Claim(Versioned<ClaimView>),
    /// The pod or the group.
    Claimant(Versioned<ClaimantView>),
    /// The object with the name.
    Being(Being),
    /// A field manager, if the API server says so.
    Manager(Option<String>),
    /// The minor version of Kubernetes 1; `None` for another major version.
    Minor(Option<u32>),
    /// The newest version in which the API server has `PodGroups`.
    Served(Option<GroupVersion>),
    Claims(Vec<ClaimView>),
    /// The templates. One that cannot be read counts as missing, as for the controller.
    Templates(Vec<TemplateView>),
}

impl controller::Query for Query {
    type Answer = Answer;

    fn request(&self) -> Request {
        let get = |(http, resource): (Http, _), key: &ObjectKey| {
            let http = http.get(&key.name, &GetParams::default());
            Request::new(Verb::Get, resource, key, http)
        };
        let list = |http: Http, resource, namespace: &Option<Arc<str>>| {
            let target = format!("in {}", namespace.as_deref().unwrap_or_default());
            Request::new(Verb::List, resource, &target, http.list(&ListParams::default()))
        };
        let claim = |key: &ObjectKey| get((claims_in(key.namespace.as_deref()), CLAIMS), key);
        match self {
            Self::Claim(key) => claim(key).read_as::<ClaimWire>(),
            Self::Claimant(kind, key) | Self::Being(ClaimantId { kind, key, .. }) => {
                let request = get(claimants(*kind, key), key);
                match kind {
                    ClaimantKind::Pod => request.read_as::<PodWire>(),
                    ClaimantKind::PodGroup(GroupVersion::V1Beta1) => request.read_as::<PodGroupWire>(),
                    ClaimantKind::PodGroup(GroupVersion::V1Alpha2) => request.read_as::<AlphaPodGroupWire>(),
                }
            }
            Self::Rival(Contested { write, object, .. }) => match write {
                WriteKey::Recorded { kind, .. } => get(claimants(*kind, object), object),
                WriteKey::Reserved { .. } | WriteKey::Deleted { .. } => claim(object),
            },
            Self::Version => ServerVersion.request(),
            Self::Served => {
                let http = http::Request::get(format!("/apis/{SCHEDULING_GROUP}")).body(Vec::new());
                let http = http.map_err(kube_core::request::Error::BuildRequest);
                Request::new(Verb::Get, SCHEDULING_GROUP, &"", http)
            }
            Self::Claims(namespace) => {
                list(claims_in(namespace.as_deref()), CLAIMS, namespace).read_as::<ClaimWire>()
            }
            Self::Templates(namespace) => {
                let http = requests_to::<ResourceClaimTemplate>(namespace.as_deref());
                list(http, TEMPLATES, namespace)
            }
        }
    }

    fn read(&self, body: &[u8]) -> serde_json::Result<Answer> {
        let claimant = |kind: &ClaimantKind| match kind {
            ClaimantKind::Pod => Versioned::read_any::<PodWire>(body),
            ClaimantKind::PodGroup(GroupVersion::V1Beta1) => Versioned::read_any::<PodGroupWire>(body),
            ClaimantKind::PodGroup(GroupVersion::V1Alpha2) => Versioned::read_any::<AlphaPodGroupWire>(body),
        };
        Ok(match self {
            Self::Claim(_) => Answer::Claim(Versioned::read_any::<ClaimWire>(body)?),
            Self::Claimant(kind, _) => Answer::Claimant(claimant(kind)?),
            Self::Being(ClaimantId { kind, .. }) => Answer::Being(Being::of(&claimant(kind)?.view)),
            Self::Rival(contested) => {
                let written: PartialObjectMeta = from_slice(body)?;
                let written = written.metadata.managed_fields.unwrap_or_default();
                Answer::Manager(manager(&contested.write, written))
            }
            Self::Version => Answer::Minor(ServerVersion.read(body)?),
            Self::Served => {
                let served: APIGroup = from_slice(body)?;
                if served.name.is_empty() {
                    return Err(Error::custom("the answer is no APIGroup"));
                }
                let mut newest_first = GroupVersion::NEWEST_FIRST.into_iter();
                Answer::Served(newest_first.find(|version| {
                    let mut versions = served.versions.iter();
                    versions.any(|served| served.group_version == version.api_version())
                }))
            }
            Self::Claims(_) => Answer::Claims(views(Page::read::<ClaimWire>(body)?)),
            Self::Templates(_) => Answer::Templates(views(Page::read::<TemplateWire>(body)?)),
        })
    }
}

impl Answer {
    pub const fn claim(&self) -> Option<&Versioned<ClaimView>> {
        match self {
            Self::Claim(claim) => Some(claim),
            _ => None,
        }
    }

    /// The pod or the group.
    pub const fn claimant(&self) -> Option<&Versioned<ClaimantView>> {
        match self {
            Self::Claimant(claimant) => Some(claimant),
            _ => None,
        }
    }
}

/// The field manager that last wrote what `write` had written. The built-in loop uses the same name for statuses as we
/// do.
fn manager(write: &WriteKey, mut written: Vec<ManagedFieldsEntry>) -> Option<String> {
    match write {
        // The writer of the claim's name for the entry; without a name, the writer of the statuses.
        WriteKey::Recorded { entry, .. } => {
            let [status, list] = ["f:status", "f:resourceClaimStatuses"];
            let entry = format!("k:{}", json!({ "name": **entry }));
            let named = manager_of(&written, &[status, list, &entry, "f:resourceClaimName"]);
            named.or_else(|| manager_of(&written, &[status, list]))
        }
        WriteKey::Reserved { .. } => {
            written.retain(|entry| entry.manager.as_deref() != Some(NAME));
            manager_of(&written, &["f:status", "f:reservedFor"])
        }
        // The creator of the claim.
        WriteKey::Deleted { .. } => manager_of(&written, &["f:metadata", "f:ownerReferences"]),
    }
}

fn views<V>(page: Page<V>) -> Vec<V> {
    page.items.into_iter().map(|found| found.view).collect()
}
