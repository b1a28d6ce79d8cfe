//! A routed request, and what its verb reads from it.

use bytes::Bytes;

use super::body::{self, Parsed, Reading};
use super::failure::Failure;
use super::options::Parameters;
use super::patch::{Patch, PatchKind};
use super::request::Request;
use super::resource::{Resource, Target};
use super::view::View;
use super::write;

/// What a manager is called whose client sends neither `fieldManager` nor `User-Agent`.
const UNKNOWN_MANAGER: &str = "unknown";
/// How long the name of a manager may be.
const MANAGER_LENGTH: usize = 128;

/// A request on its way to its verb.
pub(super) struct Call {
    pub(super) resource: &'static Resource,
    pub(super) target: Target,
    pub(super) request: Request,
    pub(super) query: Parameters,
    pub(super) view: View,
    pub(super) content_type: String,
    pub(super) body: Bytes,
    pub(super) reading: Reading,
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
    pub(super) fn object(&self) -> Result<Parsed, Failure> {
        if !self.content_type.is_empty() && !self.has_content_type("application/json") {
            return Err(Failure::unsupported_body());
        }
        body::json(&self.body).map_err(|error| {
            Failure::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse \
                 error: {error}",
                self.resource.kind
            ))
        })
    }

    /// The patch in the body.
    pub(super) fn patch(&self) -> Result<Patch, Failure> {
        let media = self.content_type.split(';').next().unwrap_or_default().trim();
        let kind = PatchKind::of(media).ok_or_else(Failure::unsupported_patch)?;
        self.check_patch_options(kind)?;
        let parsed = if kind == PatchKind::Apply {
            body::yaml(&self.body)
        } else {
            body::json(&self.body)
        };
        let parsed = parsed.map_err(|error| kind.unreadable(&error.to_string()))?;
        Ok(Patch {
            kind,
            parsed,
            force: self.query.flag("force"),
        })
    }

    /// Who applies must say who it is, and only an apply can be forced.
    fn check_patch_options(&self, kind: PatchKind) -> Result<(), Failure> {
        let is_apply = kind == PatchKind::Apply;
        let manager = self.query.get("fieldManager");
        let refused = |field: &str, cause: &str, body: &str| {
            Err(Failure::bad_option("PatchOptions", field, cause, body))
        };
        if is_apply && manager.is_empty() {
            let body = "Required value: is required for apply patch";
            return refused("fieldManager", "FieldValueRequired", body);
        }
        if !is_apply && self.query.flag("force") {
            let body = "Forbidden: may not be specified for non-apply patch";
            return refused("force", "FieldValueForbidden", body);
        }
        if manager.len() > MANAGER_LENGTH {
            let body = "Too long: may not be more than 128 bytes";
            return refused("fieldManager", "FieldValueTooLong", body);
        }
        Ok(())
    }
}
