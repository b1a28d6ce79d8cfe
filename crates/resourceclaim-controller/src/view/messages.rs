//! The protobuf fields that are read, by the numbers of Kubernetes' `generated.proto`.

use controller_core::informer::protobuf::{Kind, METADATA, Message};

/// `v1.Pod`.
pub(super) const POD: Message = &[
    METADATA,
    (
        2,
        "spec",
        Kind::Message(&[
            (10, "nodeName", Kind::Text),
            (39, "resourceClaims", ENTRIES),
            (
                43,
                "schedulingGroup",
                Kind::Message(&[(1, "podGroupName", Kind::TextPointer)]),
            ),
        ]),
    ),
    (
        3,
        "status",
        Kind::Message(&[
            (1, "phase", Kind::Text),
            (15, "resourceClaimStatuses", STATUSES),
            (
                18,
                "extendedResourceClaimStatus",
                Kind::Message(&[(2, "resourceClaimName", Kind::Text)]),
            ),
        ]),
    ),
];
const ENTRIES: Kind = Kind::List(&Kind::Message(&[
    (1, "name", Kind::Text),
    (3, "resourceClaimName", Kind::TextPointer),
    (4, "resourceClaimTemplateName", Kind::TextPointer),
]));
const STATUSES: Kind = Kind::List(&Kind::Message(&[
    (1, "name", Kind::Text),
    (2, "resourceClaimName", Kind::TextPointer),
]));
/// `resource.k8s.io/v1.ResourceClaim`.
pub(super) const CLAIM: Message = &[
    METADATA,
    (
        2,
        "spec",
        Kind::Message(&[(1, "devices", Kind::Message(DEVICES))]),
    ),
    (
        3,
        "status",
        Kind::Message(&[
            (1, "allocation", Kind::Message(&[])),
            (2, "reservedFor", Kind::List(&Kind::Message(CONSUMER))),
        ]),
    ),
];
const DEVICES: Message = &[(1, "requests", Kind::List(&Kind::Message(REQUEST)))];
const REQUEST: Message = &[
    (2, "exactly", Kind::Message(&[(5, "adminAccess", Kind::Bool)])),
    (3, "firstAvailable", Kind::List(&Kind::Message(&[]))),
];
const CONSUMER: Message = &[
    (1, "apiGroup", Kind::Text),
    (3, "resource", Kind::Text),
    (4, "name", Kind::Text),
    (5, "uid", Kind::Text),
];
