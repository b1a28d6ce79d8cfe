//! Converts objects that clients sent to the form of their kind.

use serde_json::Value;

use crate::failure::StatusError;
use crate::object::text;
use crate::schema;
use crate::write::Write;

impl Write<'_> {
    /// Decodes the body of a create or update. Drops fields that the kind lacks.
    pub(super) fn decode(&self, object: &mut Value) -> Result<(), StatusError> {
        schema::decode(self.resource.schema(), object).map_err(|misfit| {
            StatusError::bad_request(format!(
                "{} in version \"{}\" cannot be handled as a {}: {misfit}",
                self.resource.kind, self.resource.version, self.resource.kind
            ))
        })
    }

    /// Decodes the result of an apply.
    pub(super) fn decode_applied(&self, object: &mut Value) -> Result<(), StatusError> {
        schema::decode(self.resource.schema(), object).map_err(|misfit| {
            let (kind, of) = (self.resource.kind, self.resource.api_version());
            let name = text(&object["metadata"], "name");
            let why = format!("unable to convert unstructured object to {of}, Kind={kind}: {misfit}");
            let message =
                format!("failed to convert new object (/{name}; {of}, Kind={kind}) to proper version: {why}");
            StatusError::new(500, "", message)
        })
    }

    /// Decodes the result of another patch.
    pub(super) fn decode_patched(&self, object: &mut Value) -> Result<(), StatusError> {
        schema::decode(self.resource.schema(), object)
            .map_err(|misfit| StatusError::bad_patch(object, &misfit.to_string()))
    }
}
