//! Queries and writes as data: the only files that name verbs and bodies.

mod queries;
mod writes;

use controller_core::controller::requests_to;
use controller_core::meta::ObjectKey;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use k8s_openapi::api::scheduling::v1beta1::PodGroup;
use kube_core::Request as Http;

pub use self::queries::{Answer, Query};
pub use self::writes::{Record, Write};
use crate::pod_group::{AlphaPodGroup, GroupVersion};
use crate::view::ClaimantKind;

/// Name of claims in messages.
const CLAIMS: &str = "resourceclaims.resource.k8s.io";
const CLAIMS_STATUS: &str = "resourceclaims.resource.k8s.io/status";
/// Name of templates in messages.
const TEMPLATES: &str = "resourceclaimtemplates.resource.k8s.io";

fn claims_in(namespace: Option<&str>) -> Http {
    requests_to::<ResourceClaim>(namespace)
}

/// The requests for objects of this kind, and their name in messages.
fn claimants(kind: ClaimantKind, key: &ObjectKey) -> (Http, &'static str) {
    let namespace = key.namespace.as_deref();
    match kind {
        ClaimantKind::Pod => (requests_to::<Pod>(namespace), "pods"),
        ClaimantKind::PodGroup(version) => {
            let http = match version {
                GroupVersion::V1Beta1 => requests_to::<PodGroup>(namespace),
                GroupVersion::V1Alpha2 => requests_to::<AlphaPodGroup>(namespace),
            };
            (http, "podgroups.scheduling.k8s.io")
        }
    }
}
