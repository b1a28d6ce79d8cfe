//! The queue's metrics, under Kubernetes' names (`component-base/metrics/prometheus/workqueue`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use derive_where::derive_where;
use parking_lot::Mutex;
use prometheus::core::AtomicF64;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntGauge, Opts, Registry, exponential_buckets};

use crate::metrics::{at_scrape_of, register};

/// The metrics of one queue; cheap to clone.
#[derive(Clone)]
#[derive_where(Debug)]
pub struct QueueMetrics {
    /// Time since the start of the process.
    #[derive_where(skip)]
    uptime: Arc<dyn Fn() -> Duration + Send + Sync>,
    depth: IntGauge,
    adds: IntCounter,
    queue_duration: Histogram,
    work_duration: Histogram,
    retries: IntCounter,
    running: Arc<Mutex<Running>>,
}

/// The runs of keys by an increasing number: the first is the longest running.
#[derive(Debug, Default)]
struct Running {
    last: u64,
    runs: BTreeMap<u64, Run>,
}

#[derive(Debug)]
struct Run {
    began: Duration,
    /// Last time at which the run made progress.
    went_on: Duration,
}

impl QueueMetrics {
    /// Makes the metrics of the queue `name` and registers them; `uptime` counts from the start of the process. Fails if `registry` already has them.
    pub fn register(
        registry: &Registry,
        uptime: impl Fn() -> Duration + Send + Sync + 'static,
        name: &str,
    ) -> prometheus::Result<Self> {
        let opts = |metric: &str, help: &str| Opts::new(metric, help).const_label("name", name);
        let histogram = |metric: &str, help: &str| {
            // Kubernetes' buckets: 10 ns to 10 s.
            let buckets = exponential_buckets(1e-8, 10.0, 10)?;
            let options = HistogramOpts::from(opts(metric, help)).buckets(buckets);
            register(registry, Histogram::with_opts(options))
        };
        let running = Arc::new(Mutex::new(Running::default()));
        let uptime: Arc<dyn Fn() -> Duration + Send + Sync> = Arc::new(uptime);
        let (asked, at) = (Arc::clone(&running), Arc::clone(&uptime));
        let gauges = [
            opts(
                "workqueue_unfinished_work_seconds",
                "How many seconds of work has done that is in progress and hasn't been observed by work_duration. \
                 Large values indicate stuck threads. One can deduce the number of stuck threads by observing the \
                 rate at which this increases.",
            ),
            opts(
                "workqueue_longest_running_processor_seconds",
                "How many seconds has the longest running processor for workqueue been running.",
            ),
        ];
        at_scrape_of::<AtomicF64, 2>(registry, gauges, move || {
            let (running, now) = (asked.lock(), at());
            Some([running.unfinished(now), running.longest(now)].map(|time| time.as_secs_f64()))
        })?;
        let counter = |metric, help| register(registry, IntCounter::with_opts(opts(metric, help)));
        let depth = IntGauge::with_opts(opts("workqueue_depth", "Current depth of workqueue"));
        Ok(Self {
            depth: register(registry, depth)?,
            adds: counter(
                "workqueue_adds_total",
                "Total number of adds handled by workqueue",
            )?,
            queue_duration: histogram(
                "workqueue_queue_duration_seconds",
                "How long in seconds an item stays in workqueue before being requested.",
            )?,
            work_duration: histogram(
                "workqueue_work_duration_seconds",
                "How long in seconds processing an item from workqueue takes.",
            )?,
            retries: counter(
                "workqueue_retries_total",
                "Total number of retries handled by workqueue",
            )?,
            running,
            uptime,
        })
    }

    /// The longest time that a run has made no progress; zero if there are no runs. A run that merely takes long is not
    /// stuck.
    pub fn longest_stuck(&self) -> Duration {
        let first = self.running.lock().runs.values().map(|run| run.went_on).min();
        first.map_or(Duration::ZERO, |first| (self.uptime)().saturating_sub(first))
    }

    /// Counts a key that waits to be processed.
    pub fn added(&self) {
        self.adds.inc();
        self.depth.inc();
    }

    pub(crate) fn retried(&self) {
        self.retries.inc();
    }

    /// Records that a run begins after its key has `waited`; returns the number that ends the run.
    pub fn started(&self, waited: Option<Duration>) -> u64 {
        self.depth.dec();
        if let Some(waited) = waited {
            self.queue_duration.observe(waited.as_secs_f64());
        }
        let mut running = self.running.lock();
        running.last += 1;
        let run = running.last;
        let now = (self.uptime)();
        let (began, went_on) = (now, now);
        running.runs.insert(run, Run { began, went_on });
        run
    }

    /// Records progress of a run: the run waits for something, or does it.
    pub(crate) fn goes_on(&self, run: u64) {
        if let Some(run) = self.running.lock().runs.get_mut(&run) {
            run.went_on = (self.uptime)();
        }
    }

    pub(crate) fn finished(&self, run: u64) {
        let ended = self.running.lock().runs.remove(&run);
        if let Some(ended) = ended {
            self.work_duration
                .observe((self.uptime)().saturating_sub(ended.began).as_secs_f64());
        }
    }
}

impl Running {
    fn longest(&self, now: Duration) -> Duration {
        let first = self.runs.values().next();
        first.map_or(Duration::ZERO, |run| now.saturating_sub(run.began))
    }

    fn unfinished(&self, now: Duration) -> Duration {
        let runs = self.runs.values();
        runs.map(|run| now.saturating_sub(run.began)).sum()
    }
}
