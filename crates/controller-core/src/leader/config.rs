//! The settings of an election and what makes them valid.

use std::time::Duration;

/// How often, how long and under which name to lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionConfig {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// `spec.holderIdentity` of this replica; no other replica may use the same.
    pub identity: String,
    /// How long others wait after a renewal that they saw before they take over. On the wire in whole
    /// seconds, rounded up.
    pub lease_duration: Duration,
    /// How long after its last successful renewal a leader goes on.
    pub renew_deadline: Duration,
    /// Time between renewals; standbys look every 1 to 2.2 of it.
    pub retry_period: Duration,
}

/// A setting that cannot work; names the field and its value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A name is missing.
    #[error("{field} must not be empty")]
    Empty {
        /// The field of [`ElectionConfig`].
        field: &'static str,
    },
    /// A duration is outside what the wire format and timers can express.
    #[error("{field} is {value:?}: it must be from {min:?} to {max:?}")]
    OutOfRange {
        /// The field of [`ElectionConfig`].
        field: &'static str,
        /// What it is.
        value: Duration,
        /// The least that works.
        min: Duration,
        /// The most that works.
        max: Duration,
    },
    /// A duration leaves no room for the one that must fit into it.
    #[error("{field} is {value:?}: it must be greater than {bound} ({bound_value:?})")]
    TooShort {
        /// The field of [`ElectionConfig`].
        field: &'static str,
        /// What it is.
        value: Duration,
        /// What it must exceed.
        bound: &'static str,
        /// How much that is.
        bound_value: Duration,
    },
}

const SHORTEST: Duration = Duration::from_millis(1);
/// `leaseDurationSeconds` is an `int32`.
const LONGEST: Duration = Duration::from_secs(i32::MAX as u64);

impl ElectionConfig {
    /// Everything that is wrong, in the order of the fields.
    pub fn validate(&self) -> Result<(), Vec<ConfigError>> {
        let mut errors = Vec::new();
        for (field, value) in [
            ("namespace", &self.namespace),
            ("name", &self.name),
            ("identity", &self.identity),
        ] {
            if value.is_empty() {
                errors.push(ConfigError::Empty { field });
            }
        }
        for (field, value) in [
            ("lease_duration", self.lease_duration),
            ("renew_deadline", self.renew_deadline),
            ("retry_period", self.retry_period),
        ] {
            if !(SHORTEST..=LONGEST).contains(&value) {
                errors.push(ConfigError::OutOfRange {
                    field,
                    value,
                    min: SHORTEST,
                    max: LONGEST,
                });
            }
        }
        // client-go's JitterFactor.
        let longest_retry = self.retry_period.saturating_mul(6) / 5;
        for (field, value, bound, bound_value) in [
            (
                "lease_duration",
                self.lease_duration,
                "renew_deadline",
                self.renew_deadline,
            ),
            (
                "renew_deadline",
                self.renew_deadline,
                "1.2 times retry_period",
                longest_retry,
            ),
        ] {
            if value <= bound_value {
                errors.push(ConfigError::TooShort {
                    field,
                    value,
                    bound,
                    bound_value,
                });
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }
}
