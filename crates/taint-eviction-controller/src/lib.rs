//! Deletes pods from nodes with `NoExecute` taints that the pods do not, or no longer, tolerate.

pub mod brake;
mod clock;
pub mod config;
pub mod decide;
mod entry;
pub mod events;
pub mod explain;
mod judge;
pub mod metrics;
pub mod reconcile;
pub mod reconcile_brake;
pub mod requests;
pub mod results;
pub mod route;
pub mod state;
pub mod through;
pub mod view;

use std::time::Duration;

use controller_core::about::{About, about};
use controller_core::app::{
    App, BuiltIn, Explain, Explainer, Informers, Preflight, Prepared, RulesOfGates, Started,
};
use controller_core::cache::Store;
use controller_core::controller::Pass;
use k8s_openapi::api::core::v1::{Node, Pod};
use prometheus::Registry;

use crate::config::Config;
use crate::decide::{BrakeRules, Rules, ThroughBudgets};
use crate::metrics::Evictions;
use crate::view::{NodeView, NodeWire, PodView, PodWire};

/// Name of the binary, the Lease, the field manager and the chart.
pub const NAME: &str = "taint-eviction-controller";

/// The controller; as an [`App`] also its binary.
#[derive(Debug)]
pub struct TaintEvictionController {
    rules: Rules,
    /// `None`: no brake.
    brake: Option<BrakeRules>,
    through_budgets: Vec<ThroughBudgets>,
    max_concurrent_evictions: usize,
    /// Least time between the starts of two evictions; zero for no limit.
    eviction_interval: Duration,
    evictions: Evictions,
}

#[derive(Clone, Debug, Default)]
pub struct Stores {
    /// The pods that are bound to a node.
    pub pods: Store<PodView>,
    /// The nodes that have a `NoExecute` taint.
    pub nodes: Store<NodeView>,
}

impl TaintEvictionController {
    /// Fails if `registry` already has this controller's metrics.
    pub fn new(config: &Config, registry: &Registry) -> prometheus::Result<Self> {
        let interval = Duration::try_from_secs_f64(config.eviction_qps.recip());
        Ok(Self {
            rules: config.rules(),
            brake: config.brake(),
            through_budgets: config.through_budgets().unwrap_or_default(),
            max_concurrent_evictions: config.max_concurrent_evictions as usize,
            eviction_interval: interval.unwrap_or(Duration::ZERO),
            evictions: Evictions::register(registry)?,
        })
    }
}

impl App for TaintEvictionController {
    type Config = Config;

    const ABOUT: About = about!();

    const EXPLAIN: Option<Explain<Self>> = Some(Explain {
        about: "Print the taints of a pod's node, what tolerates them, and when the pod goes",
        object: "NAMESPACE/POD",
        help: "The pod",
        settings: &[
            "catchUpGrace",
            "featureGates",
            "tolerationExtensions",
            "evictThroughBudgets",
            "evictionBrakePods",
            "evictionBrakeNodes",
            "evictionBrakeExemptTaints",
        ],
        by: Explainer::One(|config: &Config, pass, now, pod| {
            explain::explain(pass, pod, now, &config.rules(), config.brake().as_ref())
        }),
    });

    const PREFLIGHT: Option<Preflight<Self>> = Some(Preflight {
        built_in: BuiltIn {
            alias: None,
            // The built-in controller deletes; the conditions that it writes go with the pods.
            writes: None,
            events: Some(NAME),
        },
        shares_work: |_| false,
        rules: include_str!("../../../charts/src/taint-eviction-controller/rules.yaml"),
        rules_of_gates: Some(RulesOfGates {
            rules: include_str!("../../../charts/src/taint-eviction-controller/rules-of-gates.yaml"),
            is_on: |config, setting| {
                setting == "evictThroughBudgets" && config.evict_through_budgets.is_some()
            },
        }),
    });

    fn start(config: &Config, _: &Pass<Self>, registry: &Registry) -> Started<Self> {
        if let Some(warning) = config.warning() {
            tracing::warn!("{warning}");
        }
        Ok(Prepared::Ready(Self::new(config, registry)))
    }

    fn watch(&self, informers: &mut impl Informers<Self>) {
        informers.fill::<Pod, PodWire>(|stores| &mut stores.pods);
        informers.fill::<Node, NodeWire>(|stores| &mut stores.nodes);
    }
}
