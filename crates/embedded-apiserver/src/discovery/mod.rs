//! Paths that are not resources: discovery, version, health.
//!
//! Documents are made from the resources served at the time of the request, so custom resources appear as soon as they
//! are served.

mod lists;
mod openapi;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

pub(super) use self::lists::has_group;
use crate::encoding::Encoding;
use crate::failure::StatusError;
use crate::reply::{self, Body};
use crate::resource::Resource;

/// The release that the server claims to be.
const RELEASE: &str = "v1.37.2";

/// Answers a request for a path that is not a resource, in JSON; a refusal is encoded as `refusals`.
pub(super) fn answer(path: &str, served: &[&'static Resource], refusals: Encoding) -> Response<Body> {
    let inner = path.strip_prefix('/').unwrap_or(path);
    let parts: Vec<&str> = inner.trim_end_matches('/').split('/').collect();
    let page = match *parts {
        ["healthz" | "livez" | "readyz"] => {
            return reply::plain(StatusCode::OK, Bytes::from_static(b"ok"));
        }
        ["version"] => Some(version()),
        ["api"] => {
            Some(json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] }))
        }
        ["apis"] => Some(lists::groups(served)),
        ["apis", group] => lists::group(served, group),
        ["api", version] => lists::resources(served, "", version),
        ["apis", group, version] => lists::resources(served, group, version),
        ["openapi", "v3"] => Some(openapi::index(served)),
        ["openapi", "v3", "api", version] => openapi::document(served, "", version),
        ["openapi", "v3", "apis", group, version] => openapi::document(served, group, version),
        _ => None,
    };
    let is_in_served_group = || match *parts {
        ["api", ..] => true,
        ["apis", group, ..] => has_group(served, group),
        _ => false,
    };
    match page {
        Some(page) => reply::document(StatusCode::OK, Encoding::Json, &page),
        None if is_in_served_group() => reply::refused(&StatusError::no_such_resource(), refusals),
        None => reply::no_such_page(),
    }
}

fn version() -> Value {
    json!({
        "major": "1",
        "minor": "37",
        "gitVersion": RELEASE,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "",
    })
}
