//! Keeps `.status` of every `PodDisruptionBudget` true, so that the Eviction API can decide, and resets
//! `DisruptionTarget` conditions of pods that stayed.

pub mod config;
pub mod decide;
pub mod discovery;
pub mod events;
pub mod explain;
pub mod labels;
mod learn;
pub mod memory;
pub mod metrics;
pub mod next;
pub mod requests;
pub mod route;
pub mod scales;
pub mod selector;
pub mod view;

use std::collections::BTreeMap;
use std::future::Future;

use controller_core::args::{About, about};
use controller_core::controller;
use controller_core::informer::Store;
use controller_core::runtime::{App, BuiltIn, Env, Explain, Explainer, Failure, Fields, Preflight};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use prometheus::Registry;

use crate::config::Config;
use crate::decide::Builtin;
use crate::metrics::Numbers;
use crate::view::{PdbView, PdbWire, PodView, PodWire, WorkloadView, WorkloadWire};

/// Name of the binary, the Lease, the field manager and the chart.
pub const NAME: &str = "disruption-controller";

/// The binary, and its controller.
#[derive(Debug)]
pub struct DisruptionController {
    concurrent_syncs: usize,
    numbers: Numbers,
}

/// What it watches.
#[derive(Debug, Default)]
pub struct Stores {
    /// All pods.
    pub pods: Store<PodView>,
    /// All budgets.
    pub pdbs: Store<PdbView>,
    /// What makes pods.
    pub workloads: BTreeMap<Builtin, Store<WorkloadView>>,
}

impl Stores {
    /// Those of this kind.
    pub fn workloads_of(&mut self, kind: Builtin) -> &mut Store<WorkloadView> {
        self.workloads.entry(kind).or_default()
    }
}

impl DisruptionController {
    /// The controller with these flags; fails when `registry` has its metrics already.
    pub fn new(config: &Config, registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            concurrent_syncs: config.concurrent_syncs as usize,
            numbers: Numbers::register(registry)?,
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
        settings: &[],
        by: Explainer::One(|_, pass, now, pdb| explain::explain(pass, pdb, now.wall)),
    });

    const PREFLIGHT: Option<Preflight<Self>> = Some(Preflight {
        built_in: BuiltIn {
            alias: Some("disruption"),
            writes: Some(Fields {
                path: "/apis/policy/v1/poddisruptionbudgets",
                subresource: "status",
                fields: &["f:status"],
            }),
            // They are from `controllermanager`, which may be anybody there.
            events: None,
        },
        rules: include_str!("../../../charts/src/disruption-controller/rules.yaml"),
        rules_of_gates: None,
    });

    fn run(config: Config, env: Env) -> impl Future<Output = Result<(), Failure>> + Send {
        let controller = Self::new(&config, &env.registry);
        controller::run(env, controller, |watching| {
            watching.fill::<Pod, PodWire>(|stores| &mut stores.pods);
            watching.fill::<PodDisruptionBudget, PdbWire>(|stores| &mut stores.pdbs);
            watching.fill::<ReplicationController, WorkloadWire>(|stores| {
                stores.workloads_of(Builtin::ReplicationController)
            });
            watching.fill::<ReplicaSet, WorkloadWire>(|stores| stores.workloads_of(Builtin::ReplicaSet));
            watching.fill::<Deployment, WorkloadWire>(|stores| stores.workloads_of(Builtin::Deployment));
            watching.fill::<StatefulSet, WorkloadWire>(|stores| stores.workloads_of(Builtin::StatefulSet));
        })
    }
}
