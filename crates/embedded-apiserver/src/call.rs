//! A routed request, and the parts of it that its verb needs.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::access::{Requester, User};
use super::failure::StatusError;
use super::fault_plan::ReadFaults;
use super::managed_fields::{Part, Writer};
use super::options::Parameters;
use super::patch::{Patch, PatchKind};
use super::request::RecordedRequest;
use super::resource::{Resource, Target};
use super::shared::Shared;
use super::view::View;
use super::write::deletion::DeleteOptions;
use super::write::{self, Write};

/// Field manager of a client that sends neither `fieldManager` nor `User-Agent`.
const UNKNOWN_MANAGER: &str = "unknown";
/// Largest body, in bytes.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// A routed request.
pub(super) struct Call {
    pub(super) user: User,
    pub(super) resource: &'static Resource,
    pub(super) target: Target,
    pub(super) request: RecordedRequest,
    pub(super) query: Parameters,
    pub(super) view: View,
    pub(super) content_type: String,
    pub(super) body: Bytes,
    pub(super) read_faults: ReadFaults,
}

impl Call {
    pub(super) fn key(&self) -> String {
        write::key(self.resource, &self.request.namespace, &self.request.name)
    }

    /// Prefix of the keys in the collection.
    pub(super) fn prefix(&self) -> String {
        if self.request.namespace.is_empty() {
            String::new()
        } else {
            format!("{}/", self.request.namespace)
        }
    }

    /// Field manager of the request.
    pub(super) fn manager(&self) -> &str {
        let agent = self.request.user_agent.split('/').next().unwrap_or_default();
        [self.query.get("fieldManager"), agent, UNKNOWN_MANAGER]
            .into_iter()
            .find(|name| !name.is_empty())
            .unwrap_or_default()
    }

    pub(super) fn has_content_type(&self, wanted: &str) -> bool {
        self.content_type
            .split(';')
            .next()
            .is_some_and(|media| media.trim() == wanted)
    }

    /// Refuses a body longer than kube-apiserver reads.
    pub(super) fn check_size(&self) -> Result<(), StatusError> {
        if self.body.len() > BODY_LIMIT {
            return Err(StatusError::body_too_large(BODY_LIMIT));
        }
        Ok(())
    }

    /// The object in the body of a create or an update.
    pub(super) fn object(&self) -> Result<Value, StatusError> {
        if !self.content_type.is_empty() && !self.has_content_type("application/json") {
            return Err(StatusError::unsupported_body());
        }
        let unrecognized = |error: &str| {
            StatusError::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse \
                 error: {error}",
                self.resource.kind
            ))
        };
        let object: Value =
            serde_json::from_slice(&self.body).map_err(|error| unrecognized(&error.to_string()))?;
        let is_text = |field: &str| object.get(field).is_none_or(Value::is_string);
        match object {
            Value::Null => Ok(Value::Object(Map::new())),
            Value::Object(_) if is_text("kind") && is_text("apiVersion") => Ok(object),
            _ => Err(unrecognized("json: cannot unmarshal")),
        }
    }

    /// The options in the body of a delete.
    pub(super) fn delete_options(&self) -> Result<DeleteOptions, StatusError> {
        if self.body.is_empty() {
            return Ok(DeleteOptions::default());
        }
        let options = serde_json::from_slice(&self.body).map_err(|error| {
            StatusError::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
        })?;
        DeleteOptions::from_json(options)
    }

    /// The patch in the body.
    pub(super) fn patch(&self) -> Result<Patch, StatusError> {
        let media = self.content_type.split(';').next().unwrap_or_default().trim();
        let kind = PatchKind::of(media).ok_or_else(StatusError::unsupported_patch)?;
        let content =
            serde_json::from_slice(&self.body).map_err(|error| kind.unreadable(&error.to_string()))?;
        Ok(Patch {
            kind,
            content,
            force: self.query.flag("force"),
        })
    }

    /// Runs `write` under the lock of the store, with the parameters of this request.
    pub(super) fn writing<T>(&self, shared: &Shared, write: impl FnOnce(Write<'_>) -> T) -> T {
        let now = shared.clock.now();
        let at = shared.clock.instant();
        shared.write(|store| {
            let (namespace, name) = (&self.request.namespace, &self.request.name);
            let writer = Writer {
                manager: self.manager(),
                now: &now,
            };
            write(Write {
                part: match self.target {
                    Target::Status => Part::Status,
                    _ => Part::main(self.resource),
                },
                dry_run: self.query.get("dryRun") == "All",
                requester: Some(Requester::new(&shared.access, &self.user, self.request.verb)),
                ..Write::new(store, self.resource, namespace, name, writer, at)
            })
        })
    }
}
