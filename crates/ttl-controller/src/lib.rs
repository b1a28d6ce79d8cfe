//! Tells each kubelet how long it may cache secrets and config maps, by the size of the cluster.

pub mod config;
pub mod decide;
pub mod events;
pub mod explain;
pub mod metrics;
pub mod reconcile;
pub mod requests;
pub mod state;
pub mod view;

use controller_core::about::{About, about};
use controller_core::app::{
    App, BuiltIn, Explain, Explainer, Fields, Informers, Preflight, Prepared, Started,
};
use controller_core::controller::Pass;
use controller_core::rival::undone_total;
use k8s_openapi::api::core::v1::Node;
use prometheus::{IntCounter, Registry};

use crate::config::Config;
use crate::view::NodeWire;

/// Name of the binary, the Lease, the field manager and the chart.
pub const NAME: &str = "ttl-controller";

/// The controller; as an [`App`] also its binary.
#[derive(Debug)]
pub struct TtlController {
    concurrent_syncs: usize,
    /// `--remove`: take the annotation off every node, then end.
    remove: bool,
    rival_writes: IntCounter,
}

impl TtlController {
    /// Fails if `registry` already has this controller's counters.
    pub fn new(config: &Config, registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            concurrent_syncs: config.concurrent_syncs as usize,
            remove: config.remove,
            rival_writes: undone_total(registry)?,
        })
    }
}

impl App for TtlController {
    type Config = Config;

    const ABOUT: About = about!();

    const EXPLAIN: Option<Explain<Self>> = Some(Explain {
        about: "Print what would be done now, node by node, and why",
        object: "NODE",
        help: "Explain this node only",
        settings: &[],
        by: Explainer::All(|_, pass, _, node| explain::explain(pass, node)),
    });

    const PREFLIGHT: Option<Preflight<Self>> = Some(Preflight {
        built_in: BuiltIn {
            alias: Some("ttl"),
            writes: Some(Fields {
                path: "/api/v1/nodes",
                subresource: "",
                fields: &["f:metadata", "f:annotations", "f:node.alpha.kubernetes.io/ttl"],
            }),
            events: None,
        },
        shares_work: |_| false,
        rules: include_str!("../../../charts/src/ttl-controller/rules.yaml"),
        rules_of_gates: None,
    });

    fn start(config: &Config, _: &Pass<Self>, registry: &Registry) -> Started<Self> {
        Ok(Prepared::Ready(Self::new(config, registry)))
    }

    fn watch(&self, informers: &mut impl Informers<Self>) {
        informers.fill::<Node, NodeWire>(|nodes| nodes);
    }
}
