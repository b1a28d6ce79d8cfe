//! Converts objects that clients sent to the form of their kind.

use serde_json::Value;

use crate::failure::StatusError;
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

    /// Decodes the result of a patch.
    pub(super) fn decode_patched(&self, object: &mut Value) -> Result<(), StatusError> {
        schema::decode(self.resource.schema(), object)
            .map_err(|misfit| StatusError::bad_patch(object, &misfit.to_string()))
    }
}
