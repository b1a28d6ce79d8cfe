//! From what a client sent to an object in the form of its kind.

use serde_json::Value;

use super::failure::Failure;
use super::schema;
use super::write::Write;

impl Write<'_> {
    /// Decodes the body of a create or an update. `complaints` starts with the fields that it has twice.
    pub(super) fn decode(&self, object: &mut Value, duplicates: &[String]) -> Result<(), Failure> {
        self.read(object, duplicates).map_err(|error| {
            Failure::bad_request(format!(
                "{} in version \"{}\" cannot be handled as a {}: {error}",
                self.resource.kind, self.resource.version, self.resource.kind
            ))
        })
    }

    /// Decodes what came of a patch.
    pub(super) fn decode_patched(&self, object: &mut Value, duplicates: &[String]) -> Result<(), Failure> {
        self.read(object, duplicates)
            .map_err(|error| Failure::bad_patch(object, &error))
    }

    fn read(&self, object: &mut Value, duplicates: &[String]) -> Result<(), String> {
        let unknown = schema::decode(self.resource.schema(), object).map_err(|misfit| misfit.to_string())?;
        let duplicates = duplicates
            .iter()
            .map(|path| format!("duplicate field \"{path}\""));
        let unknown = unknown.iter().map(|path| format!("unknown field \"{path}\""));
        self.reading.report(duplicates.chain(unknown).collect())?;
        Ok(())
    }
}
