//! Requests for what is below an object, but for `/status`, which is the object under
//! rules of its own.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::call::Call;
use super::failure::Failure;
use super::object::text;
use super::reply::{Body, answer};
use super::resource::{Action, Scale, Target};
use super::scale;
use super::server::Shared;
use super::write::served;

impl Shared {
    /// The answer to a request for a subresource with a form of its own; none to others.
    pub(super) fn below(&self, call: &Call) -> Option<Result<Response<Body>, Failure>> {
        match call.target {
            Target::Object | Target::Status => None,
            Target::Scale(scale) => Some(self.scale(call, scale)),
            Target::Action(Action::Evict) => Some(self.evict(call)),
            Target::Action(Action::Bind) => Some(self.bind(call)),
        }
    }

    fn evict(&self, call: &Call) -> Result<Response<Body>, Failure> {
        let eviction = call.object()?;
        self.writing(call, |write| write.evict(&eviction))?;
        Ok(done())
    }

    fn bind(&self, call: &Call) -> Result<Response<Body>, Failure> {
        let binding = call.object()?;
        self.writing(call, |write| write.bind(&binding))?;
        Ok(done())
    }

    fn scale(&self, call: &Call, scale: &Scale) -> Result<Response<Body>, Failure> {
        let store = self.store.lock();
        let stored = store
            .get(call.resource, &call.key())
            .ok_or_else(|| Failure::not_found(call.resource, &call.request.name))?;
        let shown = scale::of(call.resource, scale, &served(call.resource, stored))?;
        Ok(answer(StatusCode::OK, shown.to_string().into()))
    }
}

/// The body of a request for a subresource may leave out its kind, but not be of another.
pub(super) fn check_kind(body: &Value, kind: &str, group: &str, versions: &[&str]) -> Result<(), Failure> {
    let (found, api_version) = (text(body, "kind"), text(body, "apiVersion"));
    let (found_group, found_version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let is_version = api_version.is_empty() || (found_group == group && versions.contains(&found_version));
    if body.is_object() && is_version && (found.is_empty() || found == kind) {
        return Ok(());
    }
    // Go's packages of internal types are called by the first part of their group.
    let package = match group.split('.').next().unwrap_or_default() {
        "" => "core",
        package => package,
    };
    Err(Failure::bad_request(format!(
        "{found} in version \"{found_version}\" cannot be handled as a {kind}: converting ({found_version}.{found}) to \
         ({package}.{kind}): unknown conversion"
    )))
}

/// The answer to an action that has nothing to show.
fn done() -> Response<Body> {
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": 201,
    });
    answer(StatusCode::CREATED, status.to_string().into())
}
