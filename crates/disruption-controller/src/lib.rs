//! Keeps `.status` of every `PodDisruptionBudget` up to date, which the Eviction API relies on, and resets
//! `DisruptionTarget` conditions of pods that stayed.

pub mod config;
pub mod decide;
pub mod discovery;
pub mod drain;
pub mod events;
pub mod explain;
pub mod metrics;
pub mod reconcile;
pub mod requests;
mod results;
pub mod route;
pub mod scales;
pub mod state;
pub mod view;

use std::collections::BTreeMap;

use controller_core::about::{About, about};
use controller_core::app::{
    App, BuiltIn, Explain, ExplainOther, Explainer, Fields, Informers, Preflight, Prepared, Report, Started,
};
use controller_core::cache::Store;
use controller_core::controller::Pass;
pub use controller_core::{labels, selector};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Node, Pod, ReplicationController};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use prometheus::Registry;

use crate::config::{Config, OWNERS};
use crate::decide::{Builtin, OwnerRules};
use crate::metrics::DisruptionMetrics;
use crate::view::{NodeView, NodeWire, PdbView, PdbWire, PodView, PodWire, WorkloadView, WorkloadWire};

/// Name of the binary, the Lease, the field manager and the chart.
pub const NAME: &str = "disruption-controller";

/// The controller; as an [`App`] also its binary.
#[derive(Debug)]
pub struct DisruptionController {
    concurrent_syncs: usize,
    observes: bool,
    owners: OwnerRules,
    numbers: DisruptionMetrics,
}

#[derive(Clone, Debug, Default)]
pub struct Stores {
    pub pods: Store<PodView>,
    pub pdbs: Store<PdbView>,
    pub workloads: BTreeMap<Builtin, Store<WorkloadView>>,
    /// The cordoned nodes; only an observer watches them.
    pub cordoned: Store<NodeView>,
}

impl Stores {
    /// The store of this kind.
    pub fn workloads_of(&mut self, kind: Builtin) -> &mut Store<WorkloadView> {
        self.workloads.entry(kind).or_default()
    }
}

impl DisruptionController {
    /// Fails if `registry` already has this controller's metrics.
    pub fn new(config: &Config, registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            concurrent_syncs: config.concurrent_syncs as usize,
            observes: config.observe,
            owners: config.owner_rules(),
            numbers: DisruptionMetrics::register(registry)?,
        })
    }
}

impl App for DisruptionController {
    type Config = Config;

    const ABOUT: About = about!();

    const EXPLAIN: Option<Explain<Self>> = Some(Explain {
        about: "Print how many disruptions a budget allows, where each number comes from, and which pods do not count",
        object: "NAMESPACE/PDB",
        help: "The PodDisruptionBudget",
        settings: OWNERS,
        by: Explainer::OneOr(
            |config, pass, now, pdb| explain::explain(pass, pdb, &config.owner_rules(), now.wall),
            ExplainOther {
                flag: "pod",
                object: "NAMESPACE/POD",
                help: "Explain instead whether this pod can be evicted, and its budgets",
                by: |config, pass, now, pod| explain::explain_pod(pass, pod, &config.owner_rules(), now.wall),
            },
        ),
    });

    const REPORT: Option<Report<Self>> = Some(drain::blockers::REPORT);

    const PREFLIGHT: Option<Preflight<Self>> = Some(Preflight {
        built_in: BuiltIn {
            alias: Some("disruption"),
            writes: Some(Fields {
                path: "/apis/policy/v1/poddisruptionbudgets",
                subresource: "status",
                fields: &["f:status"],
            }),
            // The built-in's events come from `controllermanager`, which may be any of its loops.
            events: None,
        },
        shares_work: |_| false,
        rules: include_str!("../../../charts/src/disruption-controller/rules.yaml"),
        rules_of_gates: None,
    });

    fn start(config: &Config, _: &Pass<Self>, registry: &Registry) -> Started<Self> {
        Ok(Prepared::Ready(Self::new(config, registry)))
    }

    fn watch(&self, informers: &mut impl Informers<Self>) {
        informers.fill::<Pod, PodWire>(|stores| &mut stores.pods);
        informers.fill::<PodDisruptionBudget, PdbWire>(|stores| &mut stores.pdbs);
        informers.fill::<ReplicationController, WorkloadWire>(|stores| {
            stores.workloads_of(Builtin::ReplicationController)
        });
        informers.fill::<ReplicaSet, WorkloadWire>(|stores| stores.workloads_of(Builtin::ReplicaSet));
        informers.fill::<Deployment, WorkloadWire>(|stores| stores.workloads_of(Builtin::Deployment));
        informers.fill::<StatefulSet, WorkloadWire>(|stores| stores.workloads_of(Builtin::StatefulSet));
        if self.observes {
            informers.fill_selected::<Node, NodeWire>(Some("spec.unschedulable=true"), |stores| {
                &mut stores.cordoned
            });
        }
    }
}
