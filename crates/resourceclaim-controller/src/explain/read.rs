//! What there is to explain, from the API server.

use std::sync::Arc;

use controller_core::api::{Call, CallFailed, Caller, Verb};
use controller_core::informer::Interner;
use controller_core::meta::ObjectKey;
use controller_core::runtime::Failure;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use kube::Resource;
use kube::api::ListParams;
use kube::core::Request;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Found, Name};
use crate::decide::{Being, Gates};
use crate::live::Live;
use crate::view::{ClaimView, ClaimWire, ConsumerKind, PodView, TemplateWire, beside};

#[derive(Deserialize)]
struct List<T> {
    items: Vec<T>,
}

/// Reads the pod and the claim of this name, and all that counts for them.
pub async fn find(
    client: &kube::Client,
    caller: &Caller,
    gates: Gates,
    key: &ObjectKey,
) -> Result<Found, Failure> {
    let interner = Interner::new();
    let live = Live::new(client.clone(), caller.clone(), Arc::clone(&interner));
    let mut found = Found {
        gates: live.gates(gates).await?,
        pod: live.pod(key).await?,
        claim: live.claim(key).await?,
        ..Found::default()
    };
    if let Some(pod) = &found.pod {
        let path = ResourceClaim::url_path(&(), key.namespace.as_deref());
        let claims = list::<ClaimWire>(client, caller, &path, "resourceclaims.resource.k8s.io", key);
        let claims = claims.await?.into_iter().map(|claim| claim.into_fresh(&interner));
        found.claims = claims.map(|claim| (claim.key.clone(), Arc::new(claim))).collect();
        let path = ResourceClaimTemplate::url_path(&(), key.namespace.as_deref());
        let templates = list::<TemplateWire>(
            client,
            caller,
            &path,
            "resourceclaimtemplates.resource.k8s.io",
            key,
        );
        // One that cannot be read is as good as missing, as it is to the controller.
        let templates = templates.await?.into_iter();
        let templates = templates.filter_map(|template| template.into_fresh(&interner).ok());
        found.templates = templates
            .map(|template| (template.key.clone(), Arc::new(template)))
            .collect();
        if let (Some(group), true) = (&pod.group, found.gates.workload_claims) {
            found.group = live.group(&beside(key, group)).await?;
        }
    }
    let of_pod: Vec<_> = found.pod.iter().flat_map(PodView::claims).collect();
    let of_pod = of_pod
        .iter()
        .filter_map(|name| found.claims.get(&beside(key, name)));
    let mut names: Vec<_> = of_pod
        .map(|claim| &**claim)
        .chain(&found.claim)
        .flat_map(names_in)
        .collect();
    names.sort_unstable_by(|(_, a), (_, b)| a.cmp(b));
    names.dedup();
    for name in names {
        let of = beside(key, &name.1);
        let being = match name.0 {
            ConsumerKind::Pod => live.pod(&of).await?.as_ref().map(Being::pod),
            ConsumerKind::PodGroup if found.gates.workload_claims => {
                live.group(&of).await?.as_ref().map(Being::group)
            }
            ConsumerKind::PodGroup | ConsumerKind::Other => None,
        };
        found.beings.extend(being.map(|being| (name, being)));
    }
    Ok(found)
}

/// For whom the claim is reserved, and the pod that controls it.
fn names_in(claim: &ClaimView) -> Vec<Name> {
    let consumers = claim.reserved.iter();
    let owner = claim
        .owning_pod()
        .map(|pod| (ConsumerKind::Pod, Arc::clone(&pod.name)));
    consumers
        .map(|consumer| (consumer.kind, Arc::clone(&consumer.name)))
        .chain(owner)
        .collect()
}

async fn list<T: DeserializeOwned>(
    client: &kube::Client,
    caller: &Caller,
    path: &str,
    resource: &'static str,
    key: &ObjectKey,
) -> Result<Vec<T>, CallFailed> {
    let call = Call {
        verb: Verb::List,
        resource,
        target: format!("in {}", key.namespace.as_deref().unwrap_or_default()),
    };
    let read = async {
        let request = Request::new(path).list(&ListParams::default());
        let request = request.map_err(kube::Error::BuildRequest)?;
        client.request::<List<T>>(request).await
    };
    Ok(caller.read(call, read).await?.items)
}
