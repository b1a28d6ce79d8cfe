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
use controller_core::args::{About, COMMIT};
use controller_core::informer::{Source, WatcherSource};
use controller_core::runtime::{App, Env, Failure};
use controller_core::tasks::TaskSet;
use controller_core::workqueue::{DefaultRateLimiter, WorkQueue};
use k8s_openapi::api::core::v1::Node;

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
        commit: COMMIT,
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
    run_over(config, env, |nodes| nodes).await
}

/// The same over what `over` makes of the source of nodes.
pub async fn run_over<S: Source<View = NodeView>>(
    config: &Config,
    env: Env,
    over: impl FnOnce(WatcherSource<NodeWire>) -> S,
) -> Result<(), Failure> {
    let limiter = DefaultRateLimiter::new(env.clock.clone());
    let queue = WorkQueue::new(env.clock.clone(), limiter, env.queue_metrics(QUEUE)?);
    let informers = env.informers()?;
    let informer = informers.over::<Node, _>(over(informers.source::<Node, _>()));
    let nodes = informer.store();
    let controller = Arc::new(Controller::new(config, &env, nodes.clone(), queue.clone())?);
    metrics::register(&env.registry, nodes.clone(), controller.step())?;

    let mut tasks = TaskSet::new();
    tasks.spawn(
        "informer of nodes",
        informer.handler(Arc::clone(&controller)).run(),
    );
    let workers = env.workers(NAME, config.concurrent_syncs)?;
    tokio::select! {
        () = workers.run(&*controller, &queue, &env.leadership, nodes.synced(), &env.shutdown) => Ok(()),
        failed = tasks.first_failure() => Err(failed.into()),
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
