//! What a create, an update, a patch and a delete do to an object.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::body::{Parsed, Reading};
use super::failure::Failure;
use super::json_patch::json_patch;
use super::managed_fields::{self, Part, Writer};
use super::merge;
use super::namespaces;
use super::object::{differs_beside, keep, keep_all_but, remove, requested_version, suffix, text, uid};
use super::patch::{Patch, PatchKind};
use super::resource::table::NAMESPACES;
use super::resource::{Resource, Source, StatusRule};
use super::store::{Store, Stored};
use super::validation;

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
    /// How strictly it is read.
    pub(super) reading: &'a Reading,
}

/// Who asks for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A client, under the rules of the resource.
    Client,
    /// The test itself, which needs no resourceVersion.
    Test,
}

/// How the managed fields of an object about to be written come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ownership {
    /// From what the write changes.
    Tracked,
    /// They are in the object already.
    Applied,
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
    "resourceVersion",
    "selfLink",
    "uid",
];

/// The field manager of the server's own writes.
pub(super) const SERVER_MANAGER: &str = "kube-apiserver";
/// Letters of a `generateName` that a generated name keeps: it has 63 with its suffix.
const GENERATED_PREFIX_LIMIT: usize = 58;

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
    pub(super) fn create(self, body: Parsed) -> Result<Stored, Failure> {
        let mut object = self.well_formed(body.value)?;
        self.decode(&mut object, &body.duplicates)?;
        if requested_version(&object["metadata"]).is_ok_and(|version| version != 0) {
            return Err(Failure::new(
                500,
                "",
                "resourceVersion should not be set on objects to be created",
            ));
        }
        remove(&mut object["metadata"], "managedFields");
        self.add(object, Ownership::Tracked)
    }

    /// The last steps of a create: from a decoded object to the store.
    pub(super) fn add(mut self, mut object: Value, ownership: Ownership) -> Result<Stored, Failure> {
        self.check_namespace(&object["metadata"])?;
        self.check_lifecycle(&object["metadata"])?;
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            remove(&mut object["metadata"], field);
        }
        if self.resource.status == StatusRule::SubresourceOnly && self.part != Part::Whole {
            remove(&mut object, "status");
        }
        if let Some(complete) = self.resource.on_create
            && self.origin == Origin::Client
        {
            complete(&mut object);
        }
        if ownership == Ownership::Tracked {
            managed_fields::track(self.resource, None, &mut object, self.part, self.writer);
        }
        let metadata = &mut object["metadata"];
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
            metadata.insert("name".to_owned(), json!(name));
            metadata.insert("uid".to_owned(), json!(uid(identity)));
            metadata.insert("creationTimestamp".to_owned(), json!(self.writer.now));
            if self.resource.is_namespaced() {
                metadata.insert("namespace".to_owned(), json!(self.namespace));
            } else {
                metadata.remove("namespace");
            }
            metadata.remove("resourceVersion");
            if self.resource.generation {
                metadata.insert("generation".to_owned(), json!(1));
            }
        }
        self.prepare(&mut object);
        self.validate(None, &object, &name)?;
        Ok(self.put(&key, object))
    }

    /// Whether an update would create the object.
    pub(super) fn update_creates(&self) -> bool {
        self.resource.create_on_update
            && self.part != Part::Status
            && self.store.get(self.resource, &self.key()).is_none()
    }

    /// An update of what is not there: it comes anew, whatever version the client knew.
    pub(super) fn create_by_update(self, mut body: Parsed) -> Result<Stored, Failure> {
        body.value = self.well_formed(body.value)?;
        self.check_identity(&body.value)?;
        let uid = text(&body.value["metadata"], "uid");
        if !uid.is_empty() {
            return Err(Failure::wrong_uid(self.resource, &self.key(), uid, ""));
        }
        remove(&mut body.value["metadata"], "resourceVersion");
        self.create(body)
    }

    pub(super) fn update(self, body: Parsed) -> Result<Stored, Failure> {
        let mut object = self.well_formed(body.value)?;
        self.decode(&mut object, &body.duplicates)?;
        self.check_named(&object)?;
        let current = self.current()?;
        let uid = text(&object["metadata"], "uid");
        let found = text(&current.object["metadata"], "uid");
        if !uid.is_empty() && uid != found {
            return Err(Failure::wrong_uid(self.resource, &self.key(), uid, found));
        }
        self.replace(current, object, Ownership::Tracked)
    }

    /// Patches, or creates what is applied; says whether it did the latter.
    pub(super) fn patch(self, patch: Patch) -> Result<(Stored, bool), Failure> {
        self.check_patch(patch.kind)?;
        if patch.kind == PatchKind::Apply {
            return self.apply(patch);
        }
        let current = self.current()?;
        let mut object = current.object.clone();
        self.apply_patch(patch.kind, &mut object, patch.parsed.value)?;
        if object["metadata"].is_null() {
            object["metadata"] = json!({});
        }
        self.decode_patched(&mut object, &patch.parsed.duplicates)?;
        self.check_identity(&object)?;
        Ok((self.replace(current, object, Ownership::Tracked)?, false))
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
        match (kind, patch) {
            (PatchKind::Json, Value::Array(operations)) => json_patch(object, &operations)?,
            (PatchKind::Strategic, Value::Object(patch)) => {
                if let Value::Object(object) = object {
                    merge::strategic_merge_patch(self.resource.schema(), object, patch)?;
                }
            }
            (PatchKind::Merge, patch @ Value::Object(_)) => merge::merge_patch(object, patch),
            (kind, other) => return Err(kind.misshapen(&other)),
        }
        Ok(())
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
            reading: self.reading,
        }
    }

    /// The last steps of an update and a patch: from the whole new object, decoded, to the store.
    pub(super) fn replace(
        mut self,
        current: Current,
        mut new: Value,
        ownership: Ownership,
    ) -> Result<Stored, Failure> {
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
        let causes = validation::causes_of_update(&old["metadata"], &new["metadata"]);
        if !causes.is_empty() {
            return Err(Failure::invalid_fields(self.resource, self.name, &causes));
        }
        self.keep_what_updates_cannot_change(&old, &mut new);
        if self.resource.is(&NAMESPACES) {
            namespaces::label(&mut new);
        }
        if ownership == Ownership::Tracked {
            managed_fields::choose(&old, &mut new, self.part);
        }
        self.validate(Some(&old), &new, self.name)?;
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
        if ownership == Ownership::Tracked {
            managed_fields::track(self.resource, Some(&old), &mut new, self.part, self.writer);
        }
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
        if let Some(metadata) = new["metadata"].as_object_mut() {
            for field in KEPT {
                keep(metadata, &old["metadata"], field);
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
                keep(metadata, &old["metadata"], field);
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
            ("", prefix) => {
                let prefix: String = prefix.chars().take(GENERATED_PREFIX_LIMIT).collect();
                Ok(format!("{prefix}{}", suffix(self.store.next_identity())))
            }
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
