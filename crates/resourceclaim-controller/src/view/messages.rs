//! The protobuf fields that are read, by the numbers of Kubernetes' `generated.proto`.

use controller_core::cache::protobuf::{FieldKind, METADATA, Message};

/// `v1.Pod`.
pub(super) const POD: Message = &[
    METADATA,
    (
        2,
        "spec",
        FieldKind::Message(&[
            (10, "nodeName", FieldKind::Text),
            (39, "resourceClaims", ENTRIES),
            (
                43,
                "schedulingGroup",
                FieldKind::Message(&[(1, "podGroupName", FieldKind::TextPointer)]),
            ),
        ]),
    ),
    (
        3,
        "status",
        FieldKind::Message(&[
            (1, "phase", FieldKind::Text),
            (15, "resourceClaimStatuses", STATUSES),
            (
                18,
                "extendedResourceClaimStatus",
                FieldKind::Message(&[(2, "resourceClaimName", FieldKind::Text)]),
            ),
        ]),
    ),
];
const ENTRIES: FieldKind = FieldKind::List(&FieldKind::Message(&[
    (1, "name", FieldKind::Text),
    (3, "resourceClaimName", FieldKind::TextPointer),
    (4, "resourceClaimTemplateName", FieldKind::TextPointer),
]));
const STATUSES: FieldKind = FieldKind::List(&FieldKind::Message(&[
    (1, "name", FieldKind::Text),
    (2, "resourceClaimName", FieldKind::TextPointer),
]));
/// `resource.k8s.io/v1.ResourceClaim`.
pub(super) const CLAIM: Message = &[
    METADATA,
    (
        2,
        "spec",
        FieldKind::Message(&[(1, "devices", FieldKind::Message(DEVICES))]),
    ),
    (
        3,
        "status",
        FieldKind::Message(&[
            (1, "allocation", FieldKind::Message(&[])),
            (2, "reservedFor", FieldKind::List(&FieldKind::Message(CONSUMER))),
        ]),
    ),
];
const DEVICES: Message = &[(1, "requests", FieldKind::List(&FieldKind::Message(REQUEST)))];
const REQUEST: Message = &[
    (
        2,
        "exactly",
        FieldKind::Message(&[(5, "adminAccess", FieldKind::Bool)]),
    ),
    (3, "firstAvailable", FieldKind::List(&FieldKind::Message(&[]))),
];
const CONSUMER: Message = &[
    (1, "apiGroup", FieldKind::Text),
    (3, "resource", FieldKind::Text),
    (4, "name", FieldKind::Text),
    (5, "uid", FieldKind::Text),
];
