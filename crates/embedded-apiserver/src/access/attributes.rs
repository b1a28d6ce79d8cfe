//! The attributes of a request that authorization looks at.

use http::Method;
use serde_json::{Map, Value};

use super::User;
use crate::failure::{self, StatusError};
use crate::options::Parameters;
use crate::request::{RecordedRequest, RequestVerb};
use crate::resource::qualify;

/// What a request needs and a rule of a role can allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attributes {
    /// An operation on a resource.
    Resource {
        verb: String,
        group: String,
        /// Plural name, with the subresource after a slash.
        resource: String,
        /// Empty for cluster-scoped resources and for all namespaces; for a Namespace its own name.
        namespace: String,
        /// Empty if the request names no object.
        name: String,
    },
    /// An operation on a path that is not a resource.
    Path {
        /// HTTP method in lower case.
        verb: String,
        path: String,
    },
}

impl Attributes {
    pub(crate) fn of(method: &Method, request: &RecordedRequest, query: &Parameters) -> Self {
        if request.resource.is_empty() {
            return Self::Path {
                verb: method.as_str().to_lowercase(),
                path: request.name.clone(),
            };
        }
        let is_namespace = request.resource == "namespaces" && request.group.is_empty();
        let namespace = if is_namespace {
            &request.name
        } else {
            &request.namespace
        };
        let name = match request.verb {
            RequestVerb::List | RequestVerb::Watch | RequestVerb::DeleteCollection => {
                selected_name(query.get("fieldSelector"))
            }
            _ => &request.name,
        };
        let resource = if request.subresource.is_empty() {
            request.resource.clone()
        } else {
            format!("{}/{}", request.resource, request.subresource)
        };
        Self::Resource {
            verb: request.verb.to_string(),
            group: request.group.clone(),
            resource,
            namespace: namespace.clone(),
            name: name.to_owned(),
        }
    }

    /// Namespace whose role bindings apply; empty for none.
    pub(super) fn namespace(&self) -> &str {
        match self {
            Self::Resource { namespace, .. } => namespace,
            Self::Path { .. } => "",
        }
    }

    /// The refusal, in the words of kube-apiserver.
    pub(super) fn denied_to(&self, user: &User, reason: &str) -> StatusError {
        let user = &user.name;
        let colon = if reason.is_empty() { "" } else { ": " };
        let (subject, denial, details) = match self {
            Self::Path { verb, path } => (
                String::new(),
                format!("User \"{user}\" cannot {verb} path \"{path}\""),
                Map::new(),
            ),
            Self::Resource {
                verb,
                group,
                resource,
                namespace,
                name,
            } => {
                let place = if namespace.is_empty() {
                    "at the cluster scope".to_owned()
                } else {
                    format!("in the namespace \"{namespace}\"")
                };
                let plural = resource.split('/').next().unwrap_or_default();
                let mut subject = qualify(plural, group);
                if !name.is_empty() {
                    subject = format!("{subject} \"{name}\"");
                }
                (
                    format!("{subject} is "),
                    format!(
                        "User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {place}"
                    ),
                    failure::details(group, plural, name),
                )
            }
        };
        // kube-apiserver escapes HTML here.
        let denial = denial
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        let message = format!("{subject}forbidden: {denial}{colon}{reason}");
        StatusError::new(403, "Forbidden", message).with(Value::Object(details))
    }
}

/// The name that a field selector requires; empty if it requires none.
fn selected_name(selector: &str) -> &str {
    selector
        .split(',')
        .find_map(|requirement| {
            let value = requirement.strip_prefix("metadata.name=")?;
            Some(value.strip_prefix('=').unwrap_or(value))
        })
        .unwrap_or_default()
}
