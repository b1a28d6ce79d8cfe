//! The tables as an API server stores them.

use controller_core::controller::{Now, RequestOf, Write as _};
use controller_core::meta::ObjectKey;
use embedded_apiserver::{POD_GROUPS, PODS, RESOURCE_CLAIMS, Server as Embedded};
use jiff::Timestamp;
use resourceclaim_controller::ResourceClaimController;
use resourceclaim_controller::decide::{ClaimantId, FIELD_MANAGER};
use resourceclaim_controller::requests::{Query, Write};
use resourceclaim_controller::view::{
    ClaimSource, ClaimView, ClaimWire, ClaimantView, ConsumerKind, ENTRY_ANNOTATION, FINALIZER, PodGroupWire,
    PodWire, SCHEDULING_GROUP,
};
use serde_json::{Map, Value, json};

use super::{Server, is_group};

/// The object that a request is about.
enum Concerned<'a> {
    Claim(ObjectKey),
    Claimant(&'a ObjectKey),
}

impl Server {
    /// With the object that `ask` is about; `None` for requests about none, and where the API server chooses a uid.
    pub(crate) fn as_stored(&self, ask: &RequestOf<ResourceClaimController>, now: Now) -> Option<Embedded> {
        let concerned = concerned(ask).filter(|_| self.bug.is_none())?;
        let (objects, next): (Vec<_>, _) = match &concerned {
            Concerned::Claim(of) => {
                let claims = self
                    .claims
                    .stored(|key| key == of, |claim| claim_fields(&claim.view));
                (claims.collect(), self.claims.next_version())
            }
            Concerned::Claimant(of) => {
                let table = if is_group(of) { &self.groups } else { &self.pods };
                let held = table.stored(|key| key == *of, |held| claimant_fields(&held.view));
                (held.collect(), table.next_version())
            }
        };
        if objects.is_empty() && matches!(ask, RequestOf::Write(Write::Create(_))) {
            return None;
        }
        let server = Embedded::new(move || now.wall);
        server.serve(&POD_GROUPS);
        server.restore(objects, next - 1).unwrap();
        Some(server)
    }

    pub(crate) fn compare_stored(
        &self,
        ask: &RequestOf<ResourceClaimController>,
        server: &Embedded,
    ) -> Result<(), String> {
        match concerned(ask) {
            Some(Concerned::Claim(of)) => {
                self.claims
                    .compare_with::<ClaimWire>(server, &RESOURCE_CLAIMS, |claim| {
                        let mut claim = claim.clone();
                        // The time of a deletion is not the model's, nor is the order in which a patch adds.
                        claim.deleting = claim.deleting.map(|_| Timestamp::UNIX_EPOCH);
                        claim.reserved.sort_by(|a, b| a.uid.cmp(&b.uid));
                        (claim.key == of).then_some(claim)
                    })
            }
            Some(Concerned::Claimant(of)) => {
                let only = |held: &ClaimantView| (held.key == *of).then(|| held.clone());
                if is_group(of) {
                    self.groups
                        .compare_with::<PodGroupWire>(server, &POD_GROUPS, only)
                } else {
                    self.pods.compare_with::<PodWire>(server, &PODS, only)
                }
            }
            None => Ok(()),
        }
    }
}

fn concerned(ask: &RequestOf<ResourceClaimController>) -> Option<Concerned<'_>> {
    Some(match ask {
        RequestOf::Query(Query::Claim(key)) => Concerned::Claim(key.clone()),
        RequestOf::Query(Query::Claimant(_, key) | Query::Being(ClaimantId { key, .. })) => {
            Concerned::Claimant(key)
        }
        RequestOf::Query(_) => return None,
        RequestOf::Write(Write::Record(record)) => Concerned::Claimant(&record.key),
        RequestOf::Write(write) => Concerned::Claim(write.object().key),
    })
}

fn claim_fields(claim: &ClaimView) -> Value {
    let owner = claim.owner.as_deref().map(|owner| {
        json!({
            "apiVersion": *owner.api_version, "kind": *owner.kind, "name": *owner.name,
            "uid": owner.uid.to_string(), "controller": true,
        })
    });
    let consumers = claim.reserved.iter().map(|consumer| {
        let (group, resource) = match consumer.kind {
            ConsumerKind::Pod => ("", "pods"),
            ConsumerKind::PodGroup => (SCHEDULING_GROUP, "podgroups"),
            ConsumerKind::Other => ("example.com", "others"),
        };
        json!({ "apiGroup": group, "resource": resource, "name": *consumer.name, "uid": consumer.uid.to_string() })
    });
    let entry = claim
        .entry
        .as_deref()
        .map(|entry| json!({ ENTRY_ANNOTATION: entry }));
    let request = json!({ "name": "r", "exactly": { "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1 } });
    let device = json!({ "request": "r", "driver": "gpu.example.com", "pool": "node", "device": "gpu-0" });
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {
            "annotations": entry, "ownerReferences": owner.as_slice(), "deletionTimestamp": claim.deleting,
            "finalizers": claim.finalizer.then_some([FINALIZER]),
        },
        "spec": { "devices": { "requests": [request] } },
        "status": {
            "allocation": claim.allocated.then(|| json!({ "devices": { "results": [device] } })),
            "reservedFor": consumers.collect::<Vec<_>>(),
        },
    })
}

/// The statuses are those of our last apply.
fn claimant_fields(held: &ClaimantView) -> Value {
    let (api_version, kind) = held.kind.type_meta();
    let entries = held.entries.iter().map(|entry| match &entry.source {
        ClaimSource::Claim(claim) => json!({ "name": *entry.name, "resourceClaimName": **claim }),
        ClaimSource::Template(template) => {
            json!({ "name": *entry.name, "resourceClaimTemplateName": **template })
        }
        ClaimSource::Unknown => json!({ "name": *entry.name }),
    });
    let statuses = held.statuses.iter();
    let statuses = statuses.map(|status| json!({ "name": *status.entry, "resourceClaimName": status.claim }));
    let owned = held.statuses.iter().map(|status| {
        let key = format!("k:{}", json!({ "name": *status.entry }));
        (key, json!({ ".": {}, "f:name": {}, "f:resourceClaimName": {} }))
    });
    let owned = json!({ "f:status": { "f:resourceClaimStatuses": owned.collect::<Map<_, _>>() } });
    let mut fields = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {
            "deletionTimestamp": held.deleting.then_some(Timestamp::UNIX_EPOCH),
            "deletionGracePeriodSeconds": held.deleting.then_some(30),
            "managedFields": [{
                "manager": FIELD_MANAGER, "operation": "Apply", "apiVersion": api_version, "subresource": "status",
                "fieldsType": "FieldsV1", "fieldsV1": owned,
            }],
        },
        "spec": { "resourceClaims": entries.collect::<Vec<_>>() },
        "status": { "resourceClaimStatuses": statuses.collect::<Vec<_>>() },
    });
    if !is_group(&held.key) {
        fields["spec"]["containers"] = json!([{ "name": "c", "image": "i" }]);
        fields["spec"]["nodeName"] = json!(held.node);
        fields["spec"]["schedulingGroup"] =
            json!(held.group.as_deref().map(|name| json!({ "podGroupName": name })));
        fields["status"]["phase"] = json!(if held.over { "Succeeded" } else { "Running" });
    }
    fields
}
