//! This controller's own metrics.

use std::time::Duration;

use controller_core::meta::ObjectKey;
use controller_core::timed_workers::TimedWorkers;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Histogram, HistogramOpts, IntGauge, Registry, exponential_buckets};

/// How long after their expiry Jobs were deleted.
#[derive(Clone, Debug)]
pub struct Deletions(Histogram);

impl Deletions {
    /// Makes `ttl_after_finished_controller_job_deletion_duration_seconds` and registers it.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let options = HistogramOpts::new(
            "ttl_after_finished_controller_job_deletion_duration_seconds",
            "The time it took to delete the Job since it became eligible for deletion.",
        );
        let histogram = Histogram::with_opts(options.buckets(exponential_buckets(0.1, 2.0, 14)?))?;
        registry.register(Box::new(histogram.clone()))?;
        Ok(Self(histogram))
    }

    /// A delete was accepted, so long after the expiry.
    pub fn observe(&self, lag: Duration) {
        self.0.observe(lag.as_secs_f64());
    }
}

/// Counts at scrape time, so that it cannot drift.
struct Pending {
    waiting: TimedWorkers<ObjectKey>,
    gauge: IntGauge,
}

/// Registers the gauge of the Jobs that `waiting` holds.
pub fn register_pending(registry: &Registry, waiting: TimedWorkers<ObjectKey>) -> prometheus::Result<()> {
    let gauge = IntGauge::new(
        "ttl_after_finished_controller_jobs_pending",
        "Number of finished Jobs whose TTL has not passed yet.",
    )?;
    registry.register(Box::new(Pending { waiting, gauge }))
}

impl Collector for Pending {
    fn desc(&self) -> Vec<&Desc> {
        self.gauge.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.gauge
            .set(i64::try_from(self.waiting.len()).unwrap_or(i64::MAX));
        self.gauge.collect()
    }
}
