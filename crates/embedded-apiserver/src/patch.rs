//! The forms of patches.

use serde_json::Value;

use super::failure::StatusError;
use super::object::json_type;

/// A patch and how it is to be read.
#[derive(Debug)]
pub(super) struct Patch {
    pub(super) kind: PatchKind,
    pub(super) content: Value,
    /// Whether an apply takes what others own.
    pub(super) force: bool,
}

/// The form of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatchKind {
    Merge,
    Strategic,
    Json,
    Apply,
}

impl PatchKind {
    /// The form that a media type stands for.
    pub(super) fn of(media: &str) -> Option<Self> {
        Some(match media {
            "application/merge-patch+json" => Self::Merge,
            "application/strategic-merge-patch+json" => Self::Strategic,
            "application/json-patch+json" => Self::Json,
            "application/apply-patch+yaml" => Self::Apply,
            _ => return None,
        })
    }

    /// The refusal of a body that is not JSON or YAML.
    pub(super) fn unreadable(self, error: &str) -> StatusError {
        StatusError::bad_request(match self {
            Self::Merge | Self::Strategic => "invalid JSON patch".to_owned(),
            Self::Json => format!("error decoding patch: {error}"),
            Self::Apply => format!("error decoding YAML: {error}"),
        })
    }

    /// The refusal of a patch that is not an object, or a list where one is wanted.
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
