//! What a create, an update, a patch and a delete do to an object.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::failure::Failure;
use super::managed_fields::{self, Part, Writer};
use super::merge;
use super::namespaces;
use super::object::{differs_beside, keep, keep_all_but, remove, requested_version, suffix, text, tidy, uid};
use super::resource::table::NAMESPACES;
use super::resource::{Resource, Source, StatusRule};
use super::store::{Store, Stored};

/// One write on its way into the store.
#[derive(Debug)]
pub(super) struct Write<'a> {
    pub(super) store: &'a mut Store,
    pub(super) resource: &'static Resource,
    pub(super) namespace: &'a str,
    /// Empty for a create, which takes it from the object.
    pub(super) name: &'a str,
    pub(super) writer: Writer<'a>,
    pub(super) at: Instant,
    pub(super) origin: Origin,
    /// Which part of the object it may change.
    pub(super) part: Part,
    pub(super) dry_run: bool,
}

/// Who asks for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A client, under the rules of the resource.
    Client,
    /// The test itself, which needs no resourceVersion.
    Test,
}

/// How a patch is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatchKind {
    Merge,
    Strategic,
}

/// What a delete insists on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Preconditions {
    pub(super) uid: Option<String>,
    pub(super) version: Option<String>,
}

/// Fields of the metadata that an update cannot change.
const KEPT: &[&str] = &[
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "name",
    "namespace",
    "selfLink",
    "uid",
];

/// The field manager of the server's own writes.
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

impl Write<'_> {
    pub(super) fn create(mut self, object: Value) -> Result<Stored, Failure> {
        let mut object = self.well_formed(object)?;
        let metadata = &mut object["metadata"];
        if requested_version(metadata)? != 0 {
            return Err(Failure::new(
                500,
                "",
                "resourceVersion should not be set on objects to be created",
            ));
        }
        self.check_namespace(metadata)?;
        self.check_lifecycle(metadata)?;
        let generated = !text(metadata, "generateName").is_empty();
        let name = self.name_for(metadata)?;
        if self.resource.source == (Source::Definition { terminating: true }) && self.origin == Origin::Client
        {
            return Err(Failure::definition_terminating(self.resource, &name));
        }
        let key = key(self.resource, self.namespace, &name);
        if self.store.get(self.resource, &key).is_some() {
            return Err(if generated {
                Failure::not_generated(self.resource, &name)
            } else {
                Failure::already_exists(self.resource, &name)
            });
        }
        let identity = self.store.next_identity();
        if let Some(metadata) = metadata.as_object_mut() {
            for field in [
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "selfLink",
                "managedFields",
            ] {
                metadata.remove(field);
            }
            metadata.insert("name".to_owned(), json!(name));
            metadata.insert("uid".to_owned(), json!(uid(identity)));
            metadata.insert("creationTimestamp".to_owned(), json!(self.writer.now));
            if self.resource.is_namespaced() {
                metadata.insert("namespace".to_owned(), json!(self.namespace));
            }
            if self.resource.generation {
                metadata.insert("generation".to_owned(), json!(1));
            }
        }
        if self.resource.status == StatusRule::SubresourceOnly && self.part != Part::Whole {
            remove(&mut object, "status");
        }
        let is_namespace = self.resource.is(&NAMESPACES);
        if is_namespace {
            namespaces::label(&mut object);
        }
        tidy(&mut object, self.resource.is_custom());
        self.validate(&object, &name)?;
        if let Some(complete) = self.resource.on_create
            && self.origin == Origin::Client
        {
            complete(&mut object);
        }
        managed_fields::track(self.resource, None, &mut object, self.part, self.writer);
        if is_namespace {
            namespaces::activate(&mut object, self.part);
        }
        Ok(self.put(&key, object))
    }

    pub(super) fn update(self, object: Value) -> Result<Stored, Failure> {
        let object = self.well_formed(object)?;
        self.check_named(&object)?;
        let current = self.current()?;
        let uid = text(&object["metadata"], "uid");
        let found = text(&current.object["metadata"], "uid");
        if !uid.is_empty() && uid != found {
            return Err(Failure::wrong_uid(self.resource, &self.key(), uid, found));
        }
        self.replace(current, object)
    }

    pub(super) fn patch(self, kind: PatchKind, patch: Value) -> Result<Stored, Failure> {
        self.check_patch(kind)?;
        let current = self.current()?;
        let mut object = current.object.clone();
        self.apply_patch(kind, &mut object, patch)?;
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        self.check_identity(&object)?;
        self.replace(current, object)
    }

    /// Custom resources have no types to merge strategically by.
    pub(super) fn check_patch(&self, kind: PatchKind) -> Result<(), Failure> {
        if self.resource.is_custom() && kind == PatchKind::Strategic {
            return Err(Failure::no_strategic_merge());
        }
        Ok(())
    }

    /// Applies a patch to an object of this resource or to its scale.
    pub(super) fn apply_patch(
        &self,
        kind: PatchKind,
        object: &mut Value,
        patch: Value,
    ) -> Result<(), Failure> {
        let Value::Object(patch) = patch else {
            return Err(Failure::bad_request(
                "error decoding patch: json: cannot unmarshal into Go value of type map[string]interface {}",
            ));
        };
        match (kind, object) {
            (PatchKind::Strategic, Value::Object(object)) => {
                merge::strategic_merge_patch(self.resource, object, patch)
            }
            (_, object) => {
                merge::merge_patch(object, Value::Object(patch));
                Ok(())
            }
        }
    }

    /// A write of the server's own beside this one, in the same namespace.
    pub(super) fn servers_own<'b>(
        &'b mut self,
        resource: &'static Resource,
        name: &'b str,
        part: Part,
    ) -> Write<'b> {
        Write {
            store: &mut *self.store,
            resource,
            namespace: self.namespace,
            name,
            writer: Writer {
                manager: SERVER_MANAGER,
                now: self.writer.now,
            },
            at: self.at,
            origin: Origin::Client,
            part,
            dry_run: self.dry_run,
        }
    }

    /// The last steps of an update and a patch: from the whole new object to the store.
    pub(super) fn replace(mut self, current: Current, mut new: Value) -> Result<Stored, Failure> {
        let old = current.object;
        let wanted = requested_version(&new["metadata"])?;
        if wanted == 0 && !self.resource.unconditional_update && self.origin == Origin::Client {
            return Err(Failure::version_required(self.resource, self.name));
        }
        if wanted != 0 && wanted != current.stored.version {
            return Err(Failure::modified(self.resource, self.name));
        }
        let uid = text(&new["metadata"], "uid");
        // The status of a custom resource is taken out before anything looks at the rest.
        let is_looked_at = self.part != Part::Status || !self.resource.is_custom();
        if !uid.is_empty() && uid != text(&old["metadata"], "uid") && is_looked_at {
            let body = format!("Invalid value: \"{uid}\": field is immutable");
            let field = "metadata.uid";
            return Err(Failure::invalid(
                self.resource,
                self.name,
                "FieldValueInvalid",
                field,
                &body,
            ));
        }
        self.keep_what_updates_cannot_change(&old, &mut new);
        if self.resource.is(&NAMESPACES) {
            namespaces::label(&mut new);
        }
        tidy(&mut new, self.resource.is_custom());
        self.validate(&new, self.name)?;
        self.check_finalizers(&old, &new)?;
        if self.resource.is(&NAMESPACES) {
            namespaces::check(&new, self.name, self.part)?;
        }
        if self.resource.generation && self.counts_as_change(&old, &new) {
            self.count_generation(&mut new);
        }
        let is_over = self.is_over(&old, &new);
        if new == old && !is_over {
            return Ok(current.stored);
        }
        managed_fields::track(self.resource, Some(&old), &mut new, self.part, self.writer);
        if is_over {
            self.remove(old);
            return Ok(Stored {
                version: current.stored.version,
                body: self.to_stored(new).to_string().into(),
            });
        }
        let key = key(self.resource, self.namespace, self.name);
        Ok(self.put(&key, new))
    }

    fn keep_what_updates_cannot_change(&self, old: &Value, new: &mut Value) {
        let resets_owners = new["metadata"]["managedFields"]
            .as_array()
            .is_some_and(|entries| entries.iter().all(|entry| *entry == json!({})));
        let was = &old["metadata"];
        if let Some(metadata) = new["metadata"].as_object_mut() {
            let owners = (!resets_owners).then_some("managedFields");
            for field in KEPT.iter().copied().chain(["resourceVersion"]).chain(owners) {
                keep(metadata, was, field);
            }
            if resets_owners {
                metadata.remove("managedFields");
            }
        }
        if let Some(object) = new.as_object_mut() {
            keep(object, old, "kind");
            keep(object, old, "apiVersion");
            match self.part {
                Part::Whole => {}
                Part::WithoutStatus | Part::Finalize | Part::Scale => keep(object, old, "status"),
                Part::Status => keep_all_but(object, old, &["metadata", "status"]),
            }
        }
        if self.part == Part::Status
            && let Some(metadata) = new["metadata"].as_object_mut()
        {
            for field in self.resource.status_keeps {
                keep(metadata, was, field);
            }
        }
        if self.resource.is(&NAMESPACES) {
            namespaces::keep_spec(new, old, self.part);
        }
    }

    /// Whether `metadata.generation` counts what a write changed. Without a subresource of its own `status` is
    /// a field like any other.
    fn counts_as_change(&self, old: &Value, new: &Value) -> bool {
        let uncounted: &[&str] = if self.resource.has_status() {
            &["metadata", "status"]
        } else {
            &["metadata"]
        };
        differs_beside(uncounted, old, new)
    }

    /// Changes an object as the API server itself does, without an owner for what it changed.
    pub(super) fn set(mut self, mut object: Value, change: impl FnOnce(&mut Value)) {
        change(&mut object);
        let key = key(self.resource, self.namespace, self.name);
        self.put(&key, object);
    }

    pub(super) fn count_generation(&self, object: &mut Value) {
        if self.resource.generation {
            let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
            object["metadata"]["generation"] = json!(generation.saturating_add(1));
        }
    }

    /// The key of the object in the store.
    pub(super) fn key(&self) -> String {
        key(self.resource, self.namespace, self.name)
    }

    pub(super) fn current(&self) -> Result<Current, Failure> {
        let stored = self
            .store
            .get(self.resource, &self.key())
            .ok_or_else(|| Failure::not_found(self.resource, self.name))?
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

    /// Takes the object out of the store. `last` is its last state, which is returned as stored.
    pub(super) fn remove(&mut self, last: Value) -> Stored {
        let last = self.to_stored(last);
        if self.dry_run {
            return Stored {
                version: 0,
                body: last.to_string().into(),
            };
        }
        let key = key(self.resource, self.namespace, self.name);
        self.store.remove(self.resource, &key, last, self.at)
    }

    fn to_stored(&self, mut object: Value) -> Value {
        remove(&mut object, "kind");
        remove(&mut object, "apiVersion");
        self.resource.to_stored(&mut object);
        object
    }

    fn name_for(&mut self, metadata: &Value) -> Result<String, Failure> {
        let (name, prefix) = (text(metadata, "name"), text(metadata, "generateName"));
        match (name, prefix) {
            ("", "") => Err(Failure::invalid(
                self.resource,
                "",
                "FieldValueRequired",
                "metadata.name",
                "Required value: name or generateName is required",
            )),
            ("", prefix) => Ok(format!("{prefix}{}", suffix(self.store.next_identity()))),
            (name, _) => Ok(name.to_owned()),
        }
    }
}

/// An object as it is before a write.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) stored: Stored,
    pub(super) object: Value,
}
