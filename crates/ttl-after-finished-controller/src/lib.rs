//! Deletes finished Jobs, and what they own, `spec.ttlSecondsAfterFinished` seconds after they finished.
//!
//! | module | answers |
//! |---|---|
//! | [`view`] | what is read of a Job? |
//! | [`route`] | whom does a change wake? |
//! | [`decide`] | what should be done? |
//! | [`apply`] | how is it written? |
//! | [`controller`] | in which order? |
//! | [`live`] | what is read past the cache? |
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
pub mod route;
pub mod view;

use std::sync::Arc;
use std::time::Duration;

use clap::ArgMatches;
use controller_core::api::Caller;
use controller_core::args::About;
use controller_core::clock::Clock;
use controller_core::informer::{Informer, InformerMetrics, Interner, WatcherSource};
use controller_core::meta::ObjectKey;
use controller_core::runtime::{App, Env, Failure};
use controller_core::tasks::TaskSet;
use controller_core::workers::{SyncFailures, Workers};
use controller_core::workqueue::{ItemExponential, QueueMetrics, WorkQueue};
use k8s_openapi::api::batch::v1::Job;
use kube::discovery::ApiResource;

use crate::config::Config;
use crate::controller::Controller;
use crate::live::LiveJobs;
use crate::view::JobWire;

/// Name of the binary, the Lease, the field manager and the chart.
pub const NAME: &str = "ttl-after-finished-controller";
/// Name of the queue in the metrics, as upstream has it.
const QUEUE: &str = "ttl_jobs_to_delete";
/// How soon a Job that could not be deleted is tried again at first.
const RETRY_FIRST: Duration = Duration::from_millis(5);
/// How soon at the latest: what refused it may be mended at any time.
const RETRY_LAST: Duration = Duration::from_secs(8);

/// The binary.
#[derive(Debug)]
pub struct TtlAfterFinishedController;

impl App for TtlAfterFinishedController {
    type Config = Config;

    const ABOUT: About = About {
        name: NAME,
        about: "Deletes finished Jobs once their ttlSecondsAfterFinished has passed",
        version: env!("CARGO_PKG_VERSION"),
        commit: match option_env!("BUILD_COMMIT") {
            Some(commit) => commit,
            None => "unknown",
        },
    };

    fn subcommands() -> Vec<clap::Command> {
        let job = clap::Arg::new("job")
            .value_name("NAMESPACE/JOB")
            .required(true)
            .value_parser(ObjectKey::parse_namespaced)
            .help("The Job");
        vec![
            clap::Command::new("explain")
                .about("Print when a Job finished, when it expires, or why it does not")
                .arg(job),
        ]
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
        let Some(key) = matches.get_one::<ObjectKey>("job") else {
            return Err("name a Job".into());
        };
        let jobs = LiveJobs::new(client, caller);
        match explain::read_and_explain(&jobs, key, &Clock::system()).await? {
            Some(explanation) => Ok(explanation.to_string()),
            None => Err(format!("no Job {key}").into()),
        }
    }
}

/// Deletes expired Jobs until `env.shutdown` drains.
pub async fn run(config: &Config, env: Env) -> Result<(), Failure> {
    let limiter = ItemExponential::new(RETRY_FIRST, RETRY_LAST);
    let queue_metrics = QueueMetrics::register(&env.registry, env.clock.clone(), QUEUE)?;
    let queue = WorkQueue::new(env.clock.clone(), limiter, queue_metrics);
    let watched = queue.clone();
    env.liveness.queue(QUEUE, move || watched.longest_running());

    let resource = ApiResource::erase::<Job>(&());
    let source =
        WatcherSource::<JobWire>::new(env.client.clone(), resource, Interner::new(), env.clock.clone());
    let metrics = InformerMetrics::register(&env.registry)?.for_resource("jobs");
    let informer = Informer::new(source, env.clock.clone(), metrics);
    let jobs = informer.store();
    let state = informer.state();
    env.readiness
        .check("informer-jobs", move || state.borrow().ready());

    let controller = Arc::new(Controller::new(config, &env, jobs.clone(), queue.clone())?);
    let informer = informer.handler(Arc::clone(&controller));

    let mut tasks = TaskSet::new();
    tasks.spawn("informer of jobs", informer.run());
    let timekeeper = Arc::clone(&controller);
    tasks.spawn("timer of jobs", async move { timekeeper.keep_time().await });
    let workers = Workers {
        controller: NAME,
        concurrent_syncs: config.concurrent_syncs as usize,
        clock: env.clock.clone(),
        failures: SyncFailures::register(&env.registry)?,
    };
    tokio::select! {
        () = workers.run(&*controller, &queue, &env.leadership, jobs.synced(), &env.shutdown) => Ok(()),
        failed = tasks.first_failure() => Err(failed.into()),
    }
}
