//! This controller's own metrics.

use std::borrow::Cow;

use controller_core::controller::Inspector;
use controller_core::metrics::{at_scrape, by_label_at_scrape, register};
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, exponential_buckets,
};

use crate::TtlAfterFinishedController;

/// The one label of the metrics of policies: its values are the names in the file.
const POLICY: &str = "policy";

/// What is counted when it happens.
#[derive(Clone, Debug)]
pub struct Deletions {
    /// How long after their expiry Jobs were deleted.
    pub deletions: Histogram,
    /// How long after they were due objects were deleted, by policy.
    pub by_policy: HistogramVec,
    /// Deletes that were refused, by policy.
    pub refused: IntCounterVec,
}

impl Deletions {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let buckets = exponential_buckets(0.1, 2.0, 14)?;
        let deletions = HistogramOpts::new(
            "ttl_after_finished_controller_job_deletion_duration_seconds",
            "The time it took to delete the Job since it became eligible for deletion.",
        );
        let by_policy = HistogramOpts::new(
            "ttl_after_finished_controller_policy_deletion_duration_seconds",
            "The time it took to delete an object since its policy wanted it deleted.",
        );
        let refused = Opts::new(
            "ttl_after_finished_controller_policy_refused_total",
            "Number of deletes by a policy that permissions or admission refused.",
        );
        Ok(Self {
            deletions: register(registry, Histogram::with_opts(deletions.buckets(buckets.clone())))?,
            by_policy: register(registry, HistogramVec::new(by_policy.buckets(buckets), &[POLICY]))?,
            refused: register(registry, IntCounterVec::new(refused, &[POLICY]))?,
        })
    }
}

/// Registers the gauges that are computed at scrape time, so that they cannot drift: Jobs that wait for their expiry,
/// and engaged brakes.
pub fn register_gauges(
    inspector: &Inspector<TtlAfterFinishedController>,
    registry: &Registry,
) -> prometheus::Result<()> {
    let pending = (
        "ttl_after_finished_controller_jobs_pending",
        "Number of finished Jobs whose TTL has not passed yet.",
    );
    let waiting = inspector.clone();
    at_scrape(registry, [pending], move || {
        Some([i64::try_from(waiting.scheduled(0)).unwrap_or(i64::MAX)])
    })?;
    let brake = Opts::new(
        "ttl_after_finished_controller_brake_engaged",
        "1 while a policy that would have deleted more than its maxPerHour waits for a person, else 0.",
    );
    let inspector = inspector.clone();
    by_label_at_scrape(registry, vec![(brake, &[POLICY])], move || {
        let brakes = inspector.scrape(|state, _| state.brakes());
        let brakes = brakes.into_iter();
        vec![
            brakes
                .map(|(policy, engaged)| (vec![Cow::Owned(policy.to_string())], i64::from(engaged)))
                .collect(),
        ]
    })
}
