//! Requests for subresources, except `/status`: that is a request for the object, under special rules.

use http::{Response, StatusCode};
use serde_json::json;

use super::call::Call;
use super::failure::StatusError;
use super::reply::{Body, document};
use super::resource::{Action, Scale, Target};
use super::scale;
use super::shared::Shared;
use super::write::served;

impl Shared {
    /// Answers a request for a subresource with its own kind; `None` for other requests.
    pub(super) fn below(&self, call: &Call) -> Option<Result<Response<Body>, StatusError>> {
        match call.target {
            Target::Object | Target::Status => None,
            Target::Scale(scale) => Some(self.scale(call, scale)),
            Target::Action(Action::Evict) => Some(self.evict(call)),
            Target::Action(Action::Bind) => Some(self.bind(call)),
        }
    }

    fn evict(&self, call: &Call) -> Result<Response<Body>, StatusError> {
        let eviction = call.object()?;
        call.writing(self, |write| write.evict(&eviction))?;
        Ok(done(call))
    }

    fn bind(&self, call: &Call) -> Result<Response<Body>, StatusError> {
        let binding = call.object()?;
        call.writing(self, |write| write.bind(&binding))?;
        Ok(done(call))
    }

    fn scale(&self, call: &Call, scale: &Scale) -> Result<Response<Body>, StatusError> {
        let store = self.store.lock();
        let stored = store
            .get(call.resource, &call.key())
            .ok_or_else(|| StatusError::not_found(call.resource, &call.request.name))?;
        let shown = scale::of(call.resource, scale, &served(call.resource, stored))?;
        Ok(document(StatusCode::OK, call.view.encoding(), &shown))
    }
}

/// The answer to an action without a result.
fn done(call: &Call) -> Response<Body> {
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": 201,
    });
    document(StatusCode::CREATED, call.view.encoding(), &status)
}
