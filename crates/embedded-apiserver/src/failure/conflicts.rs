//! 409: the object is not in the state that the client expects.

use serde_json::Value;

use super::{StatusError, details};
use crate::resource::{Resource, qualify};

const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

impl StatusError {
    /// The object changed since the client read it.
    pub(crate) fn modified(resource: &Resource, name: &str) -> Self {
        Self::conflict(resource, resource.plural, name, MODIFIED)
    }

    /// The uid in an update is not the object's.
    pub(crate) fn wrong_uid(resource: &Resource, key: &str, wanted: &str, found: &str) -> Self {
        let what = format!("UID in precondition: {wanted}, UID in object meta: {found}");
        Self::precondition(resource, key, &what)
    }

    /// A precondition failed in storage, for the object under `key`.
    pub(crate) fn precondition(resource: &Resource, key: &str, what: &str) -> Self {
        let name = key.rsplit('/').next().unwrap_or_default();
        let table = match (resource.is_custom(), resource.plural) {
            (true, plural) => format!("{}/{plural}", resource.group),
            (false, "nodes") => "minions".to_owned(),
            (false, plural) => plural.to_owned(),
        };
        let cause = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{table}/{key}, ResourceVersion: 0, \
             AdditionalErrorMsg: Precondition failed: {what}"
        );
        Self::conflict(resource, resource.plural, name, &cause)
    }

    /// The applied object has a uid, but no object exists.
    pub(crate) fn nobody_with_uid(resource: &Resource, name: &str, wanted: &str) -> Self {
        let cause = format!(
            "uid mismatch: the provided object specified uid {wanted}, and no existing object was found"
        );
        Self::conflict(resource, resource.plural, name, &cause)
    }

    /// The uid in a delete's preconditions is not the object's.
    pub(crate) fn uid_precondition(resource: &Resource, name: &str, wanted: &str, found: &str) -> Self {
        let cause = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({found}). \
             The object might have been deleted and then recreated"
        );
        Self::conflict(resource, resource.kind, name, &cause)
    }

    /// The resourceVersion in a delete's preconditions is not the object's.
    pub(crate) fn version_precondition(resource: &Resource, name: &str, wanted: &str, found: u64) -> Self {
        let cause = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
             ({found}). The object might have been modified"
        );
        Self::conflict(resource, resource.kind, name, &cause)
    }

    /// Any other conflict; `called` is the name of the resource in the message.
    pub(crate) fn conflict(resource: &Resource, called: &str, name: &str, cause: &str) -> Self {
        let qualified = qualify(called, resource.group);
        let message = format!("Operation cannot be fulfilled on {qualified} \"{name}\": {cause}");
        let details = details(resource.group, called, name);
        Self::new(409, "Conflict", message).with(Value::Object(details))
    }
}
