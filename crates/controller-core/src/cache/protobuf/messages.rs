//! The messages that several kinds share, as far as they are read.

use super::{FieldKind, Message};

/// `metav1.OwnerReference`, for [`OwnerWire`](crate::cache::OwnerWire).
pub const OWNER_REFERENCE: Message = &[
    (1, "kind", FieldKind::Text),
    (3, "name", FieldKind::Text),
    (4, "uid", FieldKind::Text),
    (5, "apiVersion", FieldKind::Text),
    (6, "controller", FieldKind::Bool),
];
/// `metav1.ObjectMeta`, as far as any controller reads it.
pub const OBJECT_META: Message = &[
    (1, "name", FieldKind::Text),
    (3, "namespace", FieldKind::Text),
    (5, "uid", FieldKind::Text),
    (6, "resourceVersion", FieldKind::Text),
    (7, "generation", FieldKind::Int),
    (8, "creationTimestamp", FieldKind::Time),
    (9, "deletionTimestamp", FieldKind::Time),
    (11, "labels", TEXTS_BY_NAME),
    (12, "annotations", TEXTS_BY_NAME),
    (
        13,
        "ownerReferences",
        FieldKind::List(&FieldKind::Message(OWNER_REFERENCE)),
    ),
    (14, "finalizers", FieldKind::List(&FieldKind::TextPointer)),
    (
        17,
        "managedFields",
        FieldKind::List(&FieldKind::Message(MANAGED_FIELDS)),
    ),
];
/// The metadata of any object.
pub const METADATA: (u32, &str, FieldKind) = (1, "metadata", FieldKind::Message(OBJECT_META));
/// An object of which only the metadata is read.
pub const METADATA_ONLY: Message = &[METADATA];
/// `metav1.LabelSelector`.
pub const LABEL_SELECTOR: Message = &[
    (1, "matchLabels", TEXTS_BY_NAME),
    (
        2,
        "matchExpressions",
        FieldKind::List(&FieldKind::Message(REQUIREMENT)),
    ),
];
/// `metav1.Condition`.
pub const CONDITION: Message = &[
    (1, "type", FieldKind::Text),
    (2, "status", FieldKind::Text),
    (3, "observedGeneration", FieldKind::Int),
    (4, "lastTransitionTime", FieldKind::Time),
    (5, "reason", FieldKind::Text),
    (6, "message", FieldKind::Text),
];
/// The conditions of pods and of Jobs, which agree in what is read.
pub const CONDITIONS: FieldKind = FieldKind::List(&FieldKind::Message(&[
    (1, "type", FieldKind::Text),
    (2, "status", FieldKind::Text),
    (4, "lastTransitionTime", FieldKind::Time),
    (5, "reason", FieldKind::Text),
]));
/// Labels or annotations.
pub const TEXTS_BY_NAME: FieldKind = FieldKind::Map(&FieldKind::TextPointer);

const MANAGED_FIELDS: Message = &[
    (1, "manager", FieldKind::Text),
    (4, "time", FieldKind::Time),
    (8, "subresource", FieldKind::Text),
];
const REQUIREMENT: Message = &[
    (1, "key", FieldKind::Text),
    (2, "operator", FieldKind::Text),
    (3, "values", FieldKind::List(&FieldKind::TextPointer)),
];
pub(super) const STATUS: Message = &[
    (2, "status", FieldKind::Text),
    (3, "message", FieldKind::Text),
    (4, "reason", FieldKind::Text),
    (
        5,
        "details",
        FieldKind::Message(&[(5, "retryAfterSeconds", FieldKind::Int)]),
    ),
    (6, "code", FieldKind::Int),
];
pub(super) const LIST_META: Message = &[
    (2, "resourceVersion", FieldKind::Text),
    (3, "continue", FieldKind::Text),
];
