//! The protobuf fields that are read, by the numbers of Kubernetes' `generated.proto`.

use controller_core::informer::protobuf::{CONDITION, CONDITIONS, Kind, LABEL_SELECTOR, METADATA, Message};

/// `v1.Pod`.
pub(super) const POD: Message = &[
    METADATA,
    (
        3,
        "status",
        Kind::Message(&[(1, "phase", Kind::Text), (2, "conditions", CONDITIONS)]),
    ),
];
/// `policy/v1.PodDisruptionBudget`.
pub(super) const PDB: Message = &[
    METADATA,
    (2, "spec", Kind::Message(PDB_SPEC)),
    (3, "status", Kind::Message(PDB_STATUS)),
];
const PDB_SPEC: Message = &[
    (1, "minAvailable", Kind::IntOrString),
    (2, "selector", Kind::Message(LABEL_SELECTOR)),
    (3, "maxUnavailable", Kind::IntOrString),
];
const PDB_STATUS: Message = &[
    (1, "observedGeneration", Kind::Int),
    (2, "disruptedPods", Kind::Map(&Kind::Time)),
    (3, "disruptionsAllowed", Kind::Int),
    (4, "currentHealthy", Kind::Int),
    (5, "desiredHealthy", Kind::Int),
    (6, "expectedPods", Kind::Int),
    (7, "conditions", Kind::List(&Kind::Message(CONDITION))),
];
/// `v1.ReplicationController`, `apps/v1.ReplicaSet`, `apps/v1.StatefulSet` and `apps/v1.Deployment`.
pub(super) const WORKLOAD: Message = &[
    METADATA,
    (2, "spec", Kind::Message(&[(1, "replicas", Kind::Int)])),
];
