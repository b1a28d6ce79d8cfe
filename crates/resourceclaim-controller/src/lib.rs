//! Makes the `ResourceClaims` of pods from templates, reserves allocated claims for pods that are on a node, and takes
//! claims back when their pods are done.
//!
//! | module | answers |
//! |---|---|
//! | [`view`] | what is read of a pod, a claim, a template and a `PodGroup`? |
//! | [`route`] | whom does a change wake? |
//! | [`caches`], [`lists`] | what is known: shown by the informers, written by us, gone for good? |
//! | [`decide`] | what should be done? |
//! | [`apply`] | how is it written? |
//! | [`controller`], [`queues`], [`turns`] | in which order? |
//! | [`live`] | what is read past the cache? |
//! | [`explain`] | what would be done now, and why? |
//! | [`config`], [`error`], [`metrics`], [`notes`] | flags, failures, numbers, events |

pub mod apply;
pub mod caches;
pub mod config;
pub mod controller;
pub mod decide;
pub mod error;
pub mod explain;
pub mod lists;
pub mod live;
pub mod metrics;
pub mod notes;
pub mod queues;
pub mod route;
pub mod turns;
pub mod view;

use std::sync::Arc;
use std::time::Duration;

use clap::ArgMatches;
use controller_core::api::Caller;
use controller_core::args::{self, About, COMMIT};
use controller_core::error::Chain;
use controller_core::informer::{Informer, Interner, Source, WatcherSource};
use controller_core::runtime::{App, Env, Failure};
use controller_core::tasks::TaskSet;
use controller_core::workqueue::{ItemExponential, WorkQueue};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use k8s_openapi::api::scheduling::v1alpha2::PodGroup;

use crate::caches::{Caches, Written};
use crate::config::Config;
use crate::controller::Controller;
use crate::decide::Gates;
use crate::lists::Listed;
use crate::live::Live;
use crate::queues::Key;
use crate::view::{ClaimWire, PodGroupWire, PodView, PodWire, TemplateWire};

/// Name of the binary, the Lease and the chart.
pub const NAME: &str = "resourceclaim-controller";
/// Name of the queue in the metrics, as upstream has it.
const QUEUE: &str = "resource_claim";
/// How soon what failed is tried again at first: most failures are conflicts with the scheduler.
const RETRY_FIRST: Duration = Duration::from_millis(5);
/// How soon at the latest: what refused it may be mended at any time.
const RETRY_LAST: Duration = Duration::from_mins(1);
/// How soon an API server that did not say what it serves is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// The binary.
#[derive(Debug)]
pub struct ResourceClaimController;

impl App for ResourceClaimController {
    type Config = Config;

    const ABOUT: About = About {
        name: NAME,
        about: "Makes the ResourceClaims of pods from templates, reserves them, and takes them back",
        version: env!("CARGO_PKG_VERSION"),
        commit: COMMIT,
    };

    fn subcommands() -> Vec<clap::Command> {
        vec![args::explain(
            "Print the claims of a pod or the users of a claim, what would be done now, and why",
            "NAMESPACE/POD|NAMESPACE/CLAIM",
            "The pod or the ResourceClaim; both, if there are two of that name",
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
        let found = explain::find(&client, &caller, config.gates(), key).await?;
        match explain::explain(&found) {
            Some(explanation) => Ok(explanation),
            None => Err(format!("no pod and no ResourceClaim {key}").into()),
        }
    }
}

/// Gives pods their claims and takes them back, until `env.shutdown` drains.
pub async fn run(config: &Config, env: Env) -> Result<(), Failure> {
    run_over(config, env, |pods| pods).await
}

/// The same over what `over` makes of the source of pods.
pub async fn run_over<S: Source<View = PodView>>(
    config: &Config,
    env: Env,
    over: impl FnOnce(WatcherSource<PodWire>) -> S + Send,
) -> Result<(), Failure> {
    let informers = env.informers()?;
    let Some(gates) = learn_gates(config.gates(), &env, informers.interner()).await else {
        return Ok(());
    };
    let limiter = ItemExponential::new(RETRY_FIRST, RETRY_LAST);
    let queue: WorkQueue<Key> = WorkQueue::new(env.clock.clone(), limiter, env.queue_metrics(QUEUE)?);
    let (written, losses) = Written::new(&env.clock);
    let pods = Listed::new(over(informers.source::<Pod, _>()), &written.pods);
    let pods = informers.over::<Pod, _>(pods);
    let claims = Listed::new(informers.source::<ResourceClaim, ClaimWire>(), &written.claims);
    let claims = informers.over::<ResourceClaim, _>(claims);
    let templates = informers.of::<ResourceClaimTemplate, TemplateWire>();
    let groups = gates.workload_claims.then(|| {
        let groups = Listed::new(informers.source::<PodGroup, PodGroupWire>(), &written.groups);
        informers.over::<PodGroup, _>(groups)
    });
    let stores = (
        pods.store(),
        claims.store(),
        templates.store(),
        groups.as_ref().map(Informer::store),
    );
    let (pods_store, claims_store, templates_store, groups_store) = stores.clone();
    metrics::register_claims(&env.registry, claims.store(), env.clock.clone())?;
    let caches = Caches::new(stores.0, stores.1, stores.2, stores.3, written);
    let controller = Controller::new(
        config,
        &env,
        gates,
        Arc::clone(informers.interner()),
        caches,
        queue.clone(),
    )?;
    let controller = Arc::new(controller);

    let mut tasks = TaskSet::new();
    tasks.spawn("informer of pods", pods.handler(Arc::clone(&controller)).run());
    tasks.spawn(
        "informer of claims",
        claims.handler(Arc::clone(&controller)).run(),
    );
    tasks.spawn(
        "informer of templates",
        templates.handler(Arc::clone(&controller)).run(),
    );
    if let Some(groups) = groups {
        tasks.spawn(
            "informer of groups",
            groups.handler(Arc::clone(&controller)).run(),
        );
    }
    let minding = Arc::clone(&controller);
    tasks.spawn("what later lists lack", async move {
        minding.mind(losses).await;
    });
    let synced = async {
        pods_store.synced().await;
        claims_store.synced().await;
        templates_store.synced().await;
        if let Some(groups) = groups_store {
            groups.synced().await;
        }
    };
    let workers = env.workers(NAME, config.concurrent_syncs)?;
    tokio::select! {
        () = workers.run(&*controller, &queue, &env.leadership, synced, &env.shutdown) => Ok(()),
        failed = tasks.first_failure() => Err(failed.into()),
    }
}

/// `asked` as far as the API server goes along; nothing when the process is to end before it says so.
async fn learn_gates(asked: Gates, env: &Env, interner: &Arc<Interner>) -> Option<Gates> {
    let live = Live::new(env.client.clone(), env.caller.clone(), Arc::clone(interner));
    let learnt = async {
        loop {
            match live.gates(asked).await {
                Ok(gates) => return gates,
                Err(failed) => {
                    tracing::warn!("cannot ask what the API server can do: {}", Chain(&failed));
                    env.clock.sleep(ASK_AGAIN).await;
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = env.shutdown.draining() => None,
        gates = learnt => Some(gates),
    }
}
