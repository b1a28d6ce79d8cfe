//! What the API server's audit log says of requests.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use testkit::real::ControlPlane;

use crate::account::user;
use crate::objects::text;

const WRITES: [&str; 4] = ["create", "update", "patch", "delete"];
/// What changes nothing that a controller is there for: the election itself, notes for people, and questions.
const ASIDE: [&str; 3] = ["leases", "events", "selfsubjectreviews"];

/// Whether this verb on this resource changes something that a controller is there for.
pub(crate) fn is_work(verb: &str, resource: &str) -> bool {
    WRITES.contains(&verb) && !ASIDE.contains(&resource)
}

/// A request that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// What was asked for: `get`, `patch` and so on.
    pub verb: String,
    /// Plural, with the subresource after a slash; empty where no resource was asked for.
    pub resource: String,
    /// Empty where there is none.
    pub namespace: String,
    /// Empty where no single object was meant.
    pub name: String,
    /// The HTTP status of the answer.
    pub code: u64,
    pub user: String,
    /// When the API server had it.
    pub received: Timestamp,
    /// When it was answered.
    pub answered: Timestamp,
}

/// All requests so far, in the order of their answers.
pub fn requests(control_plane: &ControlPlane) -> Vec<Asked> {
    let events = control_plane.audit_events().unwrap();
    events.iter().map(Arc::as_ref).map(Asked::from).collect()
}

/// Those of the service account that the chart of the controller has.
pub fn requests_of(control_plane: &ControlPlane, controller: &str) -> Vec<Asked> {
    let user = user(controller);
    let events = control_plane.audit_events().unwrap();
    let by_it = events.iter().filter(|event| event["user"]["username"] == user);
    by_it.map(Arc::as_ref).map(Asked::from).collect()
}

impl Asked {
    /// Whether it was this verb on this resource.
    pub fn is(&self, verb: &str, resource: &str) -> bool {
        self.verb == verb && self.resource == resource
    }

    /// Whether the controller's service account asked.
    pub fn is_by(&self, controller: &str) -> bool {
        self.user == user(controller)
    }
}

impl From<&Value> for Asked {
    fn from(event: &Value) -> Self {
        let time = |value: &Value| text(value).parse().unwrap();
        let object = &event["objectRef"];
        let resource = match object["subresource"].as_str() {
            Some(subresource) => format!("{}/{subresource}", text(&object["resource"])),
            None => text(&object["resource"]),
        };
        Self {
            verb: text(&event["verb"]),
            resource,
            namespace: text(&object["namespace"]),
            name: text(&object["name"]),
            code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
            user: text(&event["user"]["username"]),
            received: time(&event["requestReceivedTimestamp"]),
            answered: time(&event["stageTimestamp"]),
        }
    }
}
