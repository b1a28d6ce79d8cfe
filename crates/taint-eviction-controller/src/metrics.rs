//! This controller's own metrics.

use std::time::Duration;

use controller_core::controller::Inspector;
use controller_core::metrics::{at_scrape, by_label_at_scrape, register};
use prometheus::{Histogram, HistogramOpts, IntCounter, Opts, Registry};

use crate::TaintEvictionController;

/// Source: `pkg/controller/tainteviction/metrics`.
const DURATION_BUCKETS: [f64; 12] = [
    0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0,
];

/// Counts the results of evictions.
#[derive(Clone, Debug)]
pub struct Evictions {
    deletions: IntCounter,
    duration: Histogram,
    cancelled: IntCounter,
}

impl Evictions {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let duration = HistogramOpts::new(
            "taint_eviction_controller_pod_deletion_duration_seconds",
            "Latency, in seconds, between the time when a taint effect has been activated for the Pod and its \
             deletion.",
        );
        let counter = |name: &str, help: &str| register(registry, IntCounter::new(name, help));
        Ok(Self {
            deletions: counter(
                "taint_eviction_controller_pod_deletions_total",
                "Total number of Pods deleted by the taint eviction controller since its start.",
            )?,
            duration: register(
                registry,
                Histogram::with_opts(duration.buckets(DURATION_BUCKETS.to_vec())),
            )?,
            cancelled: counter(
                "taint_eviction_controller_cancelled_evictions_total",
                "Number of evictions that were called off because the Pod may stay.",
            )?,
        })
    }

    /// Counts a delete that was accepted this long after the deadline.
    pub fn deleted(&self, lag: Duration) {
        self.deletions.inc();
        self.duration.observe(lag.as_secs_f64());
    }

    /// Counts an eviction that was called off.
    pub fn cancelled(&self) {
        self.cancelled.inc();
    }
}

/// Registers the gauges; computed at scrape time, so that they cannot drift.
pub fn register_counts(
    inspector: &Inspector<TaintEvictionController>,
    registry: &Registry,
) -> prometheus::Result<()> {
    let gauges = [
        (
            "taint_eviction_controller_pending_evictions",
            "Number of Pods that will be evicted, unless the taint goes first.",
        ),
        (
            "taint_eviction_controller_overdue_evictions",
            "Number of Pods whose eviction keeps failing and is being retried.",
        ),
        (
            "taint_eviction_controller_brake_engaged",
            "1 while the brake holds evictions back.",
        ),
        (
            "taint_eviction_controller_evictions_waiting_for_budgets",
            "Number of Pods whose eviction a PodDisruptionBudget refuses.",
        ),
        (
            "taint_eviction_controller_longest_wait_for_budgets_seconds",
            "How long the first of these Pods has been due.",
        ),
    ];
    let by_kind = |name: &str, help: &str| (Opts::new(name, help), &["kind"][..]);
    let of_brake = vec![
        by_kind(
            "taint_eviction_controller_brake_demand",
            "Pods, and nodes of pods, that are due or were evicted within the brake's window.",
        ),
        by_kind(
            "taint_eviction_controller_brake_limit",
            "Most pods, and nodes of pods, that the brake lets go within its window.",
        ),
    ];
    let inspected = inspector.clone();
    at_scrape(registry, gauges, move || {
        let now = inspected.now().wall;
        Some(inspected.scrape(|state, _| {
            let [pending, overdue, engaged] = state.counts();
            let [waiting, longest] = state.through.counts(now);
            [pending, overdue, engaged, waiting, longest]
        }))
    })?;
    let inspector = inspector.clone();
    by_label_at_scrape(registry, of_brake, move || {
        inspector.scrape(|state, _| state.brake.samples())
    })
}
