//! This controller's own metrics.

use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntGauge, Registry};

/// Source: `pkg/controller/tainteviction/metrics`.
const DURATION_BUCKETS: [f64; 12] = [
    0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0,
];

/// What came of evictions.
#[derive(Clone, Debug)]
pub struct Evictions {
    deletions: IntCounter,
    duration: Histogram,
    cancelled: IntCounter,
}

/// How many pods are to be evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Those that wait, or are next.
    pub pending: usize,
    /// Those whose eviction fails.
    pub overdue: usize,
}

impl Evictions {
    /// Makes the metrics and registers them.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let duration = HistogramOpts::new(
            "taint_eviction_controller_pod_deletion_duration_seconds",
            "Latency, in seconds, between the time when a taint effect has been activated for the Pod and its \
             deletion.",
        );
        let evictions = Self {
            deletions: IntCounter::new(
                "taint_eviction_controller_pod_deletions_total",
                "Total number of Pods deleted by the taint eviction controller since its start.",
            )?,
            duration: Histogram::with_opts(duration.buckets(DURATION_BUCKETS.to_vec()))?,
            cancelled: IntCounter::new(
                "taint_eviction_controller_cancelled_evictions_total",
                "Number of evictions that were called off because the Pod may stay.",
            )?,
        };
        registry.register(Box::new(evictions.deletions.clone()))?;
        registry.register(Box::new(evictions.duration.clone()))?;
        registry.register(Box::new(evictions.cancelled.clone()))?;
        Ok(evictions)
    }

    /// A delete was accepted, so long after the deadline.
    pub fn deleted(&self, lag: Duration) {
        self.deletions.inc();
        self.duration.observe(lag.as_secs_f64());
    }

    /// An eviction was called off.
    pub fn cancelled(&self) {
        self.cancelled.inc();
    }
}

/// Counts at scrape time, so that it cannot drift.
struct AtScrape<F> {
    counts: F,
    pending: IntGauge,
    overdue: IntGauge,
}

/// Registers the gauges that show `counts`.
pub fn register_counts(
    registry: &Registry,
    counts: impl Fn() -> Counts + Send + Sync + 'static,
) -> prometheus::Result<()> {
    registry.register(Box::new(AtScrape {
        counts,
        pending: IntGauge::new(
            "taint_eviction_controller_pending_evictions",
            "Number of Pods that will be evicted, unless the taint goes first.",
        )?,
        overdue: IntGauge::new(
            "taint_eviction_controller_overdue_evictions",
            "Number of Pods whose eviction keeps failing and is being retried.",
        )?,
    }))
}

impl<F: Fn() -> Counts + Send + Sync> Collector for AtScrape<F> {
    fn desc(&self) -> Vec<&Desc> {
        [&self.pending, &self.overdue]
            .into_iter()
            .flat_map(Collector::desc)
            .collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Counts { pending, overdue } = (self.counts)();
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.pending.set(gauge(pending));
        self.overdue.set(gauge(overdue));
        [&self.pending, &self.overdue]
            .into_iter()
            .flat_map(Collector::collect)
            .collect()
    }
}
