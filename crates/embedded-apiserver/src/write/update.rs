//! The effects of updates and patches on objects.

use serde_json::{Value, json};

use super::checks::requested_version;
use super::{Current, Origin, Ownership, Write};
use super::{namespaces, validation};
use crate::failure::{Cause, StatusError};
use crate::json_patch::json_patch;
use crate::managed_fields::{self, Part};
use crate::merge;
use crate::object::{differs_ignoring, keep, keep_all_but, text};
use crate::patch::{Patch, PatchKind};
use crate::resource::table::{NAMESPACES, RESOURCE_CLAIMS};
use crate::store::Stored;

/// Metadata fields that an update cannot change.
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

impl Write<'_> {
    pub(crate) fn update(self, body: Value) -> Result<Stored, StatusError> {
        let mut object = self.well_formed(body)?;
        self.decode(&mut object)?;
        self.check_identity(&object)?;
        let current = self.current()?;
        let uid = text(&object["metadata"], "uid");
        let found = text(&current.object["metadata"], "uid");
        if !uid.is_empty() && uid != found {
            return Err(StatusError::wrong_uid(self.resource, &self.key(), uid, found));
        }
        self.replace(current, object, Ownership::Tracked)
    }

    /// Patches an object, or creates it by an apply; true in the result if it was created.
    pub(crate) fn patch(self, patch: Patch) -> Result<(Stored, bool), StatusError> {
        self.check_patch(patch.kind)?;
        if patch.kind == PatchKind::Apply {
            return self.apply(patch);
        }
        let current = self.current()?;
        let mut object = current.object.clone();
        self.apply_patch(patch.kind, &mut object, patch.content)?;
        if object["metadata"].is_null() {
            object["metadata"] = json!({});
        }
        self.decode_patched(&mut object)?;
        self.check_identity(&object)?;
        Ok((self.replace(current, object, Ownership::Tracked)?, false))
    }

    /// Custom resources have no Go types, which strategic merge patches need.
    pub(crate) fn check_patch(&self, kind: PatchKind) -> Result<(), StatusError> {
        if self.resource.is_custom() && kind == PatchKind::Strategic {
            return Err(StatusError::no_strategic_merge());
        }
        Ok(())
    }

    /// Applies a patch to an object.
    pub(crate) fn apply_patch(
        &self,
        kind: PatchKind,
        object: &mut Value,
        patch: Value,
    ) -> Result<(), StatusError> {
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

    /// The last steps of an update or patch: stores the whole new object, decoded.
    pub(crate) fn replace(
        mut self,
        current: Current,
        mut new: Value,
        ownership: Ownership,
    ) -> Result<Stored, StatusError> {
        let old = current.object;
        let wanted = requested_version(&new["metadata"])?;
        if wanted == 0 && !self.resource.unconditional_update && self.origin == Origin::Client {
            return Err(StatusError::version_required(self.resource, self.name));
        }
        if wanted != 0 && wanted != current.stored.version {
            return Err(StatusError::modified(self.resource, self.name));
        }
        let uid = text(&new["metadata"], "uid");
        // kube-apiserver takes the status out of a custom resource before it looks at the rest.
        let is_looked_at = self.part != Part::Status || !self.resource.is_custom();
        if !uid.is_empty() && uid != text(&old["metadata"], "uid") && is_looked_at {
            let cause = Cause::invalid("metadata.uid", &format!("\"{uid}\""), "field is immutable");
            return Err(StatusError::invalid_fields(self.resource, self.name, &[cause]));
        }
        let causes = validation::causes_of_update(&old["metadata"], &new["metadata"]);
        if !causes.is_empty() {
            return Err(StatusError::invalid_fields(self.resource, self.name, &causes));
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
        if self.resource.generation && self.counts_as_change(&old, &new) {
            self.count_generation(&mut new);
        }
        let is_over = Self::is_over(&old, &new);
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
        Ok(self.put(&self.key(), new))
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
                Part::WithoutStatus => keep(object, old, "status"),
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
        if self.resource.is(&RESOURCE_CLAIMS) && self.part == Part::Status {
            validation::drop_deallocated_devices(old, new);
        }
    }

    /// True if `metadata.generation` counts the change. Without a status subresource, `status` is an ordinary field.
    fn counts_as_change(&self, old: &Value, new: &Value) -> bool {
        let uncounted: &[&str] = if self.resource.has_status() {
            &["metadata", "status"]
        } else {
            &["metadata"]
        };
        differs_ignoring(uncounted, old, new)
    }
}
