//! 422: what is wrong with an object, a patch or options, field by field.

use serde_json::{Value, json};

use super::{Cause, Failure, details};
use crate::embedded::resource::Resource;

impl Failure {
    /// One field of an object is not acceptable. `body` is the message without the field, e.g.
    /// `Required value: name or generateName is required`.
    pub(in crate::embedded) fn invalid(
        resource: &Resource,
        name: &str,
        cause: &'static str,
        field: &str,
        body: &str,
    ) -> Self {
        Self::invalid_fields(resource, name, &[Cause::new(cause, field, body.to_owned())])
    }

    /// An update without a resourceVersion where one is needed: named by the plural, as upstream does.
    pub(in crate::embedded) fn version_required(resource: &Resource, name: &str) -> Self {
        let cause = Cause::invalid("metadata.resourceVersion", "0", "must be specified for an update");
        Self::invalid_for(
            &resource.qualified_plural(),
            resource.group,
            resource.plural,
            name,
            &[cause],
        )
    }

    pub(in crate::embedded) fn invalid_as(
        qualified: &str,
        group: &str,
        kind: &str,
        name: &str,
        cause: &'static str,
        field: &str,
        body: &str,
    ) -> Self {
        let causes = [Cause::new(cause, field, body.to_owned())];
        Self::invalid_for(qualified, group, kind, name, &causes)
    }

    /// Options of a request, of the kind `ListOptions` and the like, that cannot be met.
    pub(in crate::embedded) fn bad_options(kind: &str, causes: &[Cause]) -> Self {
        Self::invalid_for(&format!("{kind}.meta.k8s.io"), "meta.k8s.io", kind, "", causes)
    }

    /// Several fields of an object are not acceptable.
    pub(in crate::embedded) fn invalid_fields(resource: &Resource, name: &str, causes: &[Cause]) -> Self {
        Self::invalid_for(
            &resource.qualified_kind(),
            resource.group,
            resource.kind,
            name,
            causes,
        )
    }

    fn invalid_for(qualified: &str, group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let mut messages: Vec<String> = causes.iter().map(ToString::to_string).collect();
        messages.dedup();
        let why = match messages.as_slice() {
            [one] => one.clone(),
            more => format!("[{}]", more.join(", ")),
        };
        let mut failure = Self::new(
            422,
            "Invalid",
            format!("{qualified} \"{name}\" is invalid: {why}"),
        );
        let causes: Vec<Value> = causes.iter().map(Cause::to_json).collect();
        let mut details = details(group, kind, name);
        details.insert("causes".to_owned(), json!(causes));
        failure.details = Some(Value::Object(details));
        failure
    }

    /// A patch whose result is no object of its kind.
    pub(in crate::embedded) fn bad_patch(result: &Value, error: &str) -> Self {
        let shown = result.to_string();
        Self::invalid_as(
            "",
            "",
            "",
            "",
            "FieldValueInvalid",
            "patch",
            &format!("Invalid value: {shown:?}: {error}"),
        )
    }

    /// An operation of a JSON patch that cannot be done.
    pub(in crate::embedded) fn unprocessable() -> Self {
        let mut failure = Self::new(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        );
        failure.details = Some(json!({}));
        failure
    }
}
