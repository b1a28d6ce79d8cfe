//! A routed request, and what its verb reads from it.

use bytes::Bytes;
use serde_json::Value;

use super::failure::Failure;
use super::options::Parameters;
use super::request::Request;
use super::resource::{Resource, Target};
use super::view::View;
use super::write::{self, PatchKind};

/// What a manager is called whose client sends neither `fieldManager` nor `User-Agent`.
const UNKNOWN_MANAGER: &str = "unknown";

/// A request on its way to its verb.
pub(super) struct Call {
    pub(super) resource: &'static Resource,
    pub(super) target: Target,
    pub(super) request: Request,
    pub(super) query: Parameters,
    pub(super) view: View,
    pub(super) content_type: String,
    pub(super) body: Bytes,
}

impl Call {
    /// The key of the object in the store.
    pub(super) fn key(&self) -> String {
        write::key(self.resource, &self.request.namespace, &self.request.name)
    }

    /// What the keys of the collection start with.
    pub(super) fn prefix(&self) -> String {
        if self.request.namespace.is_empty() {
            String::new()
        } else {
            format!("{}/", self.request.namespace)
        }
    }

    /// Who owns the fields that the request writes.
    pub(super) fn manager(&self) -> &str {
        let agent = self.request.user_agent.split('/').next().unwrap_or_default();
        [self.query.get("fieldManager"), agent, UNKNOWN_MANAGER]
            .into_iter()
            .find(|name| !name.is_empty())
            .unwrap_or_default()
    }

    pub(super) fn has_content_type(&self, wanted: &str) -> bool {
        self.content_type
            .split(';')
            .next()
            .is_some_and(|media| media.trim() == wanted)
    }

    /// The object in the body of a create or an update.
    pub(super) fn object(&self) -> Result<Value, Failure> {
        if !self.content_type.is_empty() && !self.has_content_type("application/json") {
            return Err(Failure::unsupported_body());
        }
        serde_json::from_slice(&self.body).map_err(|error| {
            Failure::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse \
                 error: {error}",
                self.resource.kind
            ))
        })
    }

    /// The patch in the body.
    pub(super) fn patch(&self) -> Result<(PatchKind, Value), Failure> {
        let kind = if self.has_content_type("application/merge-patch+json") {
            PatchKind::Merge
        } else if self.has_content_type("application/strategic-merge-patch+json") {
            PatchKind::Strategic
        } else {
            return Err(Failure::unsupported_patch());
        };
        let patch = serde_json::from_slice(&self.body)
            .map_err(|error| Failure::bad_request(format!("error decoding patch: {error}")))?;
        Ok((kind, patch))
    }
}
