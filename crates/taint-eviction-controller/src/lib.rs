//! Deletes pods from nodes whose `NoExecute` taints they do not, or no longer, tolerate.
//!
//! | module | answers |
//! |---|---|
//! | [`view`] | what is read of a pod and of a node? |
//! | [`route`] | whom does a change wake? |
//! | [`decide`] | what should be done? |
//! | [`agenda`] | who is to go when, and how far has that come? |
//! | [`apply`] | how is it written? |
//! | [`controller`] | in which order is judged? |
//! | [`evict`] | in which order is evicted? |
//! | [`live`] | what is read past the cache? |
//! | [`explain`] | what would be done now, and why? |
//! | [`config`], [`error`], [`metrics`], [`notes`] | flags, failures, numbers, events |

pub mod agenda;
pub mod apply;
pub mod config;
pub mod controller;
pub mod decide;
pub mod error;
pub mod evict;
pub mod explain;
pub mod live;
pub mod metrics;
pub mod notes;
pub mod route;
pub mod view;

use std::sync::Arc;

use clap::ArgMatches;
use controller_core::api::Caller;
use controller_core::args::{self, About, COMMIT};
use controller_core::clock::Clock;
use controller_core::informer::{Source, WatcherSource};
use controller_core::leader::Leadership;
use controller_core::runtime::{App, Env, Failure};
use controller_core::tasks::TaskSet;
use controller_core::workers::Workers;
use controller_core::workqueue::{DefaultRateLimiter, WorkQueue};
use k8s_openapi::api::core::v1::{Node, Pod};

use crate::config::Config;
use crate::controller::{Controller, Key, Lanes};
use crate::evict::Pool;
use crate::view::{NodeView, NodeWire, PodWire};

/// Name of the binary, the Lease, the field manager and the chart.
pub const NAME: &str = "taint-eviction-controller";
/// Names of the queues in the metrics, as upstream has them.
const NODE_QUEUE: &str = "noexec_taint_node";
const POD_QUEUE: &str = "noexec_taint_pod";

/// The binary.
#[derive(Debug)]
pub struct TaintEvictionController;

impl App for TaintEvictionController {
    type Config = Config;

    const ABOUT: About = About {
        name: NAME,
        about: "Deletes pods from nodes whose NoExecute taints they do not tolerate",
        version: env!("CARGO_PKG_VERSION"),
        commit: COMMIT,
    };

    fn subcommands() -> Vec<clap::Command> {
        vec![args::explain(
            "Print the taints of a pod's node, what tolerates them, and when the pod goes",
            "NAMESPACE/POD",
            "The pod",
        )]
    }

    async fn run(config: Config, env: Env) -> Result<(), Failure> {
        run(&config, env).await
    }

    async fn subcommand(
        _explain: &str,
        matches: &ArgMatches,
        config: Config,
        client: kube::Client,
        caller: Caller,
    ) -> Result<String, Failure> {
        let key = args::explained(matches)?;
        let clock = Clock::system();
        let Some((pod, node)) = live::pod_and_node(&client, &caller, &clock, key).await? else {
            return Err(format!("no pod {key}, or it is bound to no node").into());
        };
        Ok(explain::explain(&pod, &node, clock.now(), &config.rules()).to_string())
    }
}

/// Evicts pods until `env.shutdown` drains.
pub async fn run(config: &Config, env: Env) -> Result<(), Failure> {
    run_over(config, env, |nodes| nodes).await
}

/// The same over what `over` makes of the source of nodes.
pub async fn run_over<S: Source<View = NodeView>>(
    config: &Config,
    env: Env,
    over: impl FnOnce(WatcherSource<NodeWire>) -> S,
) -> Result<(), Failure> {
    let workers = config.concurrent_syncs as usize;
    let lanes = Lanes::new(workers, queues(&env, NODE_QUEUE)?, queues(&env, POD_QUEUE)?);
    let informers = env.informers()?;
    let pods = informers.of::<Pod, PodWire>();
    let nodes = informers.over::<Node, _>(over(informers.source::<Node, _>()));
    let (pods_store, nodes_store) = (pods.store(), nodes.store());
    let watch_of_nodes = nodes.state();

    let controller = Arc::new(Controller::new(config, &env, pods_store.clone(), lanes.clone())?);
    let counted = Arc::clone(&controller);
    metrics::register_counts(&env.registry, move || counted.counts())?;
    let mut tasks = TaskSet::new();
    tasks.spawn("informer of pods", pods.handler(Arc::clone(&controller)).run());
    tasks.spawn("informer of nodes", nodes.handler(Arc::clone(&controller)).run());
    let watching = Arc::clone(&controller);
    tasks.spawn("watch of the nodes' watch", async move {
        watching.watch_the_watch(watch_of_nodes).await;
    });

    let synced = || async {
        pods_store.synced().await;
        nodes_store.synced().await;
    };
    let workers = Workers {
        controller: NAME,
        concurrent_syncs: workers,
        clock: env.clock.clone(),
        failures: controller.failures.clone(),
    };
    let pool = Pool {
        max_concurrent: config.max_concurrent_evictions as usize,
        qps: config.eviction_qps,
    };
    // Judging writes nothing, so it waits for no term.
    let always = Leadership::always();
    let judging = workers.run_lanes(&*controller, lanes.all(), &always, synced(), &env.shutdown);
    let evicting = controller.run_evictions(pool, &env.leadership, synced(), &env.shutdown);
    tokio::select! {
        _ = async { tokio::join!(judging, evicting) } => Ok(()),
        failed = tasks.first_failure() => Err(failed.into()),
    }
}

/// Makes the queues of one name, which share their metrics.
fn queues(env: &Env, name: &'static str) -> Result<impl Fn() -> WorkQueue<Key>, Failure> {
    let metrics = env.queue_metrics(name)?;
    let clock = env.clock.clone();
    Ok(move || {
        WorkQueue::new(
            clock.clone(),
            DefaultRateLimiter::new(clock.clone()),
            metrics.clone(),
        )
    })
}
