//! Requests that nothing answers to, or not in this form.

use serde_json::json;

use super::Failure;
use crate::embedded::request::Verb;
use crate::embedded::resource::Resource;

/// What kube-apiserver reads and writes; this server, JSON alone.
const MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

impl Failure {
    /// A path that no resource answers to.
    pub(in crate::embedded) fn no_such_resource() -> Self {
        let mut failure = Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        );
        failure.details = Some(json!({}));
        failure
    }

    pub(in crate::embedded) fn method_not_allowed() -> Self {
        let mut failure = Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        );
        failure.details = Some(json!({}));
        failure
    }

    /// A subresource that a resource does not have.
    pub(in crate::embedded) fn no_such_subresource(resource: &Resource, name: &str) -> Self {
        if resource.is_custom() {
            Self::not_found(resource, name)
        } else {
            Self::no_such_resource()
        }
    }

    /// A verb that a subresource does not have.
    pub(in crate::embedded) fn not_below(resource: &Resource, verb: Verb) -> Self {
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
    pub(in crate::embedded) fn no_strategic_merge() -> Self {
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
    pub(in crate::embedded) fn unsupported_patch() -> Self {
        let mut failure = Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
        failure.details = Some(json!({}));
        failure
    }

    pub(in crate::embedded) fn unsupported_body() -> Self {
        Self::new(
            415,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: {MEDIA_TYPES}"
            ),
        )
    }

    /// A body that is longer than the API server reads.
    pub(in crate::embedded) fn body_too_large(limit: usize) -> Self {
        Self::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {limit}"),
        )
    }

    /// No media type of the `Accept` header can be written.
    pub(in crate::embedded) fn not_acceptable() -> Self {
        let message = format!("only the following media types are accepted: {MEDIA_TYPES}");
        Self::new(406, "NotAcceptable", message)
    }
}
