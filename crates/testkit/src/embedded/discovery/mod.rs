//! Paths that are no resources: what is served, in which version, and whether all is well.
//!
//! Everything is made from the served resources at the time of the request, so custom resources appear as
//! soon as they are served.

mod entries;
mod lists;
mod openapi;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode, header};
use serde_json::{Value, json};

use super::failure::Failure;
use super::options::Parameters;
use super::reply::{self, Body};
use super::resource::Resource;
use entries::Entry;

/// The form of discovery that tells all groups in one answer.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// The release that the server speaks like.
const RELEASE: &str = "v1.36.3";
/// Endpoints that say whether all is well.
const HEALTH: &[&str] = &["healthz", "livez", "readyz"];

/// A request for a path that is no resource.
#[derive(Clone, Copy)]
pub(super) struct Visit<'a> {
    method: &'a Method,
    path: &'a str,
    headers: &'a HeaderMap,
    is_verbose: bool,
}

impl<'a> Visit<'a> {
    pub(super) fn of(head: &'a Parts, query: &Parameters) -> Self {
        Self {
            method: &head.method,
            path: head.uri.path(),
            headers: &head.headers,
            is_verbose: query.has("verbose"),
        }
    }

    /// The answer of a server that serves these resources.
    pub(super) fn answer(self, served: &[&'static Resource]) -> Response<Body> {
        self.page(served)
            .unwrap_or_else(|failure| reply::refused(&failure))
    }

    fn page(self, served: &[&'static Resource]) -> Result<Response<Body>, Failure> {
        let inner = self.path.strip_prefix('/').unwrap_or(self.path);
        let parts: Vec<&str> = inner.trim_end_matches('/').split('/').collect();
        if let [endpoint] | [endpoint, "ping"] = *parts
            && HEALTH.contains(&endpoint)
        {
            return Ok(reply::plain(StatusCode::OK, self.health(endpoint)));
        }
        let entries = entries::of(served);
        let groups = lists::Groups::of(&entries);
        let page = match *parts {
            [""] => lists::index(&groups),
            ["version"] => version(),
            ["api"] => {
                if self.wants_aggregated()? {
                    return Ok(aggregated(&groups.aggregated(true)));
                }
                lists::core_versions(self.host())
            }
            ["api", version] => groups
                .resources("", version)
                .ok_or_else(Failure::no_such_resource)?,
            ["apis"] => {
                if self.wants_aggregated()? {
                    return Ok(aggregated(&groups.aggregated(false)));
                }
                groups.list()
            }
            ["apis", group] if groups.has(group) => groups.group(group),
            ["apis", group, version] if groups.has(group) => groups
                .resources(group, version)
                .ok_or_else(Failure::no_such_resource)?,
            ["api", ..] => return Err(Failure::no_such_resource()),
            ["apis", group, ..] if groups.has(group) => return Err(Failure::no_such_resource()),
            ["openapi", "v3"] => openapi::index(&groups),
            ["openapi", "v3", "api", version] => match openapi::document(&entries, "", version) {
                Some(document) => document,
                None => return Ok(reply::no_such_page()),
            },
            ["openapi", "v3", "apis", group, version] => match openapi::document(&entries, group, version) {
                Some(document) => document,
                None => return Ok(reply::no_such_page()),
            },
            _ => return Ok(reply::no_such_page()),
        };
        if self.method != Method::GET && self.method != Method::HEAD {
            return Err(Failure::method_not_allowed());
        }
        self.wants_aggregated()?;
        Ok(reply::answer(StatusCode::OK, page.to_string().into()))
    }

    /// Whether the client prefers the aggregated form; fails where it takes no JSON at all.
    fn wants_aggregated(self) -> Result<bool, Failure> {
        let accept = self.text(header::ACCEPT);
        if accept.is_empty() {
            return Ok(false);
        }
        accept
            .split(',')
            .find_map(|clause| {
                let mut parts = clause.split(';').map(str::trim);
                let media = parts.next()?;
                let parameters: Vec<&str> = parts.filter(|part| !part.starts_with("q=")).collect();
                let has = |wanted: &str| parameters.contains(&wanted);
                match media {
                    "application/json" if has("as=APIGroupDiscoveryList") => {
                        (has("g=apidiscovery.k8s.io") && has("v=v2")).then_some(true)
                    }
                    "application/json" | "application/*" | "*/*" => Some(false),
                    _ => None,
                }
            })
            .ok_or_else(Failure::no_other_form)
    }

    fn health(self, endpoint: &str) -> Bytes {
        if self.is_verbose {
            format!("[+]ping ok\n{endpoint} check passed\n").into()
        } else {
            Bytes::from_static(b"ok")
        }
    }

    fn host(&self) -> &str {
        self.text(header::HOST)
    }

    fn text(&self, name: header::HeaderName) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }
}

fn aggregated(list: &Value) -> Response<Body> {
    reply::answer_as(StatusCode::OK, AGGREGATED, list.to_string().into())
}

fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": RELEASE,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "",
    })
}
