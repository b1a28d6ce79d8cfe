//! Causes of a refusal, one per field.

use std::fmt;

use serde_json::{Value, json};

/// An entry of `details.causes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    /// Machine-readable, e.g. `FieldValueInvalid`.
    pub(crate) reason: &'static str,
    pub(crate) field: String,
    /// Human-readable, without the field.
    pub(crate) message: String,
}

impl Cause {
    pub(crate) fn to_json(&self) -> Value {
        json!({ "reason": self.reason, "message": self.message, "field": self.field })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// Errors of a field (apimachinery `util/validation/field`); `shown` is the value as JSON.
impl Cause {
    pub(crate) fn new(reason: &'static str, field: &str, message: String) -> Self {
        Self {
            reason,
            field: field.to_owned(),
            message,
        }
    }

    pub(crate) fn invalid(field: &str, shown: &str, why: &str) -> Self {
        Self::new(
            "FieldValueInvalid",
            field,
            format!("Invalid value: {shown}: {why}"),
        )
    }

    pub(crate) fn unsupported(field: &str, value: &str, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|value| format!("\"{value}\"")).collect();
        let supported = supported.join(", ");
        let message = format!("Unsupported value: \"{value}\": supported values: {supported}");
        Self::new("FieldValueNotSupported", field, message)
    }
}
