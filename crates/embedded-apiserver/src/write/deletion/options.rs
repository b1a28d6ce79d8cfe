//! `meta/v1` `DeleteOptions`, the body of a delete.

use serde::Deserialize;
use serde_json::Value;

use crate::failure::{Cause, StatusError};
use crate::write::Preconditions;

/// Options of a delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    /// Seconds; `None` for the object's default; negative values mean 1.
    pub(crate) grace: Option<i64>,
    pub(crate) preconditions: Preconditions,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) dry_run: bool,
}

/// The effect of a delete on dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They are deleted before the object.
    Foreground,
    /// They are deleted after the object.
    Background,
    /// They stay.
    Orphan,
}

/// The options as sent.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Sent {
    grace_period_seconds: Option<i64>,
    preconditions: Option<Preconditions>,
    propagation_policy: Option<String>,
    dry_run: Option<Vec<String>>,
}

impl DeleteOptions {
    /// At once: grace period 0, `Background`.
    pub(crate) fn at_once() -> Self {
        Self {
            grace: Some(0),
            propagation: Some(Propagation::Background),
            ..Self::default()
        }
    }

    /// With the default grace period.
    pub(crate) fn with(propagation: Propagation) -> Self {
        Self {
            propagation: Some(propagation),
            ..Self::default()
        }
    }

    /// Requires this uid.
    #[must_use]
    pub(crate) fn of_uid(mut self, uid: &str) -> Self {
        self.preconditions.uid = Some(uid.to_owned());
        self
    }

    /// Reads the options from a body or a part of one, e.g. of an Eviction; null means no options.
    pub(crate) fn from_json(options: Value) -> Result<Self, StatusError> {
        let sent: Option<Sent> = serde_json::from_value(options).map_err(|error| {
            StatusError::bad_request(format!("json: cannot unmarshal DeleteOptions: {error}"))
        })?;
        let sent = sent.unwrap_or_default();
        let propagation = sent.propagation_policy.map(|name| Propagation::named(&name));
        Ok(Self {
            grace: sent.grace_period_seconds,
            preconditions: sent.preconditions.unwrap_or_default(),
            propagation: propagation.transpose()?,
            dry_run: sent.dry_run.is_some_and(|stages| !stages.is_empty()),
        })
    }
}

impl Propagation {
    fn named(name: &str) -> Result<Self, StatusError> {
        match name {
            "Foreground" => Ok(Self::Foreground),
            "Background" => Ok(Self::Background),
            "Orphan" => Ok(Self::Orphan),
            other => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                let cause = Cause::unsupported("propagationPolicy", other, &supported);
                Err(StatusError::bad_options("DeleteOptions", &[cause]))
            }
        }
    }
}
