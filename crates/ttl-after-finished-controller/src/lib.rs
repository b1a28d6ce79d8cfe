//! Deletes finished Jobs and their dependents `spec.ttlSecondsAfterFinished` seconds after they finished, and finished
//! Jobs and pods by clean-up policies.

pub mod config;
pub mod decide;
pub mod events;
pub mod explain;
pub mod metrics;
pub mod policy;
pub mod reconcile;
pub mod requests;
pub mod state;
pub mod view;

use std::sync::Arc;

use controller_core::about::{About, about};
use controller_core::app::{
    App, BuiltIn, Explain, ExplainOther, Explainer, Informers, Preflight, Prepared, Reload, Report,
    RulesOfGates, Started,
};
use controller_core::cache::Store;
use controller_core::controller::Pass;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use prometheus::Registry;

use crate::config::Config;
use crate::metrics::Deletions;
use crate::policy::view::{Candidate, JobCandidateWire, NamespaceView, NamespaceWire, PodWire};
use crate::policy::{FinishedKind, Policies};
use crate::state::StateChange;
use crate::view::{JobView, JobWire};

/// Name of the binary, the Lease, the field manager and the chart.
pub const NAME: &str = "ttl-after-finished-controller";

/// Pods that have finished; the others would be most of the cluster.
const FINISHED: &str = "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown";

/// The controller; as an [`App`] also its binary.
#[derive(Debug)]
pub struct TtlAfterFinishedController {
    concurrent_syncs: usize,
    /// The policies of the start.
    policies: Arc<Policies>,
    /// Jobs with a ttl are left to the cluster's own loop.
    only_policies: bool,
    /// What a policy may ask for is watched.
    watches: Watched,
    numbers: Deletions,
}

/// What is watched for policies.
#[derive(Clone, Copy, Debug)]
struct Watched {
    /// All Jobs, and namespaces.
    policies: bool,
    pods: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Stores {
    /// Jobs with a ttl; empty where `candidates` has all Jobs.
    pub jobs: Store<JobView>,
    /// All Jobs, if there are policies.
    pub candidates: Store<Candidate>,
    /// Finished pods, if a policy names pods.
    pub pods: Store<Candidate>,
    /// All namespaces, if there are policies.
    pub namespaces: Store<NamespaceView>,
}

impl Stores {
    /// The objects of a kind to which policies may apply.
    pub const fn candidates_of(&self, kind: FinishedKind) -> &Store<Candidate> {
        match kind {
            FinishedKind::Job => &self.candidates,
            FinishedKind::Pod => &self.pods,
        }
    }
}

impl TtlAfterFinishedController {
    /// Fails if `registry` already has this controller's metrics.
    pub fn new(config: &Config, registry: &Registry) -> prometheus::Result<Self> {
        let policies = config.compiled();
        Ok(Self {
            concurrent_syncs: config.concurrent_syncs as usize,
            only_policies: config.only_policies,
            watches: Watched {
                policies: config.has_policies(),
                pods: policies.name(FinishedKind::Pod),
            },
            policies: Arc::new(policies),
            numbers: Deletions::register(registry)?,
        })
    }

    /// The policies of a changed file, if what they need is watched.
    fn reloaded(&self, config: &Config) -> Result<StateChange, String> {
        let policies = config.compiled();
        if policies.name(FinishedKind::Pod) && !self.watches.pods {
            return Err(
                "policies: one names pods, which this process does not watch: start it again".to_owned(),
            );
        }
        Ok(StateChange::Policies(Arc::new(policies)))
    }
}

impl App for TtlAfterFinishedController {
    type Config = Config;

    const ABOUT: About = about!();

    const EXPLAIN: Option<Explain<Self>> = Some(Explain {
        about: "Print when a Job or a pod finished, when it is deleted and by what, or why not",
        object: "NAMESPACE/JOB|pod/NAMESPACE/POD",
        help: "The Job, or the pod",
        settings: &["onlyPolicies", "policyGracePeriod"],
        by: Explainer::OneOr(
            |config, pass, _, job| explain::explain(config, pass, FinishedKind::Job, job),
            ExplainOther {
                flag: "pod",
                object: "NAMESPACE/POD",
                help: "Explain this pod instead of a Job, as pod/NAMESPACE/POD does",
                by: |config, pass, _, pod| explain::explain(config, pass, FinishedKind::Pod, pod),
            },
        ),
    });

    const REPORT: Option<Report<Self>> = Some(policy::preview::REPORT);

    const RELOAD: Option<Reload<Self>> = Some(Reload {
        is_on: Config::has_policies,
        change: Self::reloaded,
    });

    const PREFLIGHT: Option<Preflight<Self>> = Some(Preflight {
        built_in: BuiltIn {
            alias: Some("ttl-after-finished"),
            // The built-in controller only deletes Jobs, and records no events.
            writes: None,
            events: None,
        },
        // Jobs with a ttl.
        shares_work: |config| config.only_policies,
        rules: include_str!("../../../charts/src/ttl-after-finished-controller/rules.yaml"),
        rules_of_gates: Some(RulesOfGates {
            rules: include_str!("../../../charts/src/ttl-after-finished-controller/rules-of-policies.yaml"),
            is_on: Config::needs,
        }),
    });

    fn start(config: &Config, _: &Pass<Self>, registry: &Registry) -> Started<Self> {
        Ok(Prepared::Ready(Self::new(config, registry)))
    }

    fn watch(&self, informers: &mut impl Informers<Self>) {
        if !self.watches.policies {
            informers.fill::<Job, JobWire>(|stores| &mut stores.jobs);
            return;
        }
        informers.fill::<Job, JobCandidateWire>(|stores| &mut stores.candidates);
        informers.fill::<Namespace, NamespaceWire>(|stores| &mut stores.namespaces);
        if self.watches.pods {
            informers.fill_selected::<Pod, PodWire>(Some(FINISHED), |stores| &mut stores.pods);
        }
    }
}
