//! The decoded objects, and how they become views.

use std::collections::BTreeMap;
use std::sync::Arc;

use controller_core::cache::protobuf::Message;
use controller_core::cache::{DecodeError, Identity, Interned, OwnerWire, Wire, share};
use controller_core::meta::Uid;
use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::messages::{CLAIM, POD};
use super::{
    ClaimOrigin, ClaimSource, ClaimStatus, ClaimView, ClaimantKind, ClaimantView, Consumer, ConsumerKind,
    Entry, FINALIZER, SCHEDULING_GROUP, TemplateView,
};
use crate::pod_group::GroupVersion;

/// The decoded part of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodWire {
    metadata: Metadata,
    spec: PodSpec,
    status: PodStatus,
}

/// The decoded part of a `PodGroup`, whose entries and their claims are at the same paths as a pod's.
#[derive(Clone, Debug, Deserialize)]
pub struct PodGroupWire(PodWire);

/// A `PodGroup` of [`GroupVersion::V1Alpha2`].
#[derive(Clone, Debug, Deserialize)]
pub struct AlphaPodGroupWire(PodWire);

/// The decoded part of a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClaimWire {
    metadata: Metadata,
    spec: ClaimSpec,
    status: ClaimStatusWire,
}

/// The decoded part of a template.
#[derive(Clone, Debug, Deserialize)]
pub struct TemplateWire {
    #[serde(default)]
    spec: TemplateSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    annotations: Option<Annotations>,
    finalizers: Option<Vec<String>>,
    owner_references: Option<Vec<OwnerWire>>,
    #[serde(deserialize_with = "deletion")]
    deletion_timestamp: Option<Timestamp>,
}

/// The annotations that are read; serde skips the rest.
#[derive(Clone, Debug, Default, Deserialize)]
struct Annotations {
    #[serde(rename = "resource.kubernetes.io/pod-claim-name")]
    entry: Option<Interned>,
    #[serde(rename = "resource.kubernetes.io/extended-resource-claim")]
    extended: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: Option<Interned>,
    resource_claims: Option<Vec<EntryWire>>,
    scheduling_group: Option<SchedulingGroup>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntryWire {
    #[serde(default)]
    name: Interned,
    resource_claim_name: Option<Interned>,
    resource_claim_template_name: Option<Interned>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SchedulingGroup {
    pod_group_name: Option<Interned>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: Option<String>,
    resource_claim_statuses: Option<Vec<EntryStatus>>,
    extended_resource_claim_status: Option<ExtendedStatus>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntryStatus {
    #[serde(default)]
    name: Interned,
    resource_claim_name: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExtendedStatus {
    #[serde(default)]
    resource_claim_name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct ClaimSpec {
    devices: Option<Devices>,
}

#[derive(Clone, Debug, Deserialize)]
struct Devices {
    requests: Option<Vec<DeviceRequest>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeviceRequest {
    exactly: Option<ExactRequest>,
    first_available: Option<Vec<IgnoredAny>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExactRequest {
    admin_access: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimStatusWire {
    allocation: Option<IgnoredAny>,
    reserved_for: Option<Vec<ConsumerWire>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ConsumerWire {
    api_group: Option<String>,
    resource: String,
    name: Interned,
    uid: Uid,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct TemplateSpec {
    #[serde(default)]
    metadata: TemplateMetadata,
    spec: Option<Box<RawValue>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct TemplateMetadata {
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

/// Any deletionTimestamp means that the object is being deleted; one that cannot be represented lies in the far future.
fn deletion<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.map(|text| text.parse().unwrap_or(Timestamp::MAX)))
}

impl Annotations {
    fn origin(&self) -> ClaimOrigin {
        if self.extended.as_deref() == Some("true") {
            ClaimOrigin::Extended
        } else if self.entry.as_ref().is_some_and(|entry| !entry.is_empty()) {
            ClaimOrigin::Template
        } else {
            ClaimOrigin::User
        }
    }
}

impl PodWire {
    fn into_group(self, group: Identity, version: GroupVersion) -> Result<ClaimantView, DecodeError> {
        Ok(ClaimantView {
            kind: ClaimantKind::PodGroup(version),
            node: None,
            extended: None,
            group: None,
            over: false,
            ..self.into_view(group)?
        })
    }
}

impl PodSpec {
    fn entries(&mut self) -> Arc<Vec<Entry>> {
        let entries = self.resource_claims.take().into_iter().flatten();
        let mut entries: Vec<_> = entries.map(EntryWire::into_entry).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        share(entries)
    }
}

impl EntryWire {
    fn into_entry(self) -> Entry {
        Entry {
            name: self.name.into(),
            source: match (self.resource_claim_name, self.resource_claim_template_name) {
                (Some(claim), _) => ClaimSource::Claim(claim.into()),
                (None, Some(template)) => ClaimSource::Template(template.into()),
                (None, None) => ClaimSource::Unknown,
            },
        }
    }
}

impl PodStatus {
    fn statuses(&mut self) -> Box<[ClaimStatus]> {
        let statuses = self.resource_claim_statuses.take().into_iter().flatten();
        let statuses = statuses.map(|status| ClaimStatus {
            entry: status.name.into(),
            claim: status.resource_claim_name.map(Arc::from),
        });
        let mut statuses: Box<[_]> = statuses.collect();
        statuses.sort_by(|a, b| a.entry.cmp(&b.entry));
        statuses
    }
}

impl ClaimSpec {
    fn requests(&self) -> impl Iterator<Item = &DeviceRequest> {
        let requests = self
            .devices
            .iter()
            .filter_map(|devices| devices.requests.as_ref());
        requests.flatten()
    }

    fn admin_access(&self) -> bool {
        // The alternatives of a prioritized list cannot ask for it.
        let mut exact = self.requests().filter_map(|request| request.exactly.as_ref());
        exact.any(|request| request.admin_access == Some(true))
    }

    fn prioritized_list(&self) -> bool {
        let mut lists = self
            .requests()
            .filter_map(|request| request.first_available.as_ref());
        lists.any(|alternatives| !alternatives.is_empty())
    }
}

impl ConsumerWire {
    fn into_consumer(self) -> Consumer {
        Consumer {
            kind: match (self.api_group.as_deref().unwrap_or_default(), &*self.resource) {
                ("", "pods") => ConsumerKind::Pod,
                (SCHEDULING_GROUP, "podgroups") => ConsumerKind::PodGroup,
                _ => ConsumerKind::Other,
            },
            name: self.name.into(),
            uid: self.uid,
        }
    }
}

impl Wire for PodWire {
    type View = ClaimantView;

    const MESSAGE: Option<Message> = Some(POD);

    /// A pod without claims concerns no rule (RC-16).
    fn is_kept(&self) -> bool {
        let entries = self.spec.resource_claims.as_ref();
        entries.is_some_and(|entries| !entries.is_empty())
            || self.status.extended_resource_claim_status.is_some()
    }

    fn into_view(mut self, pod: Identity) -> Result<ClaimantView, DecodeError> {
        let node = self.spec.node_name.take().filter(|node| !node.is_empty());
        let group = self.spec.scheduling_group.take();
        let group = group.and_then(|group| group.pod_group_name);
        let extended = self.status.extended_resource_claim_status.take();
        Ok(ClaimantView {
            kind: ClaimantKind::Pod,
            key: pod.key,
            uid: pod.uid,
            node: node.map(Arc::from),
            entries: self.spec.entries(),
            statuses: self.status.statuses(),
            extended: extended.map(|status| status.resource_claim_name.into()),
            group: group.map(Arc::from),
            over: matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed")),
            deleting: self.metadata.deletion_timestamp.is_some(),
        })
    }
}

impl Wire for PodGroupWire {
    type View = ClaimantView;

    fn into_view(self, group: Identity) -> Result<ClaimantView, DecodeError> {
        self.0.into_group(group, GroupVersion::V1Beta1)
    }
}

impl Wire for AlphaPodGroupWire {
    type View = ClaimantView;

    fn into_view(self, group: Identity) -> Result<ClaimantView, DecodeError> {
        self.0.into_group(group, GroupVersion::V1Alpha2)
    }
}

impl Wire for ClaimWire {
    type View = ClaimView;

    const MESSAGE: Option<Message> = Some(CLAIM);

    fn into_view(self, claim: Identity) -> Result<ClaimView, DecodeError> {
        let metadata = self.metadata;
        let annotations = metadata.annotations.unwrap_or_default();
        let owner = metadata.owner_references.and_then(OwnerWire::controller);
        let consumers = self.status.reserved_for.into_iter().flatten();
        let mut finalizers = metadata.finalizers.into_iter().flatten();
        Ok(ClaimView {
            key: claim.key,
            uid: claim.uid,
            version: claim.version.unwrap_or_default(),
            owner: owner.map(Arc::new),
            reserved: consumers.map(ConsumerWire::into_consumer).collect(),
            deleting: metadata.deletion_timestamp,
            finalizer: finalizers.any(|finalizer| finalizer == FINALIZER),
            allocated: self.status.allocation.is_some(),
            admin_access: self.spec.admin_access(),
            origin: annotations.origin(),
            entry: annotations.entry.map(Arc::from),
        })
    }
}

impl Wire for TemplateWire {
    type View = TemplateView;

    fn into_view(self, template: Identity) -> Result<TemplateView, DecodeError> {
        let TemplateSpec { metadata, spec } = self.spec;
        let Some(spec) = spec else {
            return Err(DecodeError::Unrepresentable(
                "the template has no spec".to_owned(),
            ));
        };
        let decoded: ClaimSpec =
            serde_json::from_str(spec.get()).map_err(|error| DecodeError::Json(Arc::new(error)))?;
        Ok(TemplateView {
            key: template.key,
            labels: metadata.labels.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
            admin_access: decoded.admin_access(),
            prioritized_list: decoded.prioritized_list(),
            spec: spec.into(),
        })
    }
}

#[cfg(test)]
mod tests;
