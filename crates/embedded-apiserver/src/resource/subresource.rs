//! What is served below an object: `/status`, `/scale`, and the actions.

use super::Resource;
use crate::request::RequestVerb;

/// What a path below a resource stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The object itself.
    Object,
    /// `/status`.
    Status,
    /// `/scale`.
    Scale(&'static Scale),
    /// A subresource that does something.
    Action(Action),
}

/// Where a kind keeps what its `/scale` shows. Paths are fields joined by dots, e.g. `spec.replicas`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    /// The number that a scale sets.
    pub(crate) replicas: &'static str,
    /// The number that there are.
    pub(crate) status_replicas: &'static str,
    /// What selects the pods.
    pub(crate) selector: Selector,
}

/// The form in which a kind keeps the selector of its pods, with its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selector {
    /// The kind has none.
    None,
    /// Text as in a query.
    Text(&'static str),
    /// A map of labels.
    Labels(&'static str),
    /// A `metav1.LabelSelector`.
    Expressions(&'static str),
}

/// A subresource that does something to its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Deletes a pod if its disruption budget allows that.
    Evict,
    /// Assigns a pod to a node.
    Bind,
}

impl Scale {
    /// That of the kinds of Kubernetes.
    pub(super) const fn of_workload(selector: Selector) -> Self {
        Self {
            replicas: "spec.replicas",
            status_replicas: "status.replicas",
            selector,
        }
    }
}

impl Target {
    /// Whether the server has an answer to `verb`.
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
    /// What the subresource of this name stands for; the empty name is the object itself.
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

    /// The names of all subresources.
    pub(crate) fn subresources(&self) -> Vec<&'static str> {
        let status = self.has_status().then_some("status");
        let scale = self.scale.map(|_| "scale");
        let actions = self.actions.iter().map(|(name, _)| *name);
        status.into_iter().chain(scale).chain(actions).collect()
    }
}
