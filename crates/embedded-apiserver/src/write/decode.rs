//! From what a client sent to an object in the form of its kind.

use serde_json::Value;

use crate::failure::StatusError;
use crate::schema;
use crate::write::Write;

impl Write<'_> {
    /// Decodes the body of a create or an update. Fields that the kind does not have are dropped.
    pub(super) fn decode(&self, object: &mut Value) -> Result<(), StatusError> {
        schema::decode(self.resource.schema(), object).map_err(|misfit| {
            StatusError::bad_request(format!(
                "{} in version \"{}\" cannot be handled as a {}: {misfit}",
                self.resource.kind, self.resource.version, self.resource.kind
            ))
        })
    }

    /// Decodes what came of a patch.
    pub(super) fn decode_patched(&self, object: &mut Value) -> Result<(), StatusError> {
        schema::decode(self.resource.schema(), object)
            .map_err(|misfit| StatusError::bad_patch(object, &misfit.to_string()))
    }
}
