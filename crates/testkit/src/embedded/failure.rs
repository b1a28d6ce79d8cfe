//! Refusals, as `metav1.Status` in the words of kube-apiserver (apimachinery `api/errors`).

use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::request::Verb;
use super::resource::Resource;

/// A refused request: an HTTP code and a `Status` body.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, e.g. `NotFound`; empty where the API server gives none.
    pub reason: String,
    /// Message for people.
    pub message: String,
    /// `details` of the Status.
    pub details: Option<Value>,
    /// A token that resumes an expired paged list at the latest version.
    pub continue_token: Option<String>,
}

/// Why a request was refused, one of the causes in the details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    /// For machines, e.g. `FieldValueInvalid`.
    pub(super) reason: &'static str,
    pub(super) field: String,
    /// For people, without the field.
    pub(super) message: String,
}

impl Cause {
    fn to_json(&self) -> Value {
        json!({ "reason": self.reason, "message": self.message, "field": self.field })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";
/// What kube-apiserver reads and writes; this server, JSON alone.
const MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const INCONSISTENT_CONTINUE: &str = "The provided continue parameter is too old to display a consistent list \
     result. You can start a new list without the continue parameter, or use the continue token in this \
     response to retrieve the remainder of the results. Continuing with the provided token results in an \
     inconsistent list - objects that were created, modified, or deleted between the time the first chunk was \
     returned and now may show up in the list.";

/// What is wrong with it (apimachinery `util/validation/field`); `shown` is the value as JSON.
impl Cause {
    fn new(reason: &'static str, field: &str, message: String) -> Self {
        Self {
            reason,
            field: field.to_owned(),
            message,
        }
    }

    pub(super) fn forbidden(field: &str, why: &str) -> Self {
        Self::new("FieldValueForbidden", field, format!("Forbidden: {why}"))
    }

    pub(super) fn required(field: &str, why: &str) -> Self {
        Self::new("FieldValueRequired", field, format!("Required value: {why}"))
    }

    pub(super) fn invalid(field: &str, shown: &str, why: &str) -> Self {
        Self::new(
            "FieldValueInvalid",
            field,
            format!("Invalid value: {shown}: {why}"),
        )
    }

    pub(super) fn too_long(field: &str, limit: usize) -> Self {
        Self::new(
            "FieldValueTooLong",
            field,
            format!("Too long: may not be more than {limit} bytes"),
        )
    }

    pub(super) fn not_supported(field: &str, shown: &str, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|value| format!("\"{value}\"")).collect();
        Self::new(
            "FieldValueNotSupported",
            field,
            format!(
                "Unsupported value: {shown}: supported values: {}",
                supported.join(", ")
            ),
        )
    }
}

impl Failure {
    /// A failure without details.
    pub fn new(code: u16, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
            message: message.into(),
            details: None,
            continue_token: None,
        }
    }

    /// The `Status` body.
    pub fn to_status(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".to_owned(), json!(token));
        }
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status
    }

    /// How long the client is asked to wait, for the `Retry-After` header.
    pub(super) fn retry_after(&self) -> Option<u64> {
        self.details.as_ref()?.get("retryAfterSeconds")?.as_u64()
    }

    /// Asks the client to wait.
    #[must_use]
    pub(super) fn retry_in(mut self, wait: Duration) -> Self {
        let details = self.details.get_or_insert_with(|| json!({}));
        details["retryAfterSeconds"] = json!(wait.as_secs());
        self
    }

    pub(super) fn not_found(resource: &Resource, name: &str) -> Self {
        Self::about(
            404,
            "NotFound",
            resource,
            name,
            format!("{} \"{name}\" not found", resource.qualified_plural()),
        )
    }

    pub(super) fn already_exists(resource: &Resource, name: &str) -> Self {
        Self::about(
            409,
            "AlreadyExists",
            resource,
            name,
            format!("{} \"{name}\" already exists", resource.qualified_plural()),
        )
    }

    /// A create of a custom resource whose definition is being deleted.
    pub(super) fn definition_terminating(resource: &Resource, name: &str) -> Self {
        let message = format!(
            "{} \"{name}\" is forbidden: create not allowed while custom resource definition is terminating",
            resource.qualified_plural()
        );
        Self::about(403, "Forbidden", resource, name, message)
    }

    /// A clash of a create that asked for a generated name.
    pub(super) fn not_generated(resource: &Resource, name: &str) -> Self {
        let mut failure = Self::already_exists(resource, name);
        failure
            .message
            .push_str(", the server was not able to generate a unique name for the object");
        failure.retry_in(Duration::from_secs(1))
    }

    /// What the API server's rules do not let anybody do.
    pub(super) fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", resource.qualified_plural());
        Self::about(403, "Forbidden", resource, name, message)
    }

    /// Adds a cause to the details.
    #[must_use]
    pub(super) fn because(mut self, cause: &Cause) -> Self {
        let details = self.details.get_or_insert_with(|| json!({}));
        if let Some(causes) = details["causes"].as_array_mut() {
            causes.push(cause.to_json());
        } else {
            details["causes"] = json!([cause.to_json()]);
        }
        self
    }

    /// The object changed since the client read it.
    pub(super) fn modified(resource: &Resource, name: &str) -> Self {
        Self::conflict(resource, resource.plural, name, MODIFIED)
    }

    /// A precondition does not hold, in the words of the storage.
    pub(super) fn storage_precondition(resource: &Resource, name: &str, cause: &str) -> Self {
        Self::conflict(resource, resource.plural, name, cause)
    }

    /// The uid of an update is not the object's.
    pub(super) fn wrong_uid(resource: &Resource, key: &str, wanted: &str, found: &str) -> Self {
        let what = format!("UID in precondition: {wanted}, UID in object meta: {found}");
        Self::precondition(resource, key, &what)
    }

    /// A precondition that storage found not to hold for the object under `key`.
    pub(super) fn precondition(resource: &Resource, key: &str, what: &str) -> Self {
        let name = key.rsplit('/').next().unwrap_or_default();
        let table = match (resource.is_custom(), resource.plural) {
            (true, plural) => format!("{}/{plural}", resource.group),
            (false, "nodes") => "minions".to_owned(),
            (false, plural) => plural.to_owned(),
        };
        let cause = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{table}/{key}, ResourceVersion: 0, \
             AdditionalErrorMsg: Precondition failed: {what}"
        );
        Self::conflict(resource, resource.plural, name, &cause)
    }

    /// An applied object means one with a uid, and there is none.
    pub(super) fn nobody_with_uid(resource: &Resource, name: &str, wanted: &str) -> Self {
        let cause = format!(
            "uid mismatch: the provided object specified uid {wanted}, and no existing object was found"
        );
        Self::conflict(resource, resource.plural, name, &cause)
    }

    /// The uid of a delete's preconditions is not the object's.
    pub(super) fn uid_precondition(resource: &Resource, name: &str, wanted: &str, found: &str) -> Self {
        let cause = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({found}). \
             The object might have been deleted and then recreated"
        );
        Self::conflict(resource, resource.kind, name, &cause)
    }

    /// The resourceVersion of a delete's preconditions is not the object's.
    pub(super) fn version_precondition(resource: &Resource, name: &str, wanted: &str, found: u64) -> Self {
        let cause = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
             ({found}). The object might have been modified"
        );
        Self::conflict(resource, resource.kind, name, &cause)
    }

    /// A conflict of any other kind; `called` is what the message calls the resource.
    pub(super) fn conflict(resource: &Resource, called: &str, name: &str, cause: &str) -> Self {
        let qualified = if resource.group.is_empty() {
            called.to_owned()
        } else {
            format!("{called}.{}", resource.group)
        };
        let mut failure = Self::about(
            409,
            "Conflict",
            resource,
            name,
            format!("Operation cannot be fulfilled on {qualified} \"{name}\": {cause}"),
        );
        if let Some(details) = &mut failure.details {
            details["kind"] = json!(called);
        }
        failure
    }

    /// One field of an object is not acceptable. `body` is the message without the field, e.g.
    /// `Required value: name or generateName is required`.
    pub(super) fn invalid(
        resource: &Resource,
        name: &str,
        cause: &'static str,
        field: &str,
        body: &str,
    ) -> Self {
        Self::invalid_fields(resource, name, &[Cause::new(cause, field, body.to_owned())])
    }

    /// An update without a resourceVersion where one is needed: named by the plural, as upstream does.
    pub(super) fn version_required(resource: &Resource, name: &str) -> Self {
        let cause = Cause::invalid("metadata.resourceVersion", "0", "must be specified for an update");
        Self::invalid_for(
            &resource.qualified_plural(),
            resource.group,
            resource.plural,
            name,
            &[cause],
        )
    }

    pub(super) fn invalid_as(
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
    pub(super) fn bad_options(kind: &str, causes: &[Cause]) -> Self {
        Self::invalid_for(&format!("{kind}.meta.k8s.io"), "meta.k8s.io", kind, "", causes)
    }

    /// Several fields of an object are not acceptable.
    pub(super) fn invalid_fields(resource: &Resource, name: &str, causes: &[Cause]) -> Self {
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
    pub(super) fn bad_patch(result: &Value, error: &str) -> Self {
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
    pub(super) fn unprocessable() -> Self {
        let mut failure = Self::new(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        );
        failure.details = Some(json!({}));
        failure
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// An object of another namespace than its path.
    pub(super) fn other_namespace() -> Self {
        Self::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )
    }

    /// A path that no resource answers to.
    pub(super) fn no_such_resource() -> Self {
        let mut failure = Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        );
        failure.details = Some(json!({}));
        failure
    }

    pub(super) fn method_not_allowed() -> Self {
        let mut failure = Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        );
        failure.details = Some(json!({}));
        failure
    }

    /// A subresource that a resource does not have.
    pub(super) fn no_such_subresource(resource: &Resource, name: &str) -> Self {
        if resource.is_custom() {
            Self::not_found(resource, name)
        } else {
            Self::no_such_resource()
        }
    }

    /// A verb that a subresource does not have.
    pub(super) fn not_below(resource: &Resource, verb: Verb) -> Self {
        if !resource.is_custom() {
            return Self::method_not_allowed();
        }
        let message = format!(
            "{verb} is not supported on resources of kind \"{}\"",
            resource.qualified_plural()
        );
        Self::about(405, "MethodNotAllowed", resource, "", message)
    }

    /// A strategic merge patch of a custom resource.
    pub(super) fn no_strategic_merge() -> Self {
        let known = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
        Self::new(
            415,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: {known}"
            ),
        )
    }

    /// A patch in a format that the server does not know.
    pub(super) fn unsupported_patch() -> Self {
        let mut failure = Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
        failure.details = Some(json!({}));
        failure
    }

    pub(super) fn unsupported_body() -> Self {
        Self::new(
            415,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: {MEDIA_TYPES}"
            ),
        )
    }

    /// A body that is longer than the API server reads.
    pub(super) fn body_too_large(limit: usize) -> Self {
        Self::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {limit}"),
        )
    }

    /// No media type of the `Accept` header can be written; lists and watches can also be streamed.
    pub(super) fn not_acceptable(streams: bool) -> Self {
        let streamed = if streams {
            ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
        } else {
            ""
        };
        let message = format!("406: Not Acceptable\n\nAvailable representations: {MEDIA_TYPES}{streamed}");
        let mut failure = Self::new(406, "NotAcceptable", message);
        failure.details = Some(json!({}));
        failure
    }

    /// The media type is known, what it asks to be transformed into is not.
    pub(super) fn not_transformable() -> Self {
        Self::new(
            406,
            "NotAcceptable",
            format!("only the following media types are accepted: {MEDIA_TYPES}"),
        )
    }

    /// The client takes no JSON where there is nothing else.
    pub(super) fn no_other_form() -> Self {
        let message = "406: Not Acceptable\n\nAvailable representations: application/json";
        let mut failure = Self::new(406, "NotAcceptable", message);
        failure.details = Some(json!({}));
        failure
    }

    /// The metadata of a list was asked for as that of an object, or the other way round.
    pub(super) fn not_of_this_shape(resource: &Resource, is_list: bool) -> Self {
        let package = match resource.group {
            "" => "core",
            group => group.split('.').next().unwrap_or_default(),
        };
        let kind = resource.kind;
        let message = if is_list {
            format!(
                "you requested PartialObjectMetadata, but the requested object is a list (*{package}.{kind}List)"
            )
        } else {
            format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list (*{package}.{kind})"
            )
        };
        Self::new(406, "NotAcceptable", message)
    }

    /// The version asked for was not reached in time.
    pub(super) fn version_too_large(wanted: u64, current: u64) -> Self {
        let mut failure = Self::new(
            504,
            "Timeout",
            format!("Timeout: Too large resource version: {wanted}, current: {current}"),
        );
        failure.details = Some(json!({
            "causes": [{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }],
            "retryAfterSeconds": 1,
        }));
        failure
    }

    /// A list at a version that was compacted.
    pub(super) fn list_expired() -> Self {
        Self::expired("The resourceVersion for the provided list is too old.")
    }

    /// A further page of a list whose version was compacted.
    pub(super) fn continue_expired(token: String) -> Self {
        let mut failure = Self::expired(INCONSISTENT_CONTINUE);
        failure.continue_token = Some(token);
        failure
    }

    /// A watch from a version that was compacted.
    pub(super) fn watch_expired(wanted: u64, oldest: u64) -> Self {
        Self::expired(&format!("too old resource version: {wanted} ({oldest})"))
    }

    fn expired(message: &str) -> Self {
        Self::new(410, "Expired", message)
    }

    /// A failure about an object, named in its details.
    pub(super) fn about(code: u16, reason: &str, resource: &Resource, name: &str, message: String) -> Self {
        let mut failure = Self::new(code, reason, message);
        failure.details = Some(Value::Object(details(resource.group, resource.plural, name)));
        failure
    }
}

fn details(group: &str, kind: &str, name: &str) -> Map<String, Value> {
    [("name", name), ("group", group), ("kind", kind)]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect()
}
