//! Checks of an object before it is written.

use serde_json::{Value, json};

use crate::failure::{Cause, StatusError};
use crate::object::{finalizers, text};
use crate::write::{Origin, Write};

impl Write<'_> {
    /// Checks kind and apiVersion of an object, and adds missing metadata.
    pub(super) fn well_formed(&self, mut object: Value) -> Result<Value, StatusError> {
        if self.resource.is_custom() && self.origin == Origin::Client {
            self.check_custom_kind(&object)?;
        }
        let or = |field: &str, default: &str| match text(&object, field) {
            "" => default.to_owned(),
            given => given.to_owned(),
        };
        let api_version = self.resource.api_version();
        let (kind, version) = (or("kind", self.resource.kind), or("apiVersion", &api_version));
        let refused = |version: &str, why: &str| {
            StatusError::bad_request(format!(
                "{kind} in version \"{version}\" cannot be handled as a {}: {why}",
                self.resource.kind
            ))
        };
        if kind != self.resource.kind || version != api_version {
            let why = format!("no kind \"{kind}\" is registered for version \"{version}\"");
            return Err(refused(version.rsplit('/').next().unwrap_or_default(), &why));
        }
        if object["metadata"].is_null() {
            object["metadata"] = json!({});
        }
        Ok(object)
    }

    /// A custom resource must name its kind: no Go type implies it.
    fn check_custom_kind(&self, object: &Value) -> Result<(), StatusError> {
        let (kind, api_version) = (text(object, "kind"), text(object, "apiVersion"));
        let expected = self.resource.api_version();
        if kind.is_empty() {
            return Err(StatusError::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{object}'",
                self.resource.kind
            )));
        }
        if api_version != expected {
            return Err(StatusError::bad_request(format!(
                "the API version in the data ({api_version}) does not match the expected API version ({expected})"
            )));
        }
        if kind != self.resource.kind {
            let (group, name) = (self.resource.group, text(&object["metadata"], "name"));
            let why = format!("must be {}", self.resource.kind);
            let cause = Cause::invalid("kind", &format!("\"{kind}\""), &why);
            return Err(StatusError::invalid_as(
                &format!("{kind}.{group}"),
                group,
                kind,
                name,
                &[cause],
            ));
        }
        Ok(())
    }

    /// The object's namespace, if given, must be that of its path.
    pub(super) fn check_namespace(&self, metadata: &Value) -> Result<(), StatusError> {
        let namespace = text(metadata, "namespace");
        if self.resource.is_namespaced() && !namespace.is_empty() && namespace != self.namespace {
            return Err(StatusError::other_namespace());
        }
        Ok(())
    }

    /// Name and namespace of an updated object must be those of its path; the name is required.
    pub(super) fn check_identity(&self, object: &Value) -> Result<(), StatusError> {
        let name = text(&object["metadata"], "name");
        if name.is_empty() {
            return Err(StatusError::bad_request(format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                self.name
            )));
        }
        if name != self.name {
            return Err(StatusError::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                self.name
            )));
        }
        self.check_namespace(&object["metadata"])
    }

    /// Nothing may add finalizers to an object that is being deleted.
    pub(super) fn check_finalizers(&self, old: &Value, new: &Value) -> Result<(), StatusError> {
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
        let field = "metadata.finalizers";
        Err(StatusError::invalid(
            self.resource,
            self.name,
            "FieldValueForbidden",
            field,
            &body,
        ))
    }
}

/// The body of a request for a subresource may omit its kind, but must not have another.
pub(super) fn check_kind(
    body: &Value,
    kind: &str,
    group: &str,
    versions: &[&str],
) -> Result<(), StatusError> {
    let (found, api_version) = (text(body, "kind"), text(body, "apiVersion"));
    let (found_group, found_version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let is_version = api_version.is_empty() || (found_group == group && versions.contains(&found_version));
    if body.is_object() && is_version && (found.is_empty() || found == kind) {
        return Ok(());
    }
    // Go names the package of internal types after the first part of the group.
    let package = match group.split('.').next().unwrap_or_default() {
        "" => "core",
        package => package,
    };
    Err(StatusError::bad_request(format!(
        "{found} in version \"{found_version}\" cannot be handled as a {kind}: converting ({found_version}.{found}) to \
         ({package}.{kind}): unknown conversion"
    )))
}

/// The resourceVersion that a write requires; 0 for none.
pub(super) fn requested_version(metadata: &Value) -> Result<u64, StatusError> {
    let version = text(metadata, "resourceVersion");
    if version.is_empty() {
        return Ok(0);
    }
    version.parse().map_err(|_| {
        StatusError::new(
            500,
            "",
            format!("strconv.ParseUint: parsing \"{version}\": invalid syntax"),
        )
    })
}
