//! A pod, as far as a drain reads it.

use std::collections::BTreeMap;
use std::sync::Arc;

use controller_core::cache::protobuf::Message;
use controller_core::cache::{DecodeError, Identity, Interned, OwnerWire, Wire, time};
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::super::messages::DRAINED_POD;
use super::super::{DrainedPod, Hold};
use super::{Metadata, PodSpecWire, PodStatusWire, PodWire};
use crate::labels::Labels;

/// Source: `core/v1`, `MirrorPodAnnotationKey`.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Source: Karpenter `apis/v1`, `DoNotDisruptAnnotationKey`.
const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// Source: cluster-autoscaler `utils/drain`, `PodSafeToEvictKey`.
const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";

/// The decoded part of a pod that a drain reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DrainedPodWire {
    metadata: DrainedMetadata,
    spec: SpecWire,
    status: PodStatusWire,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DrainedMetadata {
    labels: Option<Labels>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerWire>>,
    finalizers: Option<Vec<Interned>>,
    #[serde(deserialize_with = "time")]
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpecWire {
    node_name: Option<Interned>,
    volumes: Option<Vec<VolumeWire>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VolumeWire {
    /// In JSON.
    empty_dir: Option<IgnoredAny>,
    /// In protobuf.
    volume_source: VolumeSourceWire,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VolumeSourceWire {
    empty_dir: Option<IgnoredAny>,
}

impl DrainedMetadata {
    fn is(&self, annotation: &str, value: &str) -> bool {
        let annotations = self.annotations.as_ref();
        annotations
            .and_then(|all| all.get(annotation))
            .is_some_and(|held| held == value)
    }

    fn hold(&mut self) -> Option<Box<Hold>> {
        let hold = Hold {
            // A time that cannot be represented never ends.
            ends: { self.deletion_timestamp.take() }.map(|ends| ends.parse().unwrap_or(Timestamp::MAX)),
            finalizers: { self.finalizers.take().into_iter().flatten() }
                .map(Arc::from)
                .collect(),
            do_not_disrupt: self.is(DO_NOT_DISRUPT, "true"),
            not_safe_to_evict: self.is(SAFE_TO_EVICT, "false"),
        };
        (hold != Hold::default()).then(|| Box::new(hold))
    }
}

impl Wire for DrainedPodWire {
    type View = DrainedPod;

    const MESSAGE: Option<Message> = Some(DRAINED_POD);

    fn into_view(self, identity: Identity) -> Result<DrainedPod, DecodeError> {
        let Self {
            mut metadata,
            spec,
            status,
        } = self;
        let conditions = status.conditions.iter().flatten();
        let ready = { conditions }.find(|condition| condition.kind == "Ready");
        let since = ready.and_then(|ready| ready.last_transition_time);
        let since = since.or(metadata.creation_timestamp);
        let volumes = spec.volumes.iter().flatten();
        let empty_dir =
            { volumes }.any(|volume| volume.empty_dir.is_some() || volume.volume_source.empty_dir.is_some());
        let mirror = { metadata.annotations.as_ref() }.is_some_and(|all| all.contains_key(MIRROR));
        let deleting = metadata.deletion_timestamp.is_some();
        let hold = metadata.hold();
        let pod = PodWire {
            metadata: Metadata {
                labels: metadata.labels,
                owner_references: metadata.owner_references,
                creation_timestamp: metadata.creation_timestamp,
                deletion_timestamp: deleting.then_some(IgnoredAny),
                ..Metadata::default()
            },
            spec: PodSpecWire {
                node_name: spec.node_name,
            },
            status,
        };
        Ok(DrainedPod {
            pod: Arc::new(pod.into_view(identity)?),
            since,
            mirror,
            empty_dir,
            hold,
        })
    }
}
