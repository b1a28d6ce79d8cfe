//! Server-side apply as a write: updates or creates the object. `managed_fields/apply.rs` decides about fields.

use serde_json::Value;

use crate::failure::StatusError;
use crate::managed_fields::Part;
use crate::managed_fields::apply::Application;
use crate::object::{remove, text};
use crate::patch::{Patch, PatchKind};
use crate::store::Stored;
use crate::write::{Ownership, Write};

impl Write<'_> {
    /// Applies an object; true in the result if this created the object.
    pub(super) fn apply(self, patch: Patch) -> Result<(Stored, bool), StatusError> {
        let wanted = patch.content;
        if !wanted.is_object() {
            return Err(PatchKind::Apply.misshapen(&wanted));
        }
        self.check_type(&wanted)?;
        if !wanted["metadata"]["managedFields"].is_null() {
            return Err(StatusError::bad_request("metadata.managedFields must be nil"));
        }
        let current = match self.current() {
            Ok(current) => Some(current),
            Err(_) if self.part != Part::Status => None,
            Err(failure) => return Err(failure),
        };
        let application = Application {
            resource: self.resource,
            part: self.part,
            writer: self.writer,
            force: patch.force,
        };
        let live = current.as_ref().map(|current| &current.object);
        let mut object = application.apply(live, &wanted)?;
        self.decode_applied(&mut object)?;
        if let Some(current) = current {
            self.check_identity(&object)?;
            return Ok((self.replace(current, object, Ownership::Applied)?, false));
        }
        let uid = text(&object["metadata"], "uid");
        if !uid.is_empty() {
            return Err(StatusError::nobody_with_uid(self.resource, self.name, uid));
        }
        self.check_identity(&object)?;
        // An apply that creates an object ignores its resourceVersion.
        remove(&mut object["metadata"], "resourceVersion");
        Ok((self.add(object, Ownership::Applied)?, true))
    }

    fn check_type(&self, wanted: &Value) -> Result<(), StatusError> {
        let (kind, api_version) = (text(wanted, "kind"), text(wanted, "apiVersion"));
        if kind == self.resource.kind && api_version == self.resource.api_version() {
            return Ok(());
        }
        let group_version = if api_version.contains('/') {
            api_version.to_owned()
        } else {
            format!("/{api_version}")
        };
        Err(StatusError::bad_request(format!(
            "invalid object type: {group_version}, Kind={kind}"
        )))
    }
}
