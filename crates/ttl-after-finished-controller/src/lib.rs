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
use controller_core::args::{self, About, COMMIT};
use controller_core::clock::Clock;
use controller_core::informer::{Source, WatcherSource};
use controller_core::runtime::{App, Env, Failure};
use controller_core::tasks::TaskSet;
use controller_core::workqueue::{ItemExponential, WorkQueue};
use k8s_openapi::api::batch::v1::Job;

use crate::config::Config;
use crate::controller::Controller;
use crate::live::LiveJobs;
use crate::view::{JobView, JobWire};

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
        commit: COMMIT,
    };

    fn subcommands() -> Vec<clap::Command> {
        vec![args::explain(
            "Print when a Job finished, when it expires, or why it does not",
            "NAMESPACE/JOB",
            "The Job",
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
        let jobs = LiveJobs::new(client, caller);
        match explain::read_and_explain(&jobs, key, &Clock::system()).await? {
            Some(explanation) => Ok(explanation.to_string()),
            None => Err(format!("no Job {key}").into()),
        }
    }
}

/// Deletes expired Jobs until `env.shutdown` drains.
pub async fn run(config: &Config, env: Env) -> Result<(), Failure> {
    run_over(config, env, |jobs| jobs).await
}

/// The same over what `over` makes of the source of Jobs.
pub async fn run_over<S: Source<View = JobView>>(
    config: &Config,
    env: Env,
    over: impl FnOnce(WatcherSource<JobWire>) -> S,
) -> Result<(), Failure> {
    let limiter = ItemExponential::new(RETRY_FIRST, RETRY_LAST);
    let queue = WorkQueue::new(env.clock.clone(), limiter, env.queue_metrics(QUEUE)?);
    let informers = env.informers()?;
    let informer = informers.over::<Job, _>(over(informers.source::<Job, _>()));
    let jobs = informer.store();
    let controller = Arc::new(Controller::new(config, &env, jobs.clone(), queue.clone())?);

    let mut tasks = TaskSet::new();
    tasks.spawn(
        "informer of jobs",
        informer.handler(Arc::clone(&controller)).run(),
    );
    let timekeeper = Arc::clone(&controller);
    tasks.spawn("timer of jobs", async move { timekeeper.keep_time().await });
    let workers = env.workers(NAME, config.concurrent_syncs)?;
    tokio::select! {
        () = workers.run(&*controller, &queue, &env.leadership, jobs.synced(), &env.shutdown) => Ok(()),
        failed = tasks.first_failure() => Err(failed.into()),
    }
}
