//! What policies read of a Job, of a pod and of a namespace.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TAF-14 | `PodStatus::finish` | `tests/policies/views.rs::a_pod_has_finished_when_the_last_of_it_ended` |

use std::convert::Infallible;
use std::sync::Arc;

use controller_core::cache::protobuf::{CONDITIONS, FieldKind, METADATA, METADATA_ONLY, Message};
use controller_core::cache::{DecodeError, Identity, OwnerWire, View, Wire, share, time};
use controller_core::labels::Labels;
use controller_core::meta::{ObjectKey, Uid};
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::{FinishedKind, KEEP};
use crate::view::{Conditions, Finish, JobView, Spec};

/// A Job that has not been deleted, or a pod that has finished.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Candidate {
    pub kind: FinishedKind,
    /// A pod has no ttl.
    pub object: JobView,
    /// It failed, rather than succeeded.
    pub failed: bool,
    /// Equal labels share one `Arc`.
    pub labels: Arc<Labels>,
    /// The uid of its controller.
    pub owner: Option<Uid>,
    /// A kubelet made it of a file: deleted, it comes back.
    pub mirror: bool,
    /// Annotated with [`KEEP`].
    pub keep: bool,
    /// Its finalizers, separated by commas.
    pub finalizers: Option<Box<str>>,
}

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamespaceView {
    pub key: ObjectKey,
    pub labels: Labels,
    /// Annotated with [`KEEP`].
    pub keep: bool,
    pub created: Option<Timestamp>,
}

/// Finds the candidates of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InNamespace(pub Arc<str>);

impl View for Candidate {
    type Index = InNamespace;

    fn key(&self) -> &ObjectKey {
        &self.object.key
    }

    fn index(&self, out: &mut Vec<InNamespace>) {
        out.extend(self.object.key.namespace.clone().map(InNamespace));
    }
}

impl View for NamespaceView {
    type Index = Infallible;

    fn key(&self) -> &ObjectKey {
        &self.key
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    #[serde(deserialize_with = "time")]
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<IgnoredAny>,
    labels: Option<Labels>,
    annotations: Option<Annotations>,
    owner_references: Option<Vec<OwnerWire>>,
    finalizers: Option<Vec<String>>,
}

/// What counts of the annotations.
#[derive(Clone, Debug, Default)]
struct Annotations {
    keep: bool,
    mirror: bool,
}

/// A kubelet that runs a pod of a file sets it.
const MIRROR: &str = "kubernetes.io/config.mirror";

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;

        impl<'de> Visitor<'de> for Read {
            type Value = Annotations;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("annotations")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Annotations, A::Error> {
                let mut read = Annotations::default();
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        KEEP => read.keep = map.next_value::<String>()? == "true",
                        MIRROR => {
                            map.next_value::<IgnoredAny>()?;
                            read.mirror = true;
                        }
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(read)
            }
        }

        deserializer.deserialize_map(Read)
    }
}

impl Metadata {
    fn candidate(self, kind: FinishedKind, object: JobView, failed: bool) -> Candidate {
        let Annotations { keep, mirror } = self.annotations.unwrap_or_default();
        let owner = OwnerWire::controller(self.owner_references.unwrap_or_default());
        let finalizers = self.finalizers.filter(|finalizers| !finalizers.is_empty());
        Candidate {
            kind,
            object,
            failed,
            labels: share(self.labels.unwrap_or_default()),
            owner: owner.map(|owner| owner.uid),
            mirror,
            keep,
            finalizers: finalizers.map(|finalizers| finalizers.join(", ").into()),
        }
    }
}

/// A Job, with what policies read of it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct JobCandidateWire {
    metadata: Metadata,
    spec: Spec,
    status: Conditions,
}

impl Wire for JobCandidateWire {
    type View = Candidate;

    const MESSAGE: Option<Message> = crate::view::JobWire::MESSAGE;

    /// Unfinished Jobs are kept: a change of their labels counts.
    fn is_kept(&self) -> bool {
        self.metadata.deletion_timestamp.is_none()
    }

    fn into_view(self, job: Identity) -> Result<Candidate, DecodeError> {
        let (finish, failed) = self.status.finish();
        let deleting = self.metadata.deletion_timestamp.is_some();
        let object = JobView::of(job, self.spec.ttl_seconds_after_finished, finish, deleting);
        Ok(self.metadata.candidate(FinishedKind::Job, object, failed))
    }
}

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodWire {
    metadata: Metadata,
    status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: String,
    conditions: Option<Vec<Transition>>,
    container_statuses: Option<Vec<Container>>,
    init_container_statuses: Option<Vec<Container>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Transition {
    #[serde(deserialize_with = "time")]
    last_transition_time: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Container {
    state: State,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct State {
    terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Terminated {
    #[serde(deserialize_with = "time")]
    finished_at: Option<Timestamp>,
}

const CONTAINERS: FieldKind = FieldKind::List(&FieldKind::Message(&[(
    2,
    "state",
    FieldKind::Message(&[(
        3,
        "terminated",
        FieldKind::Message(&[(6, "finishedAt", FieldKind::Time)]),
    )]),
)]));

/// `v1.Pod`.
const POD: Message = &[
    METADATA,
    (
        3,
        "status",
        FieldKind::Message(&[
            (1, "phase", FieldKind::Text),
            (2, "conditions", CONDITIONS),
            (8, "containerStatuses", CONTAINERS),
            (10, "initContainerStatuses", CONTAINERS),
        ]),
    ),
];

impl PodStatus {
    /// The phase of a pod has no time. The last end of a container and the last change of a condition are no earlier
    /// than the kubelet, or who evicted the pod, has them; the latest counts.
    fn finish(&self) -> Option<Finish> {
        if !matches!(self.phase.as_str(), "Succeeded" | "Failed") {
            return None;
        }
        let containers = [&self.container_statuses, &self.init_container_statuses];
        let ends = containers.into_iter().flatten().flatten();
        let ends = ends.filter_map(|container| container.state.terminated.as_ref()?.finished_at);
        let changes = self.conditions.iter().flatten();
        let changes = changes.filter_map(|condition| condition.last_transition_time);
        Some(ends.chain(changes).max().map_or(Finish::Undated, Finish::At))
    }
}

impl Wire for PodWire {
    type View = Candidate;

    const MESSAGE: Option<Message> = Some(POD);

    fn is_kept(&self) -> bool {
        self.metadata.deletion_timestamp.is_none() && self.status.finish().is_some()
    }

    fn into_view(self, pod: Identity) -> Result<Candidate, DecodeError> {
        let finish = self.status.finish();
        let deleting = self.metadata.deletion_timestamp.is_some();
        let object = JobView::of(pod, None, finish, deleting);
        let failed = self.status.phase == "Failed";
        Ok(self.metadata.candidate(FinishedKind::Pod, object, failed))
    }
}

/// The metadata of a namespace.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NamespaceWire {
    metadata: Metadata,
}

impl Wire for NamespaceWire {
    type View = NamespaceView;

    const METADATA_ONLY: bool = true;
    const MESSAGE: Option<Message> = Some(METADATA_ONLY);

    fn into_view(self, namespace: Identity) -> Result<NamespaceView, DecodeError> {
        Ok(NamespaceView {
            key: namespace.key,
            labels: self.metadata.labels.unwrap_or_default(),
            keep: self.metadata.annotations.unwrap_or_default().keep,
            created: self.metadata.creation_timestamp,
        })
    }
}
