//! This controller's own metrics.

use controller_core::controller::Inspector;
use controller_core::metrics::{by_label_at_scrape, register};
use controller_core::rival::undone_total;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, Opts, Registry, exponential_buckets};

use crate::DisruptionController;

/// Metrics that are updated as things happen.
#[derive(Clone, Debug)]
pub struct DisruptionMetrics {
    /// How long statuses lagged behind their pods.
    pub lag: Histogram,
    /// How often another writer has undone ours.
    pub rival_writes: IntCounter,
    scale_requests: IntCounterVec,
}

impl DisruptionMetrics {
    /// Fails if `registry` already has them.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let lag = HistogramOpts::new(
            "disruption_controller_status_update_lag_seconds",
            "Latency, in seconds, between the first change of a pod that the status of a PodDisruptionBudget does \
             not show and the write of that status.",
        );
        let scale_requests = Opts::new(
            "disruption_controller_scale_requests_total",
            "Number of reads of the scale subresource, by HTTP status code; <error> where no answer came.",
        );
        let lag = lag.buckets(exponential_buckets(0.005, 2.0, 14)?);
        Ok(Self {
            lag: register(registry, Histogram::with_opts(lag))?,
            rival_writes: undone_total(registry)?,
            scale_requests: register(registry, IntCounterVec::new(scale_requests, &["code"]))?,
        })
    }

    /// Counts a read of a `/scale` with this HTTP status code.
    pub fn scale_read(&self, code: Option<u16>) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        self.scale_requests.with_label_values(&[code.as_str()]).inc();
    }
}

/// Registers the gauge that shows how many budgets are in which state.
pub fn register_states(
    inspector: &Inspector<DisruptionController>,
    registry: &Registry,
) -> prometheus::Result<()> {
    let gauge = Opts::new(
        "disruption_controller_pdbs",
        "Number of PodDisruptionBudgets: those that allow disruptions, those that allow none, and those that cannot be \
         computed.",
    );
    let inspector = inspector.clone();
    by_label_at_scrape(registry, [gauge], ["state"], move || {
        let counts = inspector.scrape(|state, _| state.states());
        [["allowed"], ["blocked"], ["failed"]].into_iter().zip(counts)
    })
}
