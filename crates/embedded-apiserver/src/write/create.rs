//! Creates: from the body of a request to an object in the store.

use serde_json::{Value, json};

use super::checks::requested_version;
use super::{Ownership, Write, key, served};
use crate::failure::StatusError;
use crate::managed_fields::{self, Part};
use crate::object::{remove, suffix, text, uid};
use crate::resource::StatusRule;
use crate::store::Stored;

/// Characters kept from `generateName`; with its suffix, a generated name has 63.
const GENERATED_PREFIX_LIMIT: usize = 58;

impl Write<'_> {
    pub(crate) fn create(self, body: Value) -> Result<Stored, StatusError> {
        let mut object = self.well_formed(body)?;
        self.decode(&mut object)?;
        if requested_version(&object["metadata"]).is_ok_and(|version| version != 0) {
            return Err(StatusError::new(
                500,
                "",
                "resourceVersion should not be set on objects to be created",
            ));
        }
        remove(&mut object["metadata"], "managedFields");
        self.add(object, Ownership::Tracked)
    }

    /// The last steps of a create: stores a decoded object.
    pub(crate) fn add(mut self, mut object: Value, ownership: Ownership) -> Result<Stored, StatusError> {
        self.check_namespace(&object["metadata"])?;
        self.check_namespace_takes(text(&object["metadata"], "name"))?;
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            remove(&mut object["metadata"], field);
        }
        if self.resource.status == StatusRule::SubresourceOnly && self.part != Part::Whole {
            remove(&mut object, "status");
        }
        if ownership == Ownership::Tracked {
            managed_fields::track(self.resource, None, &mut object, self.part, self.writer);
        }
        let metadata = &mut object["metadata"];
        let generated = !text(metadata, "generateName").is_empty();
        let name = self.name_for(metadata)?;
        let key = key(self.resource, self.namespace, &name);
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("name".to_owned(), json!(name));
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
        if let Some(stored) = self.store.get(self.resource, &key) {
            let failure = if generated {
                StatusError::not_generated(self.resource, &name)
            } else {
                StatusError::already_exists(self.resource, &name)
            };
            let is_going = served(self.resource, stored)["metadata"]
                .get("deletionTimestamp")
                .is_some();
            return Err(if is_going {
                failure.of_what_is_going()
            } else {
                failure
            });
        }
        object["metadata"]["uid"] = json!(uid(self.store.next_identity()));
        Ok(self.put(&key, object))
    }

    /// Creates an object by an update; ignores the version that the client sent.
    pub(crate) fn create_by_update(self, body: Value) -> Result<Stored, StatusError> {
        let mut body = self.well_formed(body)?;
        self.decode(&mut body)?;
        self.check_identity(&body)?;
        let uid = text(&body["metadata"], "uid");
        if !uid.is_empty() {
            return Err(StatusError::wrong_uid(self.resource, &self.key(), uid, ""));
        }
        remove(&mut body["metadata"], "resourceVersion");
        self.create(body)
    }

    /// True if an update would create the object.
    pub(crate) fn update_creates(&self) -> bool {
        self.resource.create_on_update
            && self.part != Part::Status
            && self.store.get(self.resource, &self.key()).is_none()
    }

    fn name_for(&mut self, metadata: &Value) -> Result<String, StatusError> {
        let (name, prefix) = (text(metadata, "name"), text(metadata, "generateName"));
        match (name, prefix) {
            ("", "") => Err(StatusError::invalid(
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
