//! The protobuf fields that are read, by the numbers of Kubernetes' `generated.proto`.

use controller_core::informer::protobuf::{CONDITIONS, Kind, METADATA, Message};

/// `v1.Pod`.
pub(super) const POD: Message = &[
    METADATA,
    (2, "spec", Kind::Message(POD_SPEC)),
    (3, "status", Kind::Message(&[(2, "conditions", CONDITIONS)])),
];
const POD_SPEC: Message = &[
    (10, "nodeName", Kind::Text),
    (22, "tolerations", Kind::List(&Kind::Message(TOLERATION))),
];
const TOLERATION: Message = &[
    (1, "key", Kind::Text),
    (2, "operator", Kind::Text),
    (3, "value", Kind::Text),
    (4, "effect", Kind::Text),
    (5, "tolerationSeconds", Kind::Int),
];
/// `v1.Node`.
pub(super) const NODE: Message = &[
    METADATA,
    (
        2,
        "spec",
        Kind::Message(&[(5, "taints", Kind::List(&Kind::Message(TAINT)))]),
    ),
];
const TAINT: Message = &[
    (1, "key", Kind::Text),
    (2, "value", Kind::Text),
    (3, "effect", Kind::Text),
    (4, "timeAdded", Kind::Time),
];
