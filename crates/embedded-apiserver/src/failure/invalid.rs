//! 422: what is wrong with an object, a patch or options, field by field.

use serde_json::{Value, json};

use super::{Cause, StatusError, details};
use crate::resource::Resource;

impl StatusError {
    /// One field of an object is not acceptable. `body` is the message without the field, e.g.
    /// `Required value: name or generateName is required`.
    pub(crate) fn invalid(
        resource: &Resource,
        name: &str,
        cause: &'static str,
        field: &str,
        body: &str,
    ) -> Self {
        Self::invalid_fields(resource, name, &[Cause::new(cause, field, body.to_owned())])
    }

    /// An update without a resourceVersion where one is needed: named by the plural, as upstream does.
    pub(crate) fn version_required(resource: &Resource, name: &str) -> Self {
        let cause = Cause::invalid("metadata.resourceVersion", "0", "must be specified for an update");
        let qualified = resource.qualified_plural();
        Self::invalid_as(&qualified, resource.group, resource.plural, name, &[cause])
    }

    /// Options of a request, of the kind `ListOptions` and the like, that cannot be met.
    pub(crate) fn bad_options(kind: &str, causes: &[Cause]) -> Self {
        Self::invalid_as(&format!("{kind}.meta.k8s.io"), "meta.k8s.io", kind, "", causes)
    }

    /// Several fields of an object are not acceptable.
    pub(crate) fn invalid_fields(resource: &Resource, name: &str, causes: &[Cause]) -> Self {
        Self::invalid_as(
            &resource.qualified_kind(),
            resource.group,
            resource.kind,
            name,
            causes,
        )
    }

    /// The same of something that calls itself otherwise than the resource of its path.
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

    /// A patch whose result is no object of its kind.
    pub(crate) fn bad_patch(result: &Value, error: &str) -> Self {
        let shown = format!("{:?}", result.to_string());
        Self::invalid_as("", "", "", "", &[Cause::invalid("patch", &shown, error)])
    }

    /// An operation of a JSON patch that cannot be done.
    pub(crate) fn unprocessable() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(422, "Invalid", message).with(json!({}))
    }
}
