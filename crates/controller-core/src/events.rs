//! Events on objects, as `kubectl describe` shows them.

use k8s_openapi::api::core::v1::ObjectReference;

use crate::meta::{ObjectKey, Uid};

/// Accepts events from any task, at once: what happens to them is never on the way of the work.
pub trait Recorder {
    /// Queues `event` as happening now.
    fn publish(&self, event: Event);
}

/// What happened to an object.
///
/// Equal events that come within six minutes of each other are one series.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// The object that the event is about.
    pub regarding: Reference,
    /// Another object that took part; few events have one.
    pub related: Option<Box<Reference>>,
    /// `type`.
    pub type_: EventType,
    /// Why it happened, in `PascalCase`; at most 128 bytes.
    pub reason: &'static str,
    /// What the controller did or tried, in `PascalCase`; at most 128 bytes.
    pub action: &'static str,
    /// Text for people; cut at 1,024 bytes.
    pub note: String,
}

/// An object that an event is about, by which `kubectl describe` finds the event. Shares its strings with the object's
/// view, because thousands may wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    /// `apiVersion`.
    pub api_version: &'static str,
    /// `kind`.
    pub kind: &'static str,
    /// Namespace and name.
    pub key: ObjectKey,
    /// `uid`.
    pub uid: Uid,
}

/// The type of an [`Event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Nothing is wrong.
    Normal,
    /// Something may need attention.
    Warning,
}

/// The reference to an object.
pub fn reference(api_version: &'static str, kind: &'static str, key: &ObjectKey, uid: &Uid) -> Reference {
    Reference {
        api_version,
        kind,
        key: key.clone(),
        uid: uid.clone(),
    }
}

impl From<&Reference> for ObjectReference {
    fn from(reference: &Reference) -> Self {
        let Reference {
            api_version,
            kind,
            key,
            uid,
        } = reference;
        Self {
            api_version: Some((*api_version).to_owned()),
            kind: Some((*kind).to_owned()),
            name: Some(key.name.to_string()),
            namespace: key.namespace.as_deref().map(str::to_owned),
            uid: Some(uid.to_string()),
            ..Self::default()
        }
    }
}

impl EventType {
    /// The type as the Event object spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

impl Event {
    /// A [`Normal`](EventType::Normal) event on `regarding`.
    pub fn normal(
        regarding: Reference,
        reason: &'static str,
        action: &'static str,
        note: impl Into<String>,
    ) -> Self {
        Self {
            regarding,
            related: None,
            type_: EventType::Normal,
            reason,
            action,
            note: note.into(),
        }
    }

    /// A [`Warning`](EventType::Warning) event on `regarding`.
    pub fn warning(
        regarding: Reference,
        reason: &'static str,
        action: &'static str,
        note: impl Into<String>,
    ) -> Self {
        Self {
            type_: EventType::Warning,
            ..Self::normal(regarding, reason, action, note)
        }
    }

    /// Namespace of the Event object: that of its object, or `default` for a cluster-scoped object.
    pub fn namespace(&self) -> &str {
        match self.regarding.key.namespace.as_deref() {
            None | Some("") => "default",
            Some(namespace) => namespace,
        }
    }
}
