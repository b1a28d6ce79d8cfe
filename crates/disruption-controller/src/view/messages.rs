//! The protobuf fields that are read, by the numbers of Kubernetes' `generated.proto`.

use controller_core::cache::protobuf::{CONDITION, CONDITIONS, FieldKind, LABEL_SELECTOR, METADATA, Message};

/// `v1.Pod`.
pub(super) const POD: Message = &[
    METADATA,
    (2, "spec", FieldKind::Message(&[NODE_NAME])),
    POD_STATUS,
];
/// `v1.Pod`, as far as a drain reads it.
pub(super) const DRAINED_POD: Message = &[
    METADATA,
    (2, "spec", FieldKind::Message(DRAINED_SPEC)),
    POD_STATUS,
];
const DRAINED_SPEC: Message = &[
    (1, "volumes", FieldKind::List(&FieldKind::Message(VOLUME))),
    NODE_NAME,
];
const NODE_NAME: (u32, &str, FieldKind) = (10, "nodeName", FieldKind::Text);
const POD_STATUS: (u32, &str, FieldKind) = (
    3,
    "status",
    FieldKind::Message(&[(1, "phase", FieldKind::Text), (2, "conditions", CONDITIONS)]),
);
/// `VolumeSource` is inlined in JSON, and field 2 in protobuf.
const VOLUME: Message = &[(
    2,
    "volumeSource",
    FieldKind::Message(&[(2, "emptyDir", FieldKind::Message(&[]))]),
)];
/// `policy/v1.PodDisruptionBudget`.
pub(super) const PDB: Message = &[
    METADATA,
    (2, "spec", FieldKind::Message(PDB_SPEC)),
    (3, "status", FieldKind::Message(PDB_STATUS)),
];
const PDB_SPEC: Message = &[
    (1, "minAvailable", FieldKind::IntOrString),
    (2, "selector", FieldKind::Message(LABEL_SELECTOR)),
    (3, "maxUnavailable", FieldKind::IntOrString),
    (4, "unhealthyPodEvictionPolicy", FieldKind::Text),
];
const PDB_STATUS: Message = &[
    (1, "observedGeneration", FieldKind::Int),
    (2, "disruptedPods", FieldKind::Map(&FieldKind::Time)),
    (3, "disruptionsAllowed", FieldKind::Int),
    (4, "currentHealthy", FieldKind::Int),
    (5, "desiredHealthy", FieldKind::Int),
    (6, "expectedPods", FieldKind::Int),
    (7, "conditions", FieldKind::List(&FieldKind::Message(CONDITION))),
];
/// `v1.Node`.
pub(super) const NODE: Message = &[METADATA];
/// `v1.ReplicationController`, `apps/v1.ReplicaSet`, `apps/v1.StatefulSet` and `apps/v1.Deployment`.
pub(super) const WORKLOAD: Message = &[
    METADATA,
    (2, "spec", FieldKind::Message(&[(1, "replicas", FieldKind::Int)])),
];
