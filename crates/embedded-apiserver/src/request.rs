//! The record of requests.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use http::{HeaderMap, Method, header};
use serde_json::Value;

/// The effect of a request on its resource, in the words of RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RequestVerb {
    /// Read one object, or a path that is not a resource.
    Get,
    /// Read a collection.
    List,
    /// Follow a collection.
    Watch,
    /// Add an object.
    Create,
    /// Replace an object.
    Update,
    /// Change an object.
    Patch,
    /// Remove an object.
    Delete,
    /// Remove a collection.
    DeleteCollection,
}

/// A request as it arrived, and its answer's code.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RecordedRequest {
    /// The effect of the request.
    pub verb: RequestVerb,
    /// API group, empty for the core group.
    pub group: String,
    /// API version within the group.
    pub version: String,
    /// Plural name of the resource; empty for a path that is not a resource.
    pub resource: String,
    /// E.g. `status`; empty for the main resource.
    pub subresource: String,
    /// Empty for cluster-scoped resources and for all namespaces.
    pub namespace: String,
    /// Name of the object, empty for collections; the whole path if it is not a resource.
    pub name: String,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// The `Accept` header: the acceptable forms of an answer.
    pub accept: String,
    /// The query, as sent.
    pub query: String,
    /// True if the client asked for metadata only.
    pub metadata_only: bool,
    /// The body; null if there is none or it is not JSON.
    pub body: Value,
    /// Arrival, since the server's start.
    pub arrived: Duration,
    /// When it was carried out, since the server's start; `None` if it was not, or not yet.
    pub served: Option<Duration>,
    /// HTTP code of the answer; `None` while it is pending and if the connection failed.
    pub code: Option<u16>,
    /// True if the client cannot read the answer: it is cut ([`Fault::CutAnswer`](crate::Fault::CutAnswer)) or a page
    /// ([`Fault::Garbage`](crate::Fault::Garbage)).
    pub garbled: bool,
}

/// Requests in the order of their arrival.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedRequests(Vec<RecordedRequest>);

impl RequestVerb {
    /// True if the verb changes something.
    pub fn is_write(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

impl fmt::Display for RequestVerb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        })
    }
}

impl RecordedRequest {
    /// True if the request reads a whole collection: as a list, or as a watch that begins with one.
    pub fn lists(&self) -> bool {
        self.verb == RequestVerb::List || self.query.contains("sendInitialEvents=true")
    }

    pub(super) fn new(
        method: &Method,
        uri: &http::Uri,
        headers: &HeaderMap,
        body: &[u8],
        watch: bool,
    ) -> Self {
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let mut request = Self {
            verb: RequestVerb::Get,
            group: String::new(),
            version: String::new(),
            resource: String::new(),
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
            user_agent: header(header::USER_AGENT).unwrap_or_default().to_owned(),
            accept: header(header::ACCEPT).unwrap_or_default().to_owned(),
            query: uri.query().unwrap_or_default().to_owned(),
            metadata_only: header(header::ACCEPT)
                .is_some_and(|accept| accept.contains("PartialObjectMetadata")),
            body: serde_json::from_slice(body).unwrap_or_default(),
            arrived: Duration::ZERO,
            served: None,
            code: None,
            garbled: false,
        };
        request.read_path(uri.path());
        request.verb = match *method {
            Method::POST => RequestVerb::Create,
            Method::PUT => RequestVerb::Update,
            Method::PATCH => RequestVerb::Patch,
            Method::DELETE if request.name.is_empty() => RequestVerb::DeleteCollection,
            Method::DELETE => RequestVerb::Delete,
            _ if watch && request.name.is_empty() => RequestVerb::Watch,
            _ if request.name.is_empty() => RequestVerb::List,
            _ => RequestVerb::Get,
        };
        request
    }

    /// Parses a path.
    fn read_path(&mut self, path: &str) {
        let inner = path.strip_prefix('/').unwrap_or(path);
        let parts: Vec<&str> = inner.trim_end_matches('/').split('/').collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => ("", "", &[] as &[&str]),
        };
        let (namespace, resource, name, subresource) = match *rest {
            ["namespaces", namespace, resource, name, subresource] if !is_of_namespace(resource) => {
                (namespace, resource, name, subresource)
            }
            ["namespaces", namespace, resource, name] if !is_of_namespace(resource) => {
                (namespace, resource, name, "")
            }
            ["namespaces", namespace, resource] if !is_of_namespace(resource) => {
                (namespace, resource, "", "")
            }
            [resource, name, subresource] => ("", resource, name, subresource),
            [resource, name] => ("", resource, name, ""),
            [resource] => ("", resource, "", ""),
            _ => ("", "", path, ""),
        };
        group.clone_into(&mut self.group);
        version.clone_into(&mut self.version);
        namespace.clone_into(&mut self.namespace);
        resource.clone_into(&mut self.resource);
        name.clone_into(&mut self.name);
        subresource.clone_into(&mut self.subresource);
    }
}

/// True for subresources of the namespace itself, which take the place of its resources in a path.
fn is_of_namespace(part: &str) -> bool {
    matches!(part, "status" | "finalize")
}

/// Prints `patch nodes/node-1 {"metadata":…}`, `create kube-system/leases {…}`, `update default/pods/p/status {…}`.
impl fmt::Display for RecordedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.verb)?;
        let parts = [&self.namespace, &self.resource, &self.name, &self.subresource];
        let path: Vec<&str> = parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .map(String::as_str)
            .collect();
        f.write_str(&path.join("/"))?;
        if self.body.is_null() {
            Ok(())
        } else {
            write!(f, " {}", self.body)
        }
    }
}

impl RecordedRequests {
    pub(super) fn new(requests: Vec<RecordedRequest>) -> Self {
        Self(requests)
    }

    /// The requests that change something.
    #[must_use]
    pub fn writes(&self) -> Self {
        self.only(|request| request.verb.is_write())
    }

    /// The requests to one resource, by plural name.
    #[must_use]
    pub fn to(&self, resource: &str) -> Self {
        self.only(|request| request.resource == resource)
    }

    /// The requests for which `wanted` returns true.
    #[must_use]
    pub fn only(&self, wanted: impl Fn(&RecordedRequest) -> bool) -> Self {
        Self(self.0.iter().filter(|request| wanted(request)).cloned().collect())
    }

    /// One line per request, as [`RecordedRequest`] prints it.
    pub fn lines(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }
}

impl Deref for RecordedRequests {
    type Target = [RecordedRequest];

    fn deref(&self) -> &[RecordedRequest] {
        &self.0
    }
}

impl IntoIterator for RecordedRequests {
    type Item = RecordedRequest;
    type IntoIter = std::vec::IntoIter<RecordedRequest>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(method: &Method, uri: &str, body: &str) -> String {
        let uri: http::Uri = uri.parse().unwrap();
        let watch = uri.query().is_some_and(|query| query.contains("watch=true"));
        RecordedRequest::new(method, &uri, &HeaderMap::new(), body.as_bytes(), watch).to_string()
    }

    #[test]
    fn requests_are_printed_as_verb_path_and_body() {
        let pods = "/api/v1/namespaces/default/pods";
        for (method, uri, body, printed) in [
            (
                Method::PATCH,
                "/api/v1/nodes/n",
                r#"{"metadata": {}}"#,
                r#"patch nodes/n {"metadata":{}}"#,
            ),
            (
                Method::GET,
                "/apis/coordination.k8s.io/v1/leases?watch=true",
                "",
                "watch leases",
            ),
            (Method::GET, pods, "", "list default/pods"),
            (
                Method::PUT,
                &format!("{pods}/p/status"),
                "{}",
                "update default/pods/p/status {}",
            ),
            (
                Method::GET,
                "/api/v1/namespaces/default",
                "",
                "get namespaces/default",
            ),
            (Method::DELETE, "/api/v1/nodes", "", "deletecollection nodes"),
            (Method::GET, "/version", "", "get /version"),
        ] {
            assert_eq!(line(&method, uri, body), printed);
        }
    }
}
