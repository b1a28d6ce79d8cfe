//! This controller's own metrics.

use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Histogram, HistogramOpts, IntCounterVec, IntGaugeVec, Opts, Registry, exponential_buckets};

use crate::budgets::States;

/// How long the statuses were behind their pods.
#[derive(Clone, Debug)]
pub struct Lag(Histogram);

/// Reads of `/scale`.
#[derive(Clone, Debug)]
pub struct ScaleRequests(IntCounterVec);

impl Lag {
    /// Makes `disruption_controller_status_update_lag_seconds` and registers it.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let options = HistogramOpts::new(
            "disruption_controller_status_update_lag_seconds",
            "Latency, in seconds, between the first change of a pod that the status of a PodDisruptionBudget does \
             not show and the write of that status.",
        );
        let histogram = Histogram::with_opts(options.buckets(exponential_buckets(0.005, 2.0, 14)?))?;
        registry.register(Box::new(histogram.clone()))?;
        Ok(Self(histogram))
    }

    /// A status was written, so long after its pods had changed.
    pub fn observe(&self, lag: Duration) {
        self.0.observe(lag.as_secs_f64());
    }
}

impl ScaleRequests {
    /// Makes `disruption_controller_scale_requests_total` and registers it.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let requests = IntCounterVec::new(
            Opts::new(
                "disruption_controller_scale_requests_total",
                "Number of reads of the scale subresource, by HTTP status code; <error> where no answer came.",
            ),
            &["code"],
        )?;
        registry.register(Box::new(requests.clone()))?;
        Ok(Self(requests))
    }

    /// Counts a read.
    pub fn count<T>(&self, answer: &kube::Result<T>) {
        let code = match answer {
            Ok(_) => "200".to_owned(),
            Err(kube::Error::Api(status)) => status.code.to_string(),
            Err(_) => "<error>".to_owned(),
        };
        self.0.with_label_values(&[code.as_str()]).inc();
    }
}

/// Counts at scrape time, so that it cannot drift.
struct AtScrape<F> {
    states: F,
    gauge: IntGaugeVec,
}

/// Registers the gauge that shows `states`.
pub fn register_states(
    registry: &Registry,
    states: impl Fn() -> States + Send + Sync + 'static,
) -> prometheus::Result<()> {
    let gauge = IntGaugeVec::new(
        Opts::new(
            "disruption_controller_pdbs",
            "Number of PodDisruptionBudgets: those that allow disruptions, those that allow none, and those that \
             cannot be computed.",
        ),
        &["state"],
    )?;
    registry.register(Box::new(AtScrape { states, gauge }))
}

impl<F: Fn() -> States + Send + Sync> Collector for AtScrape<F> {
    fn desc(&self) -> Vec<&Desc> {
        self.gauge.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let States {
            allowed,
            blocked,
            failed,
        } = (self.states)();
        for (state, count) in [("allowed", allowed), ("blocked", blocked), ("failed", failed)] {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.gauge.with_label_values(&[state]).set(count);
        }
        self.gauge.collect()
    }
}
