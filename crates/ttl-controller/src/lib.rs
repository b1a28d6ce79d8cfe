//! Tells each kubelet how long it may cache secrets and config maps, by the size of the cluster.
//!
//! | module | answers |
//! |---|---|
//! | [`view`] | what is read of a node? |
//! | [`route`] | whom does a change wake? |
//! | [`decide`] | what should be done? |
//! | [`apply`] | how is it written? |
//! | [`controller`] | in which order? |
//! | [`live`] | what is read past the cache? |
//! | [`remove`] | how does the annotation go for good? |
//! | [`explain`] | what would be done now, and why? |
//! | [`config`], [`error`], [`metrics`] | flags, failures, numbers |

pub mod apply;
pub mod config;
pub mod controller;
pub mod decide;
pub mod error;
pub mod explain;
pub mod live;
pub mod metrics;
pub mod remove;
pub mod route;
pub mod view;

use std::sync::Arc;

use clap::ArgMatches;
use controller_core::api::Caller;
use controller_core::args::About;
use controller_core::informer::{Informer, InformerMetrics, Interner, Source, Store, WatcherSource};
use controller_core::meta::ObjectKey;
use controller_core::runtime::{App, Env, Failure};
use controller_core::tasks::TaskSet;
use controller_core::workers::{Reconciler, SyncFailures, Workers};
use controller_core::workqueue::{DefaultRateLimiter, QueueMetrics, WorkQueue};
use k8s_openapi::api::core::v1::Node;
use kube::discovery::ApiResource;

use crate::apply::Apply;
use crate::config::Config;
use crate::controller::Controller;
use crate::live::LiveNodes;
use crate::view::{NodeView, NodeWire};

/// Name of the binary, the Lease, the field manager and the chart.
pub const NAME: &str = "ttl-controller";
/// Name of the queue in the metrics, as upstream has it.
const QUEUE: &str = "ttlcontroller";

/// The binary.
#[derive(Debug)]
pub struct TtlController;

impl App for TtlController {
    type Config = Config;

    const ABOUT: About = About {
        name: NAME,
        about: "Annotates each node with how long its kubelet may cache secrets and config maps",
        version: env!("CARGO_PKG_VERSION"),
        commit: match option_env!("BUILD_COMMIT") {
            Some(commit) => commit,
            None => "unknown",
        },
    };

    fn subcommands() -> Vec<clap::Command> {
        let node = clap::Arg::new("node")
            .value_name("NODE")
            .help("Explain this node only");
        vec![
            clap::Command::new("explain")
                .about("Print what would be done now, node by node, and why")
                .arg(node),
        ]
    }

    async fn run(config: Config, env: Env) -> Result<(), Failure> {
        if config.remove {
            remove(&config, &env).await
        } else {
            run(&config, env).await
        }
    }

    async fn subcommand(
        _explain: &str,
        matches: &ArgMatches,
        _: Config,
        client: kube::Client,
        caller: Caller,
    ) -> Result<String, Failure> {
        let nodes = LiveNodes::new(client, caller).all().await?;
        let only = matches.get_one::<String>("node").map(String::as_str);
        Ok(explain::explain(&nodes, only)?.to_string())
    }
}

/// Keeps the annotations up to date until `env.shutdown` drains.
pub async fn run(config: &Config, env: Env) -> Result<(), Failure> {
    let parts = Parts::assemble(config, &env, nodes(&env))?;
    let controller = Arc::clone(&parts.controller);
    parts.run(&*controller, &env).await
}

/// The nodes of the API server, listed and watched.
pub fn nodes(env: &Env) -> WatcherSource<NodeWire> {
    let resource = ApiResource::erase::<Node>(&());
    WatcherSource::new(env.client.clone(), resource, Interner::new(), env.clock.clone())
}

/// The loop's parts, put together over a source of nodes.
pub struct Parts<S: Source<View = NodeView>> {
    /// What the workers call.
    pub controller: Arc<Controller>,
    informer: Informer<S>,
    nodes: Store<NodeView>,
    queue: WorkQueue<ObjectKey>,
    workers: Workers,
}

impl<S: Source<View = NodeView>> Parts<S> {
    /// Puts the parts together and registers their metrics and checks; nothing runs yet.
    pub fn assemble(config: &Config, env: &Env, source: S) -> Result<Self, Failure> {
        let limiter = DefaultRateLimiter::new(env.clock.clone());
        let queue_metrics = QueueMetrics::register(&env.registry, env.clock.clone(), QUEUE)?;
        let queue = WorkQueue::new(env.clock.clone(), limiter, queue_metrics);
        let watched = queue.clone();
        env.liveness.queue(QUEUE, move || watched.longest_running());

        let metrics = InformerMetrics::register(&env.registry)?.for_resource("nodes");
        let informer = Informer::new(source, env.clock.clone(), metrics);
        let nodes = informer.store();
        let state = informer.state();
        env.readiness
            .check("informer-nodes", move || state.borrow().ready());

        let controller = Arc::new(Controller::new(config, env, nodes.clone(), queue.clone())?);
        metrics::register(&env.registry, nodes.clone(), controller.step())?;
        Ok(Self {
            informer: informer.handler(Arc::clone(&controller)),
            controller,
            nodes,
            queue,
            workers: Workers {
                controller: NAME,
                concurrent_syncs: config.concurrent_syncs as usize,
                clock: env.clock.clone(),
                failures: SyncFailures::register(&env.registry)?,
            },
        })
    }

    /// Works until `env.shutdown` drains. `reconciler` is the controller, or stands before it.
    pub async fn run(self, reconciler: &impl Reconciler<Key = ObjectKey>, env: &Env) -> Result<(), Failure> {
        let mut tasks = TaskSet::new();
        tasks.spawn("informer of nodes", self.informer.run());
        let synced = self.nodes.synced();
        tokio::select! {
            () = self.workers.run(reconciler, &self.queue, &env.leadership, synced, &env.shutdown) => Ok(()),
            failed = tasks.first_failure() => Err(failed.into()),
        }
    }
}

/// Takes the annotation off every node; the Lease first, so that no replica puts it back meanwhile.
async fn remove(config: &Config, env: &Env) -> Result<(), Failure> {
    let live = LiveNodes::new(env.client.clone(), env.caller.clone());
    let apply = Apply::new(env, config.common.dry_run);
    let removal = async {
        let term = env.leadership.lead().await;
        remove::remove_all(&live, &apply, &term, &env.clock, config.concurrent_syncs as usize).await
    };
    tokio::select! {
        removed = removal => {
            let nodes = removed?;
            tracing::info!(nodes, dry_run = config.common.dry_run, "TTL annotation removed");
            Ok(())
        }
        () = env.shutdown.draining() => Err("stopped before the annotation was off every node".into()),
    }
}
