//! Requests for unknown paths, with unsupported verbs, or in unsupported forms.

use serde_json::json;

use super::StatusError;
use crate::request::RequestVerb;
use crate::resource::Resource;

/// The media types that kube-apiserver names; this server does not read or write YAML.
const MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const UNSUPPORTED: &str = "UnsupportedMediaType";

impl StatusError {
    /// No resource has this path.
    pub(crate) fn no_such_resource() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
        .with(json!({}))
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).with(json!({}))
    }

    /// The resource does not have this subresource.
    pub(crate) fn no_such_subresource(resource: &Resource, name: &str) -> Self {
        if resource.is_custom() {
            Self::not_found(resource, name)
        } else {
            Self::no_such_resource()
        }
    }

    /// The subresource does not support this verb.
    pub(crate) fn not_below(resource: &Resource, verb: RequestVerb) -> Self {
        if !resource.is_custom() {
            return Self::method_not_allowed();
        }
        let kind = resource.qualified_plural();
        let message = format!("{verb} is not supported on resources of kind \"{kind}\"");
        Self::about(405, "MethodNotAllowed", resource, "", message)
    }

    /// Custom resources take no strategic merge patches.
    pub(crate) fn no_strategic_merge() -> Self {
        Self::unknown_format(
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        )
    }

    /// The format of the patch is unknown.
    pub(crate) fn unsupported_patch() -> Self {
        Self::new(415, UNSUPPORTED, "415: Unsupported Media Type").with(json!({}))
    }

    pub(crate) fn unsupported_body() -> Self {
        Self::unknown_format(MEDIA_TYPES)
    }

    fn unknown_format(known: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {known}"
        );
        Self::new(415, UNSUPPORTED, message)
    }

    /// The body is longer than kube-apiserver reads.
    pub(crate) fn body_too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// The server can write none of the media types in `Accept`.
    pub(crate) fn not_acceptable() -> Self {
        let message = format!("only the following media types are accepted: {MEDIA_TYPES}");
        Self::new(406, "NotAcceptable", message)
    }
}
