//! This controller's own metrics.

use std::borrow::Cow;

use controller_core::controller::Inspector;
use controller_core::metrics::{Samples, by_label_at_scrape, register};
use controller_core::rival::undone_total;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, Opts, Registry, exponential_buckets};

use crate::DisruptionController;
use crate::state::{Blocked, CAUSES, MOST_NAMED};

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

/// Registers the gauges that show how many budgets are in which state, and what blocks drains.
pub fn register_states(
    inspector: &Inspector<DisruptionController>,
    registry: &Registry,
) -> prometheus::Result<()> {
    let inspector = inspector.clone();
    by_label_at_scrape(registry, gauges(), move || samples(&inspector))
}

fn gauges() -> Vec<(Opts, &'static [&'static str])> {
    let gauge = |name: &str, labels: &'static [&'static str], help: &str| (Opts::new(name, help), labels);
    vec![
        gauge(
            "disruption_controller_pdbs",
            &["state"],
            "Number of PodDisruptionBudgets: those that allow disruptions, those that allow none, and those that cannot be \
             computed.",
        ),
        gauge(
            "disruption_controller_budgets",
            &["verdict", "cause"],
            "Number of PodDisruptionBudgets by whether they let a pod go now, once their pods are healthy, or never, and \
             why.",
        ),
        gauge(
            "disruption_controller_node_blockers",
            &["verdict"],
            "Number of nodes by the worst verdict of a PodDisruptionBudget on one of their pods.",
        ),
        gauge(
            "disruption_controller_pods_blocked_for_an_hour",
            &[],
            "Number of pods that a PodDisruptionBudget has blocked for longer than an hour.",
        ),
        gauge(
            "disruption_controller_budget_never_allows",
            &["budget", "cause"],
            "1 for each of the first 100 PodDisruptionBudgets that never let a pod go.",
        ),
        gauge(
            "disruption_controller_cordoned_node_blockers",
            &["node_name"],
            "Number of pods that PodDisruptionBudgets block on each of the first 100 cordoned nodes with such pods. Only \
             an observer knows which nodes are cordoned.",
        ),
        gauge(
            "disruption_controller_status_disagrees",
            &[],
            "Number of PodDisruptionBudgets whose status has differed for a minute from what this process, which does not \
             write, would write.",
        ),
    ]
}

fn samples(inspector: &Inspector<DisruptionController>) -> Vec<Samples> {
    let now = inspector.now();
    let mut blocked = Blocked::default();
    let (states, namespaces) = inspector.scrape(|state, _| (state.states(), state.namespaces()));
    // Each apart, so that the loop does not wait for all.
    for namespace in namespaces {
        inspector.scrape(|state, _| {
            state.count_blocked(&namespace, now.wall.as_second(), now.uptime, &mut blocked);
        });
    }
    let cordoned = inspector.scrape(|_, stores| {
        let nodes = stores.cordoned.iter().filter_map(|node| {
            let on = blocked.nodes.get(&node.key.name).filter(|on| on.pods > 0)?;
            Some((vec![Cow::Owned(node.key.name.to_string())], on.pods))
        });
        nodes.take(MOST_NAMED).collect()
    });
    let states = ["allowed", "blocked", "failed"].into_iter().zip(states);
    let causes = CAUSES.into_iter().map(|of| {
        let (verdict, cause) = of;
        let budgets = blocked.budgets.get(&of).copied().unwrap_or_default();
        (vec![verdict.as_str().into(), cause.into()], budgets)
    });
    let nodes = blocked.by_verdict().into_iter();
    let never = blocked.never.iter();
    vec![
        states.map(|(state, pdbs)| (vec![state.into()], pdbs)).collect(),
        causes.collect(),
        nodes
            .map(|(verdict, nodes)| (vec![verdict.as_str().into()], nodes))
            .collect(),
        vec![(Vec::new(), blocked.long)],
        never
            .map(|(budget, cause)| (vec![Cow::Owned(budget.to_string()), (*cause).into()], 1))
            .collect(),
        cordoned,
        vec![(Vec::new(), blocked.disagree)],
    ]
}
