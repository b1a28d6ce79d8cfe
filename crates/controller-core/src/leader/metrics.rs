//! The two election metrics of Kubernetes' components, under their names.

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

/// `leader_election_master_status` and `leader_election_slowpath_total` of one Lease.
#[derive(Clone, Debug)]
pub struct ElectionMetrics {
    pub(super) leading: IntGauge,
    pub(super) slow_path: IntCounter,
}

impl ElectionMetrics {
    /// Registers both for the Lease `lease_name`, at 0. Fails when `registry` has them already.
    pub fn register(registry: &Registry, lease_name: &str) -> prometheus::Result<Self> {
        let leading = IntGaugeVec::new(
            Opts::new(
                "leader_election_master_status",
                "Whether this process leads the lease 'name': 1 leader, 0 standby.",
            ),
            &["name"],
        )?;
        let slow_path = IntCounterVec::new(
            Opts::new(
                "leader_election_slowpath_total",
                "Renewals of the lease 'name' that first had to read it again.",
            ),
            &["name"],
        )?;
        registry.register(Box::new(leading.clone()))?;
        registry.register(Box::new(slow_path.clone()))?;
        Ok(Self {
            leading: leading.with_label_values(&[lease_name]),
            slow_path: slow_path.with_label_values(&[lease_name]),
        })
    }
}
