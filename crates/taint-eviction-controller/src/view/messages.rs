//! The protobuf fields that are read, by the numbers of Kubernetes' `generated.proto`.

use controller_core::cache::protobuf::{CONDITIONS, FieldKind, METADATA, Message};

/// `v1.Pod`.
pub(super) const POD: Message = &[
    METADATA,
    (2, "spec", FieldKind::Message(POD_SPEC)),
    (3, "status", FieldKind::Message(&[(2, "conditions", CONDITIONS)])),
];
const POD_SPEC: Message = &[
    (10, "nodeName", FieldKind::Text),
    (
        22,
        "tolerations",
        FieldKind::List(&FieldKind::Message(TOLERATION)),
    ),
];
const TOLERATION: Message = &[
    (1, "key", FieldKind::Text),
    (2, "operator", FieldKind::Text),
    (3, "value", FieldKind::Text),
    (4, "effect", FieldKind::Text),
    (5, "tolerationSeconds", FieldKind::Int),
];
/// `v1.Node`.
pub(super) const NODE: Message = &[
    METADATA,
    (
        2,
        "spec",
        FieldKind::Message(&[(5, "taints", FieldKind::List(&FieldKind::Message(TAINT)))]),
    ),
];
const TAINT: Message = &[
    (1, "key", FieldKind::Text),
    (2, "value", FieldKind::Text),
    (3, "effect", FieldKind::Text),
    (4, "timeAdded", FieldKind::Time),
];
