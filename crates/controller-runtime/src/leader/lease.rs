//! The Lease on the wire.
//!
//! Not `k8s_openapi`'s type: the rule never reads a time, only compares times for change, so times stay text, and a
//! year that no time library can hold does no harm. Metadata is sent back as it came.

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use kube::api::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub(super) struct Lease {
    /// The whole `metadata`.
    metadata: Map<String, Value>,
    /// `spec`.
    pub(super) record: Record,
    /// Name and resourceVersion, for `kube::Resource`.
    identity: ObjectMeta,
}

/// The fields of `spec` that the election reads and writes: client-go's `LeaderElectionRecord`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Record {
    /// The leader; absent or empty: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) holder_identity: Option<String>,
    /// Time after a renewal for which the holder may believe that it leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lease_duration_seconds: Option<i32>,
    /// When the holder took the Lease, by its own wall clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) acquire_time: Option<String>,
    /// When the holder last renewed the Lease, by its own wall clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) renew_time: Option<String>,
    /// Number of times the holder has changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lease_transitions: Option<i32>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    metadata: Option<Map<String, Value>>,
    spec: Option<Record>,
}

impl Lease {
    /// A Lease to create.
    pub(super) fn new(namespace: &str, name: &str, record: Record) -> Self {
        let mut metadata = Map::new();
        metadata.insert("name".to_owned(), json!(name));
        metadata.insert("namespace".to_owned(), json!(namespace));
        Self::from_parts(metadata, record)
    }

    /// The same object with another record, for an update.
    pub(super) fn with(&self, record: Record) -> Self {
        Self {
            record,
            ..self.clone()
        }
    }

    pub(super) fn uid(&self) -> Option<&str> {
        self.metadata.get("uid").and_then(Value::as_str)
    }

    /// Its `resourceVersion`, if it is a number.
    pub(super) fn version(&self) -> Option<u64> {
        self.identity.resource_version.as_ref()?.parse().ok()
    }

    fn from_parts(metadata: Map<String, Value>, record: Record) -> Self {
        let text = |field: &str| metadata.get(field).and_then(Value::as_str).map(str::to_owned);
        let identity = ObjectMeta {
            name: text("name"),
            namespace: text("namespace"),
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        };
        Self {
            metadata,
            record,
            identity,
        }
    }
}

impl Record {
    /// The holder of the Lease, if any.
    pub(super) fn holder(&self) -> Option<&str> {
        self.holder_identity
            .as_deref()
            .filter(|holder| !holder.is_empty())
    }

    /// `leaseDurationSeconds` if it is set and positive.
    pub(super) fn duration(&self) -> Option<Duration> {
        self.lease_duration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .filter(|seconds| *seconds > 0)
            .map(Duration::from_secs)
    }

    /// `leaseTransitions`, at least 0: the API server refuses negative values.
    pub(super) fn transitions(&self) -> i32 {
        self.lease_transitions.unwrap_or(0).max(0)
    }
}

/// `wall` as a `metav1.MicroTime`.
pub(super) fn micro_time(wall: Timestamp) -> String {
    format!("{wall:.6}")
}

impl TryFrom<Wire> for Lease {
    type Error = &'static str;

    /// Refuses what is no object: a proxy's own answer must not count as a renewal.
    fn try_from(wire: Wire) -> Result<Self, Self::Error> {
        let metadata = wire.metadata.unwrap_or_default();
        let lease = Self::from_parts(metadata, wire.spec.unwrap_or_default());
        if lease.identity.name.is_none() || lease.identity.resource_version.is_none() {
            return Err("the answer is no Lease: it has no name or no resourceVersion");
        }
        Ok(lease)
    }
}

impl From<Lease> for Wire {
    fn from(lease: Lease) -> Self {
        Self {
            api_version: "coordination.k8s.io/v1".to_owned(),
            kind: "Lease".to_owned(),
            metadata: Some(lease.metadata),
            spec: Some(lease.record),
        }
    }
}

impl kube::Resource for Lease {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Lease".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "coordination.k8s.io".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "leases".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.identity
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.identity
    }
}
