//! The settings of an election.

use std::time::Duration;

/// How often, how long and under which name to lead. [`CommonConfig::validate`](crate::config::CommonConfig::validate)
/// tells which of these make an election that works.
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
