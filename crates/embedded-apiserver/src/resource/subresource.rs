//! Subresources: `/status`, `/scale`, and the actions.

use super::Resource;
use crate::request::RequestVerb;

/// The target of a path: an object or a subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Object,
    /// `/status`.
    Status,
    /// `/scale`.
    Scale(&'static Scale),
    /// A subresource that acts on the object.
    Action(Action),
}

/// Where a kind stores the content of its `/scale`. Paths are fields joined by dots, e.g. `spec.replicas`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    /// Path of the desired number.
    pub(crate) replicas: &'static str,
    /// Path of the current number.
    pub(crate) status_replicas: &'static str,
    pub(crate) selector: Selector,
}

/// Form and path of the selector for the kind's pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selector {
    /// The kind has none.
    None,
    /// Text, as in a query.
    Text(&'static str),
    /// A map of labels.
    Labels(&'static str),
    /// A `metav1.LabelSelector`.
    Expressions(&'static str),
}

/// A subresource that acts on its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Deletes a pod if its disruption budget permits.
    Evict,
    /// Assigns a pod to a node.
    Bind,
}

impl Scale {
    /// The paths that Kubernetes' own kinds use.
    pub(super) const fn of_workload(selector: Selector) -> Self {
        Self {
            replicas: "spec.replicas",
            status_replicas: "status.replicas",
            selector,
        }
    }
}

impl Target {
    /// True if the server supports `verb`.
    pub(crate) fn takes(self, verb: RequestVerb) -> bool {
        match self {
            Self::Object => true,
            Self::Status => matches!(verb, RequestVerb::Get | RequestVerb::Update | RequestVerb::Patch),
            Self::Scale(_) => verb == RequestVerb::Get,
            Self::Action(_) => verb == RequestVerb::Create,
        }
    }
}

impl Resource {
    /// The target of the subresource with this name; the empty name is the object itself.
    pub(crate) fn target(&'static self, subresource: &str) -> Option<Target> {
        match subresource {
            "" => Some(Target::Object),
            "status" => self.has_status().then_some(Target::Status),
            "scale" => self.scale.as_ref().map(Target::Scale),
            other => self
                .actions
                .iter()
                .find(|(name, _)| *name == other)
                .map(|(_, action)| Target::Action(*action)),
        }
    }

    pub(crate) fn subresources(&self) -> Vec<&'static str> {
        let status = self.has_status().then_some("status");
        let scale = self.scale.map(|_| "scale");
        let actions = self.actions.iter().map(|(name, _)| *name);
        status.into_iter().chain(scale).chain(actions).collect()
    }
}
