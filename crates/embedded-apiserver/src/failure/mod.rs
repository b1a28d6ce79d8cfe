//! Refusals: `metav1.Status` in the words of kube-apiserver (apimachinery `api/errors`).

mod cause;
mod conflicts;
mod invalid;
mod requests;
mod versions;

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::resource::Resource;

pub(super) use cause::Cause;

/// A refused request: an HTTP code and a `Status` body.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct StatusError {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, e.g. `NotFound`; empty if kube-apiserver gives none.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
    /// `details` of the Status.
    pub details: Option<Value>,
    /// A token that resumes an expired paged list at the latest version.
    pub continue_token: Option<String>,
}

impl StatusError {
    /// A refusal without details.
    pub fn new(code: u16, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
            message: message.into(),
            details: None,
            continue_token: None,
        }
    }

    /// Replaces the details.
    #[must_use]
    pub(super) fn with(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    /// The `Status` body.
    pub(super) fn to_status(&self) -> Value {
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

    /// Seconds that the client must wait, for the `Retry-After` header.
    pub(super) fn retry_after(&self) -> Option<u64> {
        self.details.as_ref()?.get("retryAfterSeconds")?.as_u64()
    }

    /// Tells the client to retry after this time.
    #[must_use]
    pub(super) fn retry_in(mut self, wait: Duration) -> Self {
        let details = self.details.get_or_insert_with(|| json!({}));
        details["retryAfterSeconds"] = json!(wait.as_secs());
        self
    }

    pub(super) fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", resource.qualified_plural());
        Self::about(404, "NotFound", resource, name, message)
    }

    pub(super) fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", resource.qualified_plural());
        Self::about(409, "AlreadyExists", resource, name, message)
    }

    /// A create with a generated name met an existing object.
    pub(super) fn not_generated(resource: &Resource, name: &str) -> Self {
        let mut failure = Self::already_exists(resource, name);
        failure.message += ", the server was not able to generate a unique name for the object";
        failure.retry_in(Duration::from_secs(1))
    }

    /// The existing object is being deleted.
    #[must_use]
    pub(super) fn of_what_is_going(mut self) -> Self {
        self.message.insert_str(0, "object is being deleted: ");
        self
    }

    /// The namespace takes no new objects.
    pub(super) fn terminating(resource: &Resource, namespace: &str, name: &str) -> Self {
        let kind = resource.qualified_plural();
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let message = format!("{kind} \"{name}\" is forbidden: {why}");
        let mut failure = Self::about(403, "Forbidden", resource, name, message);
        let why = format!("namespace {namespace} is being terminated");
        let cause = Cause::new("NamespaceTerminating", "metadata.namespace", why);
        let details = failure.details.get_or_insert_with(|| json!({}));
        details["causes"] = json!([cause.to_json()]);
        failure
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// The object's namespace is not that of its path.
    pub(super) fn other_namespace() -> Self {
        Self::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )
    }

    /// A refusal with details that name the object.
    pub(super) fn about(code: u16, reason: &str, resource: &Resource, name: &str, message: String) -> Self {
        Self::new(code, reason, message).with(Value::Object(details(resource.group, resource.plural, name)))
    }
}

/// The details of a refusal about an object; empty values are left out.
pub(super) fn details(group: &str, kind: &str, name: &str) -> Map<String, Value> {
    [("name", name), ("group", group), ("kind", kind)]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect()
}
