//! This controller's own metrics.

use controller_core::controller::Inspector;
use controller_core::metrics::{at_scrape, register};
use prometheus::{Histogram, HistogramOpts, Registry, exponential_buckets};

use crate::TtlAfterFinishedController;

/// Creates and registers `ttl_after_finished_controller_job_deletion_duration_seconds`.
pub fn deletion_duration(registry: &Registry) -> prometheus::Result<Histogram> {
    let options = HistogramOpts::new(
        "ttl_after_finished_controller_job_deletion_duration_seconds",
        "The time it took to delete the Job since it became eligible for deletion.",
    );
    let buckets = exponential_buckets(0.1, 2.0, 14)?;
    register(registry, Histogram::with_opts(options.buckets(buckets)))
}

/// Registers the gauge of Jobs that wait for their expiry; counted at scrape time, so that it cannot drift.
pub fn register_pending(
    inspector: &Inspector<TtlAfterFinishedController>,
    registry: &Registry,
) -> prometheus::Result<()> {
    let pending = (
        "ttl_after_finished_controller_jobs_pending",
        "Number of finished Jobs whose TTL has not passed yet.",
    );
    let inspector = inspector.clone();
    at_scrape(registry, [pending], move || {
        Some([i64::try_from(inspector.scheduled(0)).unwrap_or(i64::MAX)])
    })
}
