//! The two election metrics of Kubernetes' components, under the same names.

use controller_core::metrics::register;
use prometheus::{IntCounter, IntGauge, Opts, Registry};

/// `leader_election_master_status` and `leader_election_slowpath_total` of one Lease.
#[derive(Clone, Debug)]
pub struct ElectionMetrics {
    pub(super) leading: IntGauge,
    pub(super) slow_path: IntCounter,
}

impl ElectionMetrics {
    /// Registers both metrics for the Lease `lease_name`, at 0. Fails if `registry` already has them.
    pub fn register(registry: &Registry, lease_name: &str) -> prometheus::Result<Self> {
        let leading = Opts::new(
            "leader_election_master_status",
            "Whether this process leads the lease 'name': 1 leader, 0 standby.",
        );
        let slow_path = Opts::new(
            "leader_election_slowpath_total",
            "Renewals of the lease 'name' that first had to read it again.",
        );
        Ok(Self {
            leading: register(
                registry,
                IntGauge::with_opts(leading.const_label("name", lease_name)),
            )?,
            slow_path: register(
                registry,
                IntCounter::with_opts(slow_path.const_label("name", lease_name)),
            )?,
        })
    }
}
