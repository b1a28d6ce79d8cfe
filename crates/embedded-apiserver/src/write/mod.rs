//! The effects of creates, updates, patches and deletes on objects.

mod apply;
mod binding;
mod checks;
mod create;
mod decode;
pub(super) mod deletion;
mod eviction;
pub(super) mod namespaces;
mod prepare;
mod update;
mod validation;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::access::Requester;
use crate::failure::StatusError;
use crate::managed_fields::{Part, Writer};
use crate::object::remove;
use crate::resource::Resource;
use crate::store::{Store, Stored};

/// A write, with everything that its rules depend on.
#[derive(Debug)]
pub(super) struct Write<'a> {
    pub(super) store: &'a mut Store,
    pub(super) resource: &'static Resource,
    pub(super) namespace: &'a str,
    /// Empty for a create, which takes the name from the object.
    pub(super) name: &'a str,
    pub(super) writer: Writer<'a>,
    pub(super) at: Instant,
    pub(super) origin: Origin,
    /// The part of the object that the write may change.
    pub(super) part: Part,
    pub(super) dry_run: bool,
    /// The user, if some changes need further permissions; `None` for writes that bypass the transports.
    pub(super) requester: Option<Requester<'a>>,
}

/// The origin of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A client; all rules of the resource apply.
    Client,
    /// The test itself; no resourceVersion is needed.
    Test,
}

/// The source of a written object's managed fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ownership {
    /// Computed from the changes of the write.
    Tracked,
    /// Already set in the object.
    Applied,
}

/// Preconditions of a delete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Preconditions {
    pub(super) uid: Option<String>,
    #[serde(rename = "resourceVersion")]
    pub(super) version: Option<String>,
}

/// Field manager of the server's own writes.
pub(super) const SERVER_MANAGER: &str = "kube-apiserver";

/// The key of an object in the store.
pub(super) fn key(resource: &Resource, namespace: &str, name: &str) -> String {
    if resource.is_namespaced() {
        format!("{namespace}/{name}")
    } else {
        name.to_owned()
    }
}

/// Parses a stored object into the form of `resource`, with `kind` and `apiVersion`.
pub(super) fn served(resource: &Resource, stored: &Stored) -> Value {
    let mut object: Value = serde_json::from_slice(&stored.body).unwrap_or_default();
    resource.to_served(&mut object);
    object["kind"] = json!(resource.kind);
    object["apiVersion"] = json!(resource.api_version());
    object
}

/// The form in which an object of `resource` is stored.
pub(super) fn to_stored(resource: &Resource, mut object: Value) -> Value {
    remove(&mut object, "kind");
    remove(&mut object, "apiVersion");
    resource.to_stored(&mut object);
    object
}

impl<'a> Write<'a> {
    /// A write of a whole object under the rules for clients, without checks of further permissions.
    pub(super) fn new(
        store: &'a mut Store,
        resource: &'static Resource,
        namespace: &'a str,
        name: &'a str,
        writer: Writer<'a>,
        at: Instant,
    ) -> Self {
        Self {
            store,
            resource,
            namespace,
            name,
            writer,
            at,
            origin: Origin::Client,
            part: Part::Whole,
            dry_run: false,
            requester: None,
        }
    }
}

impl Write<'_> {
    /// A further write, by the server itself, in the same namespace.
    pub(super) fn servers_own<'b>(
        &'b mut self,
        resource: &'static Resource,
        name: &'b str,
        part: Part,
    ) -> Write<'b> {
        let writer = Writer {
            manager: SERVER_MANAGER,
            now: self.writer.now,
        };
        Write {
            part,
            dry_run: self.dry_run,
            ..Write::new(&mut *self.store, resource, self.namespace, name, writer, self.at)
        }
    }

    pub(super) fn count_generation(&self, object: &mut Value) {
        if self.resource.generation {
            let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
            object["metadata"]["generation"] = json!(generation.saturating_add(1));
        }
    }

    pub(super) fn key(&self) -> String {
        key(self.resource, self.namespace, self.name)
    }

    pub(super) fn current(&self) -> Result<Current, StatusError> {
        let stored = self
            .store
            .get(self.resource, &self.key())
            .ok_or_else(|| StatusError::not_found(self.resource, self.name))?
            .clone();
        Ok(Current {
            object: served(self.resource, &stored),
            stored,
        })
    }

    /// Stores an object as it is.
    pub(super) fn put(&mut self, key: &str, object: Value) -> Stored {
        let object = self.to_stored(object);
        if self.dry_run {
            let version = self
                .store
                .get(self.resource, key)
                .map_or(0, |stored| stored.version);
            return Stored {
                version,
                body: object.to_string().into(),
            };
        }
        self.store.put(self.resource, key, object, self.at)
    }

    /// Removes the object from the store. Returns `last`, its last state, in stored form.
    pub(super) fn remove(&mut self, last: Value) -> Stored {
        let last = self.to_stored(last);
        if self.dry_run {
            return Stored {
                version: 0,
                body: last.to_string().into(),
            };
        }
        self.store.remove(self.resource, &self.key(), last, self.at)
    }

    fn to_stored(&self, object: Value) -> Value {
        to_stored(self.resource, object)
    }
}

/// An object before a write.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) stored: Stored,
    pub(super) object: Value,
}
