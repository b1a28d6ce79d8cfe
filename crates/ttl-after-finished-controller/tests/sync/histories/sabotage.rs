//! Bugs put in on purpose: the histories must find them, and shrink them to what matters.

use std::collections::HashMap;
use std::sync::Arc;

use controller_core::informer::{
    Informer, InformerMetrics, Interner, Source, SourceEvent, Store, WatcherSource,
};
use controller_core::leader::Term;
use controller_core::meta::{ObjectKey, Uid};
use controller_core::runtime::{Env, Failure as Failed};
use controller_core::tasks::TaskSet;
use controller_core::workers::{Next, Reconciler, SyncFailures, Workers};
use controller_core::workqueue::{DefaultRateLimiter, QueueMetrics, WorkQueue};
use futures::FutureExt;
use harness::Run;
use http::{Method, Request, Response};
use k8s_openapi::api::batch::v1::Job;
use kube::Client;
use kube::client::Body;
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use testkit::history::{Failure, first_failure};
use ttl_after_finished_controller::config::Config;
use ttl_after_finished_controller::controller::Controller;
use ttl_after_finished_controller::error::Error;
use ttl_after_finished_controller::view::{Finish, JobView, JobWire};

use super::suite::Jobs;

/// Within so many seeds each bug must show.
const SEEDS: u64 = 200;

/// What the watch told last is taken for the state of the Job.
const SKIPS_THE_FRESH_READ: Run<Config> = |config, env| {
    async move {
        Bug {
            believes: true,
            ..Bug::default()
        }
        .run(&config, env)
        .await
    }
    .boxed()
};

/// The shortest ttl that a Job ever had counts.
const IGNORES_A_RAISE: Run<Config> = |config, env| {
    let bug = Bug {
        believes: true,
        stubborn: true,
        ..Bug::default()
    };
    async move { bug.run(&config, env).await }.boxed()
};

/// A sync that fails is not tried again.
const FORGETS_TO_RETRY: Run<Config> = |config, env| {
    async move {
        Bug {
            careless: true,
            ..Bug::default()
        }
        .run(&config, env)
        .await
    }
    .boxed()
};

#[test]
fn a_skipped_fresh_read_is_found() {
    let failure = found(SKIPS_THE_FRESH_READ);
    assert!(!failure.troubles.is_empty(), "{failure}");
    assert!(
        ["it expires in", "it has no ttl", "it has not finished"]
            .iter()
            .any(|early| failure.what.contains(early)),
        "{failure}"
    );
}

#[test]
fn an_ignored_raise_of_the_ttl_is_found() {
    let failure = found(IGNORES_A_RAISE);
    assert!(failure.what.contains("it expires in"), "{failure}");
}

#[test]
fn a_forgotten_retry_is_found() {
    let failure = found(FORGETS_TO_RETRY);
    assert!(!failure.troubles.is_empty(), "{failure}");
    assert!(failure.what.contains("is still there"), "{failure}");
}

/// The failure that the seeds find, shrunk to three troubles at most.
fn found(bug: Run<Config>) -> Failure {
    let failure = first_failure(&Jobs::new(bug), 0..SEEDS).expect("the bug shows");
    assert!(failure.troubles.len() <= 3, "{failure}");
    failure
}

/// What is wrong with the controller.
#[derive(Clone, Copy, Default)]
struct Bug {
    believes: bool,
    stubborn: bool,
    careless: bool,
}

impl Bug {
    async fn run(self, config: &Config, mut env: Env) -> Result<(), Failed> {
        let metrics = QueueMetrics::register(&env.registry, env.clock.clone(), "test")?;
        let queue = WorkQueue::new(
            env.clock.clone(),
            DefaultRateLimiter::new(env.clock.clone()),
            metrics,
        );
        let resource = ApiResource::erase::<Job>(&());
        let source = Stubborn {
            source: WatcherSource::new(env.client.clone(), resource, Interner::new(), env.clock.clone()),
            shortest: self.stubborn.then(HashMap::new),
        };
        let metrics = InformerMetrics::register(&env.registry)?.for_resource("jobs");
        let informer = Informer::new(source, env.clock.clone(), metrics);
        let jobs = informer.store();
        if self.believes {
            env.client = believing(env.client, jobs.clone());
        }
        let controller = Arc::new(Controller::new(config, &env, jobs.clone(), queue.clone())?);
        let reconciler = Careless {
            controller: Arc::clone(&controller),
            careless: self.careless,
        };
        let mut tasks = TaskSet::new();
        tasks.spawn(
            "informer of jobs",
            informer.handler(Arc::clone(&controller)).run(),
        );
        tasks.spawn("timer of jobs", async move { controller.keep_time().await });
        let workers = Workers {
            controller: "ttl-after-finished-controller",
            concurrent_syncs: 5,
            clock: env.clock.clone(),
            failures: SyncFailures::register(&env.registry)?,
        };
        workers
            .run(&reconciler, &queue, &env.leadership, jobs.synced(), &env.shutdown)
            .await;
        Ok(())
    }
}

/// Answers reads of single Jobs from the cache, and deletes them whatever their version.
fn believing(client: Client, jobs: Store<JobView>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, jobs) = (client.clone(), jobs.clone());
        async move {
            let (head, body) = request.into_parts();
            let name = head.uri.path().rsplit('/').next().unwrap_or_default();
            let job = jobs.get(&ObjectKey::namespaced("default", name));
            if head.method == Method::GET
                && let Some(job) = job
            {
                return Ok(Response::new(Body::from(as_read(&job).to_string().into_bytes())));
            }
            let mut body = body.collect_bytes().await?.to_vec();
            if head.method == Method::DELETE {
                let mut options: Value = serde_json::from_slice(&body).unwrap();
                options["preconditions"]["resourceVersion"] = Value::Null;
                body = options.to_string().into_bytes();
            }
            client.send(Request::from_parts(head, Body::from(body))).await
        }
    });
    Client::new(service, namespace)
}

fn as_read(job: &JobView) -> Value {
    let conditions: Vec<_> = job
        .finish
        .iter()
        .map(|finish| match finish {
            Finish::At(at) => json!({"type": "Complete", "status": "True", "lastTransitionTime": at}),
            Finish::Undated => json!({"type": "Complete", "status": "True"}),
        })
        .collect();
    json!({
        "metadata": {"name": job.key.name, "namespace": "default", "uid": job.uid.to_string(), "resourceVersion": "1"},
        "spec": {"ttlSecondsAfterFinished": job.ttl_seconds},
        "status": {"conditions": conditions},
    })
}

/// A source that may hold on to the shortest ttl of each Job.
struct Stubborn {
    source: WatcherSource<JobWire>,
    shortest: Option<HashMap<Uid, i32>>,
}

impl Source for Stubborn {
    type View = JobView;

    async fn next(&mut self) -> SourceEvent<JobView> {
        let mut event = self.source.next().await;
        if let (Some(shortest), SourceEvent::InitItem(job) | SourceEvent::Applied(job)) =
            (&mut self.shortest, &mut event)
            && let Some(ttl) = &mut job.view.ttl_seconds
        {
            let known = shortest.entry(job.uid.clone()).or_insert(*ttl);
            *known = (*known).min(*ttl);
            *ttl = *known;
        }
        event
    }
}

/// Calls the controller, and may take every failure for a success.
struct Careless {
    controller: Arc<Controller>,
    careless: bool,
}

impl Reconciler for Careless {
    type Key = ObjectKey;
    type Error = Error;

    fn begin(&self) {
        self.controller.begin();
    }

    fn end(&self) {
        self.controller.end();
    }

    async fn sync(&self, key: &ObjectKey, term: &Term) -> Result<Next, Error> {
        match self.controller.sync(key, term).await {
            Err(_) if self.careless => Ok(Next::Settled),
            result => result,
        }
    }
}
