//! Keeps `.status` of every `PodDisruptionBudget` true, so that the Eviction API can decide, and resets
//! `DisruptionTarget` conditions of pods that stayed.
//!
//! | module | answers |
//! |---|---|
//! | [`view`], [`selector`] | what is read of a pod, a budget and a workload? |
//! | [`route`] | whom does a change wake, and how soon? |
//! | [`budgets`] | which pods has a budget, and how many are healthy? |
//! | [`decide`] | what should be done? |
//! | [`apply`] | how is it written? |
//! | [`controller`], [`queues`] | in which order? |
//! | [`scales`], [`live`] | where do scales come from, and what is read past the cache? |
//! | [`explain`] | what would be done now, and why? |
//! | [`config`], [`error`], [`metrics`], [`notes`] | flags, failures, numbers, events |

pub mod apply;
pub mod budgets;
pub mod config;
pub mod controller;
pub mod decide;
pub mod error;
pub mod explain;
pub mod live;
pub mod metrics;
pub mod notes;
pub mod queues;
pub mod route;
pub mod scales;
pub mod selector;
pub mod view;

use std::sync::Arc;
use std::time::Duration;

use clap::ArgMatches;
use controller_core::api::Caller;
use controller_core::args::{self, About, COMMIT};
use controller_core::clock::Clock;
use controller_core::informer::{Source, WatcherSource};
use controller_core::runtime::{App, Env, Failure};
use controller_core::tasks::TaskSet;
use controller_core::workqueue::{ItemExponential, WorkQueue};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use crate::config::Config;
use crate::controller::Controller;
use crate::queues::{Key, Queues};
use crate::scales::Workloads;
use crate::view::{PdbWire, PodView, PodWire, WorkloadWire};

/// Name of the binary, the Lease, the field manager and the chart.
pub const NAME: &str = "disruption-controller";
/// Names of the queues in the metrics, as upstream has them.
const QUEUE: &str = "disruption";
const RECHECK_QUEUE: &str = "disruption_recheck";
const STALE_POD_QUEUE: &str = "stale_pod_disruption";
/// How soon what failed is tried again at first: most failures are conflicts with an eviction.
const RETRY_FIRST: Duration = Duration::from_millis(5);
/// How soon at the latest: what refused it may be mended at any time.
const RETRY_LAST: Duration = Duration::from_mins(1);

/// The binary.
#[derive(Debug)]
pub struct DisruptionController;

impl App for DisruptionController {
    type Config = Config;

    const ABOUT: About = About {
        name: NAME,
        about: "Keeps the status of PodDisruptionBudgets true, which the Eviction API believes",
        version: env!("CARGO_PKG_VERSION"),
        commit: COMMIT,
    };

    fn subcommands() -> Vec<clap::Command> {
        vec![args::explain(
            "Print how many disruptions a budget allows, where each number comes from, and which pods do not count",
            "NAMESPACE/PDB",
            "The PodDisruptionBudget",
        )]
    }

    async fn run(config: Config, env: Env) -> Result<(), Failure> {
        run(&config, env).await
    }

    async fn subcommand(
        _explain: &str,
        matches: &ArgMatches,
        _: Config,
        client: kube::Client,
        caller: Caller,
    ) -> Result<String, Failure> {
        let key = args::explained(matches)?;
        let clock = Clock::system();
        let found = explain::find(&client, &caller, &clock, key).await?;
        match found.and_then(|found| explain::explain(&found, clock.now())) {
            Some(explanation) => Ok(explanation.to_string()),
            None => Err(format!("no PodDisruptionBudget {key}").into()),
        }
    }
}

/// Keeps the budgets' statuses true until `env.shutdown` drains.
pub async fn run(config: &Config, env: Env) -> Result<(), Failure> {
    run_over(config, env, |pods| pods).await
}

/// The same over what `over` makes of the source of pods.
pub async fn run_over<S: Source<View = PodView>>(
    config: &Config,
    env: Env,
    over: impl FnOnce(WatcherSource<PodWire>) -> S,
) -> Result<(), Failure> {
    let queues = Queues {
        budgets: queue(&env, QUEUE)?,
        rechecks: queue(&env, RECHECK_QUEUE)?,
        stale_pods: queue(&env, STALE_POD_QUEUE)?,
    };
    let informers = env.informers()?;
    let pods = informers.over::<Pod, _>(over(informers.source::<Pod, _>()));
    let pdbs = informers.of::<PodDisruptionBudget, PdbWire>();
    let replication_controllers = informers.of::<ReplicationController, WorkloadWire>();
    let replica_sets = informers.of::<ReplicaSet, WorkloadWire>();
    let deployments = informers.of::<Deployment, WorkloadWire>();
    let stateful_sets = informers.of::<StatefulSet, WorkloadWire>();
    let workloads = Workloads {
        replication_controllers: replication_controllers.store(),
        replica_sets: replica_sets.store(),
        deployments: deployments.store(),
        stateful_sets: stateful_sets.store(),
    };
    let (pods_store, pdbs_store) = (pods.store(), pdbs.store());
    let controller = Arc::new(Controller::new(
        config,
        &env,
        Arc::clone(informers.interner()),
        pods_store.clone(),
        workloads.clone(),
        queues.clone(),
    )?);
    let counted = Arc::clone(&controller);
    metrics::register_states(&env.registry, move || counted.states())?;

    let mut tasks = TaskSet::new();
    tasks.spawn("informer of pods", pods.handler(Arc::clone(&controller)).run());
    tasks.spawn("informer of budgets", pdbs.handler(Arc::clone(&controller)).run());
    for workload in [replication_controllers, replica_sets, deployments, stateful_sets] {
        tasks.spawn(
            "informer of workloads",
            workload.handler(Arc::clone(&controller)).run(),
        );
    }
    let timekeeper = Arc::clone(&controller);
    tasks.spawn("timer of budgets and pods", async move {
        timekeeper.keep_time().await;
    });

    let synced = async {
        pods_store.synced().await;
        pdbs_store.synced().await;
        workloads.replication_controllers.synced().await;
        workloads.replica_sets.synced().await;
        workloads.deployments.synced().await;
        workloads.stateful_sets.synced().await;
    };
    let workers = env.workers(NAME, config.concurrent_syncs)?;
    let lanes = queues.lanes(workers.concurrent_syncs);
    tokio::select! {
        () = workers.run_lanes(&*controller, &lanes, &env.leadership, synced, &env.shutdown) => Ok(()),
        failed = tasks.first_failure() => Err(failed.into()),
    }
}

fn queue(env: &Env, name: &'static str) -> Result<WorkQueue<Key>, Failure> {
    let limiter = ItemExponential::new(RETRY_FIRST, RETRY_LAST);
    Ok(WorkQueue::new(
        env.clock.clone(),
        limiter,
        env.queue_metrics(name)?,
    ))
}
