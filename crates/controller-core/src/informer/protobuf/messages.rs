//! The messages that several kinds share, as far as they are read.

use super::{Kind, Message};

/// `metav1.OwnerReference`, for [`OwnerWire`](crate::informer::OwnerWire).
pub const OWNER_REFERENCE: Message = &[
    (1, "kind", Kind::Text),
    (3, "name", Kind::Text),
    (4, "uid", Kind::Text),
    (5, "apiVersion", Kind::Text),
    (6, "controller", Kind::Bool),
];
/// `metav1.ObjectMeta`, as far as any controller reads it.
pub const OBJECT_META: Message = &[
    (1, "name", Kind::Text),
    (3, "namespace", Kind::Text),
    (5, "uid", Kind::Text),
    (6, "resourceVersion", Kind::Text),
    (7, "generation", Kind::Int),
    (8, "creationTimestamp", Kind::Time),
    (9, "deletionTimestamp", Kind::Time),
    (11, "labels", TEXTS_BY_NAME),
    (12, "annotations", TEXTS_BY_NAME),
    (13, "ownerReferences", Kind::List(&Kind::Message(OWNER_REFERENCE))),
    (14, "finalizers", Kind::List(&Kind::TextPointer)),
    (17, "managedFields", Kind::List(&Kind::Message(MANAGED_FIELDS))),
];
/// The metadata of any object.
pub const METADATA: (u32, &str, Kind) = (1, "metadata", Kind::Message(OBJECT_META));
/// An object of which only the metadata is read.
pub const METADATA_ONLY: Message = &[METADATA];
/// `metav1.LabelSelector`.
pub const LABEL_SELECTOR: Message = &[
    (1, "matchLabels", TEXTS_BY_NAME),
    (2, "matchExpressions", Kind::List(&Kind::Message(REQUIREMENT))),
];
/// `metav1.Condition`.
pub const CONDITION: Message = &[
    (1, "type", Kind::Text),
    (2, "status", Kind::Text),
    (3, "observedGeneration", Kind::Int),
    (4, "lastTransitionTime", Kind::Time),
    (5, "reason", Kind::Text),
    (6, "message", Kind::Text),
];
/// The conditions of pods and of Jobs, which agree in what is read.
pub const CONDITIONS: Kind = Kind::List(&Kind::Message(&[
    (1, "type", Kind::Text),
    (2, "status", Kind::Text),
    (4, "lastTransitionTime", Kind::Time),
    (5, "reason", Kind::Text),
]));
/// Labels or annotations.
pub const TEXTS_BY_NAME: Kind = Kind::Map(&Kind::TextPointer);

const MANAGED_FIELDS: Message = &[
    (1, "manager", Kind::Text),
    (4, "time", Kind::Time),
    (8, "subresource", Kind::Text),
];
const REQUIREMENT: Message = &[
    (1, "key", Kind::Text),
    (2, "operator", Kind::Text),
    (3, "values", Kind::List(&Kind::TextPointer)),
];
pub(super) const STATUS: Message = &[
    (2, "status", Kind::Text),
    (3, "message", Kind::Text),
    (4, "reason", Kind::Text),
    (
        5,
        "details",
        Kind::Message(&[(5, "retryAfterSeconds", Kind::Int)]),
    ),
    (6, "code", Kind::Int),
];
pub(super) const LIST_META: Message = &[(2, "resourceVersion", Kind::Text), (3, "continue", Kind::Text)];
