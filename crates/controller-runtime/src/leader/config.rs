//! The settings of an election.

use std::time::Duration;

/// Timing and names of an election. [`CommonConfig::validate`](controller_core::config::CommonConfig::validate) checks that the
/// settings make an election that works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionConfig {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// `spec.holderIdentity` of this replica; must be unique among the replicas.
    pub identity: String,
    /// Time that other replicas wait after the last renewal they saw before they take over. Written to the Lease in
    /// whole seconds, rounded up.
    pub lease_duration: Duration,
    /// Time after its last successful renewal for which a leader goes on leading.
    pub renew_deadline: Duration,
    /// Time between renewals; standbys read the Lease every 1 to 2.2 retry periods.
    pub retry_period: Duration,
}
