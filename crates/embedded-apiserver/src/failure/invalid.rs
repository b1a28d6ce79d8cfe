//! 422: invalid fields of an object, a patch or options.

use serde_json::{Value, json};

use super::{Cause, StatusError, details};
use crate::resource::Resource;

impl StatusError {
    /// One field is invalid. `body` is the message without the field, e.g. `Required value: name or generateName is
    /// required`.
    pub(crate) fn invalid(
        resource: &Resource,
        name: &str,
        cause: &'static str,
        field: &str,
        body: &str,
    ) -> Self {
        Self::invalid_fields(resource, name, &[Cause::new(cause, field, body.to_owned())])
    }

    /// An update lacks a required resourceVersion. Names the plural, as upstream does.
    pub(crate) fn version_required(resource: &Resource, name: &str) -> Self {
        let cause = Cause::invalid("metadata.resourceVersion", "0", "must be specified for an update");
        let qualified = resource.qualified_plural();
        Self::invalid_as(&qualified, resource.group, resource.plural, name, &[cause])
    }

    /// Options of a request are invalid; `kind` is `ListOptions` and the like.
    pub(crate) fn bad_options(kind: &str, causes: &[Cause]) -> Self {
        Self::invalid_as(&format!("{kind}.meta.k8s.io"), "meta.k8s.io", kind, "", causes)
    }

    /// Several fields are invalid.
    pub(crate) fn invalid_fields(resource: &Resource, name: &str, causes: &[Cause]) -> Self {
        Self::invalid_as(
            &resource.qualified_kind(),
            resource.group,
            resource.kind,
            name,
            causes,
        )
    }

    /// Like [`Self::invalid_fields`], for a kind that differs from that of the path.
    pub(crate) fn invalid_as(qualified: &str, group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let mut messages: Vec<String> = causes.iter().map(ToString::to_string).collect();
        messages.dedup();
        let why = match messages.as_slice() {
            [one] => one.clone(),
            more => format!("[{}]", more.join(", ")),
        };
        let mut details = details(group, kind, name);
        details.insert("causes".to_owned(), causes.iter().map(Cause::to_json).collect());
        let message = format!("{qualified} \"{name}\" is invalid: {why}");
        Self::new(422, "Invalid", message).with(Value::Object(details))
    }

    /// The result of a patch is not an object of its kind.
    pub(crate) fn bad_patch(result: &Value, error: &str) -> Self {
        let shown = format!("{:?}", result.to_string());
        Self::invalid_as("", "", "", "", &[Cause::invalid("patch", &shown, error)])
    }

    /// An operation of a JSON patch cannot be applied.
    pub(crate) fn unprocessable() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(422, "Invalid", message).with(json!({}))
    }
}
