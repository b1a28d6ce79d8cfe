//! Requests as the API server's audit log has them.

use std::sync::Arc;

use jiff::Timestamp;
use local_control_plane::ControlPlane;
use serde_json::Value;

use crate::account::user;
use crate::objects::text;

const WRITES: [&str; 4] = ["create", "update", "patch", "delete"];
/// Resources that do not count as a controller's work: the election, events, and queries.
const ASIDE: [&str; 3] = ["leases", "events", "selfsubjectreviews"];

/// True if this verb on this resource changes something as part of a controller's work.
pub(crate) fn is_work(verb: &str, resource: &str) -> bool {
    WRITES.contains(&verb) && !ASIDE.contains(&resource)
}

/// A request that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The verb: `get`, `patch` and so on.
    pub verb: String,
    /// Plural, with the subresource after a slash; empty for a request without a resource.
    pub resource: String,
    /// Empty if there is none.
    pub namespace: String,
    /// Empty if the request is not about a single object.
    pub name: String,
    /// The HTTP status of the answer.
    pub code: u64,
    pub user: String,
    /// When the API server received the request.
    pub received: Timestamp,
    /// When the API server answered.
    pub answered: Timestamp,
}

/// All requests so far, in the order of their answers.
pub fn requests(control_plane: &ControlPlane) -> Vec<Asked> {
    let events = control_plane.audit_events().unwrap();
    events.iter().map(Arc::as_ref).map(Asked::from).collect()
}

/// The requests so far of the controller's service account, in the order of their answers.
pub fn requests_of(control_plane: &ControlPlane, controller: &str) -> Vec<Asked> {
    let user = user(controller);
    let events = control_plane.audit_events().unwrap();
    let by_it = events.iter().filter(|event| event["user"]["username"] == user);
    by_it.map(Arc::as_ref).map(Asked::from).collect()
}

/// How many of these requests wrote to a tenant's objects in a span of time: those that kept another tenant waiting.
pub fn writes_to(requests: &[Asked], namespace: &str, (from, to): (Timestamp, Timestamp)) -> usize {
    let to_it = requests.iter().filter(|asked| asked.namespace == namespace);
    let writes = to_it.filter(|asked| is_work(&asked.verb, &asked.resource));
    writes
        .filter(|asked| from <= asked.answered && asked.answered < to)
        .count()
}

impl Asked {
    /// True for this verb on this resource.
    pub fn is(&self, verb: &str, resource: &str) -> bool {
        self.verb == verb && self.resource == resource
    }

    /// True if the controller's service account sent the request.
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
