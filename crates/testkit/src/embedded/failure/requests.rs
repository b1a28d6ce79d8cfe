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

    /// No media type of the `Accept` header can be written; lists and watches can also be streamed.
    pub(in crate::embedded) fn not_acceptable(streams: bool) -> Self {
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
    pub(in crate::embedded) fn not_transformable() -> Self {
        Self::new(
            406,
            "NotAcceptable",
            format!("only the following media types are accepted: {MEDIA_TYPES}"),
        )
    }

    /// The metadata of a list was asked for as that of an object, or the other way round.
    pub(in crate::embedded) fn not_of_this_shape(resource: &Resource, is_list: bool) -> Self {
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
}
