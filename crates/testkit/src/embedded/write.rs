//! What a create, an update, a patch and a delete do to an object.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::failure::Failure;
use super::managed_fields::{self, Part, Writer};
use super::merge;
use super::object::{
    differs_in_spec, finalizers, keep, keep_all_but, remove, requested_version, suffix, text, tidy, uid,
};
use super::resource::{Resource, StatusRule};
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

/// What is left after a delete.
#[derive(Debug)]
pub(super) enum Deleted {
    /// Nothing; the uid of what was there.
    Gone { uid: String },
    /// The object, which waits for its finalizers.
    Waiting(Stored),
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
        let generated = !text(metadata, "generateName").is_empty();
        let name = self.name_for(metadata)?;
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
        tidy(&mut object);
        self.validate(&object, &name)?;
        managed_fields::track(self.resource, None, &mut object, self.part, self.writer);
        Ok(self.put(&key, object))
    }

    pub(super) fn update(self, object: Value) -> Result<Stored, Failure> {
        let object = self.well_formed(object)?;
        self.check_identity(&object)?;
        let current = self.current()?;
        let uid = text(&object["metadata"], "uid");
        let found = text(&current.object["metadata"], "uid");
        if !uid.is_empty() && uid != found {
            return Err(Failure::wrong_uid(self.resource, self.name, uid, found));
        }
        self.replace(current, object)
    }

    pub(super) fn patch(self, kind: PatchKind, patch: Value) -> Result<Stored, Failure> {
        let Value::Object(patch) = patch else {
            return Err(Failure::bad_request(
                "error decoding patch: json: cannot unmarshal into Go value of type map[string]interface {}",
            ));
        };
        let current = self.current()?;
        let mut object = current.object.clone();
        match (kind, &mut object) {
            (PatchKind::Strategic, Value::Object(object)) => {
                merge::strategic_merge_patch(self.resource, object, patch)?;
            }
            _ => merge::merge_patch(&mut object, Value::Object(patch)),
        }
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        self.check_identity(&object)?;
        self.replace(current, object)
    }

    pub(super) fn delete(mut self, preconditions: &Preconditions) -> Result<Deleted, Failure> {
        let current = self.current()?;
        let metadata = &current.object["metadata"];
        let uid = text(metadata, "uid").to_owned();
        if let Some(wanted) = preconditions.uid.as_ref().filter(|wanted| **wanted != uid) {
            return Err(Failure::uid_precondition(self.resource, self.name, wanted, &uid));
        }
        let version = current.stored.version;
        if let Some(wanted) = &preconditions.version
            && *wanted != version.to_string()
        {
            return Err(Failure::version_precondition(
                self.resource,
                self.name,
                wanted,
                version,
            ));
        }
        if finalizers(&current.object).is_empty() {
            self.remove(current.object);
            return Ok(Deleted::Gone { uid });
        }
        if metadata.get("deletionTimestamp").is_some() {
            return Ok(Deleted::Waiting(current.stored));
        }
        let mut object = current.object;
        object["metadata"]["deletionTimestamp"] = json!(self.writer.now);
        object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        self.count_generation(&mut object);
        let key = key(self.resource, self.namespace, self.name);
        Ok(Deleted::Waiting(self.put(&key, object)))
    }

    /// The last steps of an update and a patch: from the whole new object to the store.
    fn replace(mut self, current: Current, mut new: Value) -> Result<Stored, Failure> {
        let old = current.object;
        let wanted = requested_version(&new["metadata"])?;
        if wanted == 0 && !self.resource.unconditional_update && self.origin == Origin::Client {
            return Err(Failure::version_required(self.resource, self.name));
        }
        if wanted != 0 && wanted != current.stored.version {
            return Err(Failure::modified(self.resource, self.name));
        }
        let uid = text(&new["metadata"], "uid");
        if !uid.is_empty() && uid != text(&old["metadata"], "uid") {
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
        tidy(&mut new);
        self.validate(&new, self.name)?;
        self.check_finalizers(&old, &new)?;
        if self.resource.generation && differs_in_spec(&old, &new) {
            self.count_generation(&mut new);
        }
        if new == old {
            return Ok(current.stored);
        }
        managed_fields::track(self.resource, Some(&old), &mut new, self.part, self.writer);
        if new["metadata"].get("deletionTimestamp").is_some() && finalizers(&new).is_empty() {
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
                Part::WithoutStatus => keep(object, old, "status"),
                Part::Status => keep_all_but(object, old, &["metadata", "status"]),
            }
        }
    }

    fn count_generation(&self, object: &mut Value) {
        if self.resource.generation {
            let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
            object["metadata"]["generation"] = json!(generation.saturating_add(1));
        }
    }

    fn current(&self) -> Result<Current, Failure> {
        let stored = self
            .store
            .get(self.resource, &key(self.resource, self.namespace, self.name))
            .ok_or_else(|| Failure::not_found(self.resource, self.name))?
            .clone();
        Ok(Current {
            object: served(self.resource, &stored),
            stored,
        })
    }

    fn put(&mut self, key: &str, object: Value) -> Stored {
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

    fn remove(&mut self, last: Value) {
        if !self.dry_run {
            let last = self.to_stored(last);
            let key = key(self.resource, self.namespace, self.name);
            self.store.remove(self.resource, &key, last, self.at);
        }
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
struct Current {
    stored: Stored,
    object: Value,
}
