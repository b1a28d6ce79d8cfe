//! What is read of the API server itself, past the cache: one object where the cache leaves a doubt, and at the start
//! what the server can do.
//!
//! | rule | function | test |
//! |---|---|---|
//! | RC-9 | `Live::pod`, `Live::group` | `tests/sync/reservations.rs::a_consumer_that_the_cache_does_not_show_keeps_its_reservation_if_it_is_there` |
//! | RC-7 | `Live::gates` | `tests/sync/gates.rs::admin_access_cannot_be_switched_off_from_1_36_on`, `tests/sync/gates.rs::before_1_36_admin_access_can_be_switched_off` |
//! | RC-17 | `Live::gates` | `tests/sync/groups.rs::where_groups_are_not_served_the_rest_works` |

use std::sync::Arc;

use controller_core::api::{Call, CallFailed, Caller, Outcome, Verb};
use controller_core::informer::Interner;
use controller_core::meta::ObjectKey;
use controller_core::rival::manager_of;
use http::Request;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use k8s_openapi::api::scheduling::v1alpha2::PodGroup;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::Resource;
use kube::api::GetParams;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::NAME;
use crate::decide::{ClaimantKind, Gates};
use crate::view::{ClaimView, ClaimWire, PodGroupView, PodGroupWire, PodView, PodWire};

/// The first minor version of Kubernetes 1 whose API server no longer lets admin access be switched off.
const ADMIN_ACCESS_LOCKED_SINCE: u32 = 36;
/// Where the API server lists what it serves of the group of `PodGroup`.
const GROUP_PATH: &str = "/apis/scheduling.k8s.io/v1alpha2";

/// Who wrote what of an object.
#[derive(Deserialize)]
struct Managed {
    #[serde(default)]
    metadata: ManagedMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManagedMetadata {
    #[serde(default)]
    managed_fields: Vec<ManagedFieldsEntry>,
}

/// Reads of the API server.
#[derive(Clone)]
pub struct Live {
    client: kube::Client,
    caller: Caller,
    interner: Arc<Interner>,
}

#[derive(Deserialize)]
struct Version {
    #[serde(default)]
    major: String,
    /// Some vendors' have a `+` behind it.
    #[serde(default)]
    minor: String,
}

#[derive(Deserialize)]
struct Served {
    #[serde(default)]
    resources: Vec<ServedResource>,
}

#[derive(Deserialize)]
struct ServedResource {
    #[serde(default)]
    name: String,
}

impl Live {
    /// Reads through `client`.
    pub fn new(client: kube::Client, caller: Caller, interner: Arc<Interner>) -> Self {
        Self {
            client,
            caller,
            interner,
        }
    }

    /// The claim of this name.
    pub async fn claim(&self, key: &ObjectKey) -> Result<Option<ClaimView>, CallFailed> {
        let path = ResourceClaim::url_path(&(), key.namespace.as_deref());
        let found = self
            .get::<ClaimWire>(&path, "resourceclaims.resource.k8s.io", key)
            .await?;
        Ok(found.map(|claim| claim.into_fresh(&self.interner)))
    }

    /// The pod of this name.
    pub async fn pod(&self, key: &ObjectKey) -> Result<Option<PodView>, CallFailed> {
        let path = Pod::url_path(&(), key.namespace.as_deref());
        let found = self.get::<PodWire>(&path, "pods", key).await?;
        Ok(found.map(|pod| pod.into_fresh(&self.interner)))
    }

    /// The `PodGroup` of this name.
    pub async fn group(&self, key: &ObjectKey) -> Result<Option<PodGroupView>, CallFailed> {
        let path = PodGroup::url_path(&(), key.namespace.as_deref());
        let found = self
            .get::<PodGroupWire>(&path, "podgroups.scheduling.k8s.io", key)
            .await?;
        Ok(found.map(|group| group.into_fresh(&self.interner)))
    }

    /// The field manager that wrote last which claim the status names for `entry`, or if it names none, that wrote
    /// last what it says of claims. Where the API server tells; the built-in loop has the same name as we.
    pub async fn manager_of_status(
        &self,
        kind: ClaimantKind,
        key: &ObjectKey,
        entry: &str,
    ) -> Result<Option<String>, CallFailed> {
        let namespace = key.namespace.as_deref();
        let (path, resource) = match kind {
            ClaimantKind::Pod => (Pod::url_path(&(), namespace), "pods"),
            ClaimantKind::PodGroup => (PodGroup::url_path(&(), namespace), "podgroups.scheduling.k8s.io"),
        };
        let written = self.managed_fields(&path, resource, key).await?;
        let list = ["f:status", "f:resourceClaimStatuses"];
        let entry = format!("k:{}", serde_json::json!({ "name": entry }));
        let named = manager_of(&written, &[list[0], list[1], &entry, "f:resourceClaimName"]);
        Ok(named.or_else(|| manager_of(&written, &list)))
    }

    /// The other field manager that wrote last for whom the claim is reserved, where the API server tells.
    pub async fn manager_of_reservations(&self, claim: &ObjectKey) -> Result<Option<String>, CallFailed> {
        let mut written = self.managed_fields_of_claim(claim).await?;
        written.retain(|entry| entry.manager.as_deref() != Some(NAME));
        Ok(manager_of(&written, &["f:status", "f:reservedFor"]))
    }

    /// The field manager that made the claim.
    pub async fn maker_of_claim(&self, claim: &ObjectKey) -> Result<Option<String>, CallFailed> {
        let written = self.managed_fields_of_claim(claim).await?;
        Ok(manager_of(&written, &["f:metadata", "f:ownerReferences"]))
    }

    async fn managed_fields_of_claim(
        &self,
        claim: &ObjectKey,
    ) -> Result<Vec<ManagedFieldsEntry>, CallFailed> {
        let path = ResourceClaim::url_path(&(), claim.namespace.as_deref());
        self.managed_fields(&path, "resourceclaims.resource.k8s.io", claim)
            .await
    }

    /// None of an object that is gone.
    async fn managed_fields(
        &self,
        path: &str,
        resource: &'static str,
        key: &ObjectKey,
    ) -> Result<Vec<ManagedFieldsEntry>, CallFailed> {
        let found = self.get::<Managed>(path, resource, key).await?;
        Ok(found
            .map(|found| found.metadata.managed_fields)
            .unwrap_or_default())
    }

    /// `asked` as far as the API server goes along: from 1.36 on admin access cannot be switched off (RC-7), and
    /// without `PodGroups` there are no claims of theirs (RC-17). Says so in the log.
    pub async fn gates(&self, asked: Gates) -> Result<Gates, CallFailed> {
        let mut gates = asked;
        if !asked.admin_access && self.locks_admin_access().await? {
            tracing::warn!(
                "DRAAdminAccess=false is ignored: from Kubernetes 1.36 on admin access cannot be switched off"
            );
            gates.admin_access = true;
        }
        if asked.workload_claims && !self.serves_groups().await? {
            tracing::warn!(
                "DRAWorkloadResourceClaims=true is ignored: the API server does not serve \
                 podgroups.scheduling.k8s.io/v1alpha2"
            );
            gates.workload_claims = false;
        }
        Ok(gates)
    }

    async fn locks_admin_access(&self) -> Result<bool, CallFailed> {
        let version: Option<Version> = self.get_path("/version", "version").await?;
        Ok(version.is_some_and(|version| {
            let minor = version.minor.trim_end_matches(|end: char| !end.is_ascii_digit());
            version.major == "1"
                && minor
                    .parse()
                    .is_ok_and(|minor: u32| minor >= ADMIN_ACCESS_LOCKED_SINCE)
        }))
    }

    async fn serves_groups(&self) -> Result<bool, CallFailed> {
        let served: Option<Served> = self.get_path(GROUP_PATH, "scheduling.k8s.io/v1alpha2").await?;
        let mut resources = served.into_iter().flat_map(|served| served.resources);
        Ok(resources.any(|resource| resource.name == "podgroups"))
    }

    /// The object of this name. Nothing only when the API server says that it is not there.
    async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        resource: &'static str,
        key: &ObjectKey,
    ) -> Result<Option<T>, CallFailed> {
        let call = Call {
            verb: Verb::Get,
            resource,
            target: key.to_string(),
        };
        let read = async {
            let request = kube::core::Request::new(path).get(&key.name, &GetParams::default());
            let request = request.map_err(kube::Error::BuildRequest)?;
            self.client.request::<T>(request).await
        };
        match self.caller.read(call, read).await {
            Ok(found) => Ok(Some(found)),
            Err(failed) if failed.outcome() == Outcome::Gone => Ok(None),
            Err(failed) => Err(failed),
        }
    }

    /// What stands at `path`; nothing when it is not served.
    async fn get_path<T: DeserializeOwned>(
        &self,
        path: &str,
        resource: &'static str,
    ) -> Result<Option<T>, CallFailed> {
        let call = Call {
            verb: Verb::Get,
            resource,
            target: String::new(),
        };
        let read = async {
            let request = Request::get(path)
                .body(Vec::new())
                .map_err(kube::Error::HttpError)?;
            match self.client.request::<T>(request).await {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
                answer => answer.map(Some),
            }
        };
        self.caller.read(call, read).await
    }
}
