//! What makes an object acceptable for a write.

use serde_json::{Value, json};

use super::failure::Failure;
use super::object::{finalizers, text};
use super::write::Write;

impl Write<'_> {
    /// An object of this resource with metadata.
    pub(super) fn well_formed(&self, mut object: Value) -> Result<Value, Failure> {
        let (kind, api_version) = (text(&object, "kind"), text(&object, "apiVersion"));
        if !object.is_object()
            || (!kind.is_empty() && kind != self.resource.kind)
            || (!api_version.is_empty() && api_version != self.resource.api_version())
        {
            return Err(Failure::bad_request(format!(
                "{kind} in version \"{api_version}\" cannot be handled as a {}",
                self.resource.kind
            )));
        }
        if object["metadata"].is_null() {
            object["metadata"] = json!({});
        }
        if !object["metadata"].is_object() {
            return Err(Failure::bad_request("metadata is not an object"));
        }
        Ok(object)
    }

    /// The object must not name another namespace than its path.
    pub(super) fn check_namespace(&self, metadata: &Value) -> Result<(), Failure> {
        let namespace = text(metadata, "namespace");
        if self.resource.is_namespaced() && !namespace.is_empty() && namespace != self.namespace {
            return Err(Failure::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        Ok(())
    }

    /// The name and namespace of an update must be those of its path.
    pub(super) fn check_identity(&self, object: &Value) -> Result<(), Failure> {
        let name = text(&object["metadata"], "name");
        if !name.is_empty() && name != self.name {
            return Err(Failure::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                self.name
            )));
        }
        self.check_namespace(&object["metadata"])
    }

    /// Labels and annotations must map text to text.
    pub(super) fn validate(&self, object: &Value, name: &str) -> Result<(), Failure> {
        for map in ["labels", "annotations"] {
            let is_valid = object["metadata"].get(map).is_none_or(|value| {
                value
                    .as_object()
                    .is_some_and(|map| map.values().all(Value::is_string))
            });
            if !is_valid {
                let field = format!("metadata.{map}");
                let body = "Invalid value: must be a map of strings";
                return Err(Failure::invalid(
                    self.resource,
                    name,
                    "FieldValueInvalid",
                    &field,
                    body,
                ));
            }
        }
        Ok(())
    }

    /// An object that is being deleted gets no new finalizers.
    pub(super) fn check_finalizers(&self, old: &Value, new: &Value) -> Result<(), Failure> {
        if old["metadata"].get("deletionTimestamp").is_none() {
            return Ok(());
        }
        let before = finalizers(old);
        let added: Vec<String> = finalizers(new)
            .iter()
            .filter(|finalizer| !before.contains(finalizer))
            .map(ToString::to_string)
            .collect();
        if added.is_empty() {
            return Ok(());
        }
        let body = format!(
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers \
             []string{{{}}}",
            added.join(", ")
        );
        Err(Failure::invalid(
            self.resource,
            self.name,
            "FieldValueForbidden",
            "metadata.finalizers",
            &body,
        ))
    }
}
