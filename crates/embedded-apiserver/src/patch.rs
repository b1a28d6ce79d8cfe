//! The types of patches.

use serde_json::Value;

use super::failure::StatusError;
use super::object::json_type;

/// A patch and its type.
#[derive(Debug)]
pub(super) struct Patch {
    pub(super) kind: PatchKind,
    pub(super) content: Value,
    /// True if an apply takes fields from other managers.
    pub(super) force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatchKind {
    Merge,
    Strategic,
    Json,
    Apply,
}

impl PatchKind {
    /// The type of patch for a media type.
    pub(super) fn of(media: &str) -> Option<Self> {
        Some(match media {
            "application/merge-patch+json" => Self::Merge,
            "application/strategic-merge-patch+json" => Self::Strategic,
            "application/json-patch+json" => Self::Json,
            "application/apply-patch+yaml" => Self::Apply,
            _ => return None,
        })
    }

    /// Refuses a body that is not valid JSON or YAML.
    pub(super) fn unreadable(self, error: &str) -> StatusError {
        StatusError::bad_request(match self {
            Self::Merge | Self::Strategic => "invalid JSON patch".to_owned(),
            Self::Json => format!("error decoding patch: {error}"),
            Self::Apply => format!("error decoding YAML: {error}"),
        })
    }

    /// Refuses a patch that is not an object, or a JSON patch that is not a list.
    pub(super) fn misshapen(self, patch: &Value) -> StatusError {
        let found = json_type(patch);
        let wanted = if self == Self::Json {
            "[]handlers.jsonPatchOp"
        } else {
            "map[string]interface {}"
        };
        let context = match self {
            Self::Strategic => "",
            Self::Merge | Self::Json => "error decoding patch: ",
            Self::Apply => "error decoding YAML: error unmarshaling JSON: while decoding JSON: ",
        };
        StatusError::bad_request(format!(
            "{context}json: cannot unmarshal {found} into Go value of type {wanted}"
        ))
    }
}
