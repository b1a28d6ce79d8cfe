//! Versions that are in the future or no longer known.

use serde_json::json;

use super::StatusError;

const INCONSISTENT_CONTINUE: &str = "The provided continue parameter is too old to display a consistent list \
     result. You can start a new list without the continue parameter, or use the continue token in this \
     response to retrieve the remainder of the results. Continuing with the provided token results in an \
     inconsistent list - objects that were created, modified, or deleted between the time the first chunk was \
     returned and now may show up in the list.";

impl StatusError {
    /// The requested version was not reached in time.
    pub(crate) fn version_too_large(wanted: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        Self::new(504, "Timeout", message).with(json!({
            "causes": [{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }],
            "retryAfterSeconds": 1,
        }))
    }

    /// The version of a list was compacted.
    pub(crate) fn list_expired() -> Self {
        Self::expired("The resourceVersion for the provided list is too old.")
    }

    /// The version of a further page was compacted.
    pub(crate) fn continue_expired(token: String) -> Self {
        let mut failure = Self::expired(INCONSISTENT_CONTINUE);
        failure.continue_token = Some(token);
        failure
    }

    /// The start of a watch was compacted.
    pub(crate) fn watch_expired(wanted: u64, oldest: u64) -> Self {
        Self::expired(&format!("too old resource version: {wanted} ({oldest})"))
    }

    fn expired(message: &str) -> Self {
        Self::new(410, "Expired", message)
    }
}
