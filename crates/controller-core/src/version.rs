//! Versions of Kubernetes: those that are supported, and that of the API server (CORE-18).

use serde::Deserialize;

use crate::api::Verb;
use crate::controller::{Query, Request};

/// The Kubernetes versions that the controllers are tested against (CORE-18).
pub const SUPPORTED_KUBERNETES: [&str; 3] = ["1.35", "1.36", "1.37"];

/// [`SUPPORTED_KUBERNETES`] as text: `1.35 to 1.37`.
pub fn supported_kubernetes() -> String {
    let [oldest, .., newest] = SUPPORTED_KUBERNETES;
    format!("{oldest} to {newest}")
}

/// Query for the minor version of Kubernetes 1; `None` for another major version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerVersion;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Info {
    major: String,
    minor: String,
}

impl Query for ServerVersion {
    type Answer = Option<u32>;

    fn request(&self) -> Request {
        let http = http::Request::get("/version").body(Vec::new());
        let http = http.map_err(kube_core::request::Error::BuildRequest);
        Request::new(Verb::Get, "version", &"", http)
    }

    fn read(&self, body: &[u8]) -> serde_json::Result<Option<u32>> {
        let Info { major, minor } = serde_json::from_slice(body)?;
        // Some vendors append a `+`.
        let minor = minor.trim_end_matches(|end: char| !end.is_ascii_digit());
        Ok(minor.parse().ok().filter(|_| major == "1"))
    }
}
