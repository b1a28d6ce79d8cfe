//! This controller's own metrics, computed at scrape time so that they cannot drift from the cache.

use std::sync::Arc;

use controller_core::informer::Store;
use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGauge, Registry};

use crate::decide::Step;
use crate::view::{Annotation, NodeView};

/// The step the controller is at; `None` before the first full list.
pub type SharedStep = Arc<Mutex<Option<Step>>>;

struct Cluster {
    nodes: Store<NodeView>,
    step: SharedStep,
    desired: IntGauge,
    count: IntGauge,
    out_of_date: IntGauge,
}

/// Registers the gauges over `nodes` and `step`.
pub fn register(registry: &Registry, nodes: Store<NodeView>, step: SharedStep) -> prometheus::Result<()> {
    registry.register(Box::new(Cluster {
        nodes,
        step,
        desired: IntGauge::new(
            "ttl_controller_desired_ttl_seconds",
            "TTL that every node should carry, by the size of the cluster.",
        )?,
        count: IntGauge::new("ttl_controller_nodes", "Number of nodes counted.")?,
        out_of_date: IntGauge::new(
            "ttl_controller_nodes_out_of_date",
            "Number of nodes whose annotation differs from the desired TTL.",
        )?,
    }))
}

impl Collector for Cluster {
    fn desc(&self) -> Vec<&Desc> {
        [&self.desired, &self.count, &self.out_of_date]
            .into_iter()
            .flat_map(Collector::desc)
            .collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // Before the first full list there is no count and no desired TTL: better none than a wrong one.
        let Some(step) = *self.step.lock() else {
            return Vec::new();
        };
        let desired = Annotation::Seconds(step.desired_ttl_seconds());
        let nodes = self.nodes.snapshot();
        let out_of_date = nodes.iter().filter(|node| node.annotation != desired).count();
        self.desired.set(step.desired_ttl_seconds());
        self.count.set(gauge(nodes.len()));
        self.out_of_date.set(gauge(out_of_date));
        [&self.desired, &self.count, &self.out_of_date]
            .into_iter()
            .flat_map(Collector::collect)
            .collect()
    }
}

fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
