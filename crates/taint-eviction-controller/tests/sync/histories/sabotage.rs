//! Bugs put in on purpose: the histories must find them, and shrink them to what matters.

use std::collections::BTreeMap;
use std::sync::Arc;

use controller_core::informer::{
    Informer, InformerMetrics, Interner, Observed, Source, SourceEvent, WatcherSource,
};
use controller_core::leader::Leadership;
use controller_core::meta::ObjectKey;
use controller_core::runtime::{App, Env, Failure as Failed};
use controller_core::tasks::TaskSet;
use controller_core::workers::{SyncFailures, Workers};
use controller_core::workqueue::{DefaultRateLimiter, QueueMetrics, WorkQueue};
use futures::FutureExt;
use harness::Run;
use http::{Method, Request, Response, StatusCode};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::client::Body;
use kube::discovery::ApiResource;
use serde_json::json;
use taint_eviction_controller::TaintEvictionController;
use taint_eviction_controller::config::Config;
use taint_eviction_controller::controller::{Controller, Lanes};
use taint_eviction_controller::evict::Pool;
use taint_eviction_controller::view::{NodeView, NodeWire, PodWire};
use testkit::history::{Failure, first_failure};

use super::suite::Pods;

/// Within so many seeds each bug must show.
const SEEDS: u64 = 200;

/// A relist is added to what is known of the taints, and no node is read before its pods are evicted.
const KEEPS_TAINTS_THAT_A_RELIST_LACKS: Run<Config> =
    |config, env| async move { hoarding(&config, env).await }.boxed();

/// Whoever has the name is deleted.
const DELETES_BY_NAME: Run<Config> = |config, mut env| {
    env.client = tampered(env.client, |method, body| {
        if *method == Method::DELETE {
            *body = b"{}".to_vec();
        }
        Answer::AsItIs
    });
    TaintEvictionController::run(config, env).boxed()
};

/// Every answer to a write is good news.
const FORGETS_TO_RETRY: Run<Config> = |config, mut env| {
    env.client = tampered(env.client, |method, _| match *method {
        Method::GET => Answer::AsItIs,
        _ => Answer::AlwaysGood,
    });
    TaintEvictionController::run(config, env).boxed()
};

#[test]
fn a_taint_removal_that_is_missed_after_a_relist_is_found() {
    let failure = found(KEEPS_TAINTS_THAT_A_RELIST_LACKS);
    assert!(!failure.troubles.is_empty(), "{failure}");
}

#[test]
fn a_delete_without_the_uid_is_found() {
    let failure = found(DELETES_BY_NAME);
    assert!(
        failure.what.contains("it may hit another pod of the name"),
        "{failure}"
    );
}

#[test]
fn a_forgotten_retry_is_found() {
    let failure = found(FORGETS_TO_RETRY);
    assert!(!failure.troubles.is_empty(), "{failure}");
    assert!(failure.what.contains("is still there"), "{failure}");
}

/// The failure that the seeds find, shrunk to three troubles at most.
fn found(bug: Run<Config>) -> Failure {
    let failure = first_failure(&Pods::new(bug), 0..SEEDS).expect("the bug shows");
    assert!(failure.troubles.len() <= 3, "{failure}");
    failure
}

/// What the controller is told of an answer.
enum Answer {
    AsItIs,
    AlwaysGood,
}

/// Changes what is sent, and what is answered.
fn tampered(client: Client, tamper: fn(&Method, &mut Vec<u8>) -> Answer) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            let (head, body) = request.into_parts();
            let mut body = body.collect_bytes().await?.to_vec();
            let told = tamper(&head.method, &mut body);
            let answer = client.send(Request::from_parts(head, Body::from(body))).await;
            match told {
                Answer::AsItIs => answer,
                Answer::AlwaysGood => Ok(Response::new(Body::from(b"{}".to_vec()))),
            }
        }
    });
    Client::new(service, namespace)
}

/// Refuses every read, so that the cache decides.
fn reads_refused(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            if *request.method() != Method::GET {
                return client.send(request).await;
            }
            let status = json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden"});
            let mut answer = Response::new(Body::from(status.to_string().into_bytes()));
            *answer.status_mut() = StatusCode::FORBIDDEN;
            Ok(answer)
        }
    });
    Client::new(service, namespace)
}

/// The controller, with a source of nodes whose relists leave nothing out.
async fn hoarding(config: &Config, mut env: Env) -> Result<(), Failed> {
    let metrics = InformerMetrics::register(&env.registry)?;
    let source = Hoarding {
        source: WatcherSource::new(
            env.client.clone(),
            ApiResource::erase::<Node>(&()),
            Interner::new(),
            env.clock.clone(),
        ),
        known: BTreeMap::new(),
        unnamed: None,
        end: None,
    };
    let nodes = Informer::new(source, env.clock.clone(), metrics.for_resource("nodes"));
    let source = WatcherSource::<PodWire>::new(
        env.client.clone(),
        ApiResource::erase::<Pod>(&()),
        Interner::new(),
        env.clock.clone(),
    );
    let pods = Informer::new(source, env.clock.clone(), metrics.for_resource("pods"));
    let (pods_store, nodes_store, watch) = (pods.store(), nodes.store(), nodes.state());
    env.client = reads_refused(env.client);

    let metrics = QueueMetrics::register(&env.registry, env.clock.clone(), "test")?;
    let clock = env.clock.clone();
    let queue = || {
        WorkQueue::new(
            clock.clone(),
            DefaultRateLimiter::new(clock.clone()),
            metrics.clone(),
        )
    };
    let lanes = Lanes::new(8, queue, queue);
    let controller = Arc::new(Controller::new(config, &env, pods_store.clone(), lanes.clone())?);
    let mut tasks = TaskSet::new();
    tasks.spawn("informer of pods", pods.handler(Arc::clone(&controller)).run());
    tasks.spawn("informer of nodes", nodes.handler(Arc::clone(&controller)).run());
    let watching = Arc::clone(&controller);
    tasks.spawn("watch of the nodes' watch", async move {
        watching.watch_the_watch(watch).await;
    });
    let synced = || async {
        pods_store.synced().await;
        nodes_store.synced().await;
    };
    let workers = Workers {
        controller: "taint-eviction-controller",
        concurrent_syncs: 8,
        clock: env.clock.clone(),
        failures: SyncFailures::register(&prometheus::Registry::new())?,
    };
    let pool = Pool {
        max_concurrent: 64,
        qps: 0.0,
    };
    let always = Leadership::always();
    tokio::join!(
        workers.run_lanes(&*controller, lanes.all(), &always, synced(), &env.shutdown),
        controller.run_evictions(pool, &env.leadership, synced(), &env.shutdown),
    );
    Ok(())
}

/// A source whose relists leave nothing out.
struct Hoarding {
    source: WatcherSource<NodeWire>,
    known: BTreeMap<ObjectKey, Observed<NodeView>>,
    /// While a list is under way, what it has not named yet.
    unnamed: Option<BTreeMap<ObjectKey, Observed<NodeView>>>,
    /// The end of the list, held back until everything is named.
    end: Option<SourceEvent<NodeView>>,
}

impl Source for Hoarding {
    type View = NodeView;

    async fn next(&mut self) -> SourceEvent<NodeView> {
        while self.end.is_none() {
            let event = self.source.next().await;
            match &event {
                SourceEvent::Init => self.unnamed = Some(self.known.clone()),
                SourceEvent::InitItem(node) | SourceEvent::Applied(node) => {
                    if let Some(unnamed) = &mut self.unnamed {
                        unnamed.remove(&node.view.key);
                    }
                    self.known.insert(node.view.key.clone(), node.clone());
                }
                // The list names a node without taints.
                SourceEvent::Deleted(_) if self.unnamed.is_some() => continue,
                SourceEvent::Deleted(node) => {
                    self.known.remove(&node.key);
                }
                SourceEvent::InitDone { .. } => {
                    self.end = Some(event);
                    continue;
                }
                _ => {}
            }
            return event;
        }
        if let Some((_, node)) = self.unnamed.as_mut().and_then(BTreeMap::pop_first) {
            return SourceEvent::InitItem(node);
        }
        self.unnamed = None;
        self.end.take().expect("a list that ended")
    }
}
