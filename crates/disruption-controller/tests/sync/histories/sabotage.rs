//! Bugs put in on purpose: the histories must find them, and shrink them to what matters.

use std::collections::BTreeMap;
use std::sync::Arc;

use controller_core::informer::{
    Informer, InformerMetrics, Interner, Observed, Source, SourceEvent, WatcherSource, Wire,
};
use controller_core::leader::Leadership;
use controller_core::meta::ObjectKey;
use controller_core::runtime::{App, Env, Failure as Failed};
use controller_core::tasks::TaskSet;
use controller_core::workers::{SyncFailures, Workers};
use controller_core::workqueue::{DefaultRateLimiter, QueueMetrics, WorkQueue};
use disruption_controller::DisruptionController;
use disruption_controller::config::Config;
use disruption_controller::controller::Controller;
use disruption_controller::queues::{Key, Queues};
use disruption_controller::scales::Workloads;
use disruption_controller::view::{PdbWire, PodView, PodWire, WorkloadWire};
use futures::FutureExt;
use harness::Run;
use http::{Method, Request, Response};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::client::Body;
use kube::discovery::ApiResource;
use kube::{Client, Resource};
use serde_json::Value;
use testkit::history::{Failure, first_failure};

use super::suite::Budgets;

/// Within so many seeds each bug must show.
const SEEDS: u64 = 200;

/// A status is written whatever has become of the budget since it was read.
const WRITES_OVER_EVERY_VERSION: Run<Config> = |config, mut env| {
    env.client = tampered(env.client, |write| {
        if let Some(metadata) = write["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        Answer::AsItIs
    });
    DisruptionController::run(config, env).boxed()
};

/// Every answer to a write is good news.
const FORGETS_TO_RETRY: Run<Config> = |config, mut env| {
    env.client = tampered(env.client, |_| Answer::AlwaysGood);
    DisruptionController::run(config, env).boxed()
};

/// What cannot be computed allows what it allowed before.
const FAILS_AS_IT_WAS: Run<Config> = |config, mut env| {
    env.client = tampered(env.client, |write| {
        if let Some(status) = write["status"].as_object_mut()
            && status["conditions"][0]["reason"] == "SyncFailed"
        {
            status.remove("disruptionsAllowed");
        }
        Answer::AsItIs
    });
    DisruptionController::run(config, env).boxed()
};

/// Approved evictions are forgotten with the next status.
const FORGETS_APPROVED_EVICTIONS: Run<Config> = |config, mut env| {
    env.client = tampered(env.client, |write| {
        if !write["status"]["observedGeneration"].is_null() {
            write["status"]["disruptedPods"] = Value::Null;
        }
        Answer::AsItIs
    });
    DisruptionController::run(config, env).boxed()
};

/// Whoever runs writes.
const LEADS_ALWAYS: Run<Config> = |config, mut env| {
    env.leadership = Leadership::always();
    DisruptionController::run(config, env).boxed()
};

/// A relist is added to what is known of the pods.
const KEEPS_PODS_THAT_A_RELIST_LACKS: Run<Config> =
    |config, env| async move { hoarding(&config, env).await }.boxed();

#[test]
fn a_patch_without_the_version_is_found() {
    let failure = found(WRITES_OVER_EVERY_VERSION);
    assert!(
        failure.what.contains("it overwrites the approved eviction of"),
        "{failure}"
    );
}

#[test]
fn a_forgotten_retry_is_found() {
    let failure = found(FORGETS_TO_RETRY);
    assert!(!failure.troubles.is_empty(), "{failure}");
    assert!(failure.what.contains("after the last fault"), "{failure}");
}

#[test]
fn a_fail_safe_that_keeps_the_old_number_is_found() {
    let failure = found(FAILS_AS_IT_WAS);
    assert!(failure.what.contains("what was delivered allows 0"), "{failure}");
}

#[test]
fn an_approved_eviction_that_is_forgotten_is_found() {
    let failure = found(FORGETS_APPROVED_EVICTIONS);
    assert!(failure.what.contains("was approved to go"), "{failure}");
}

#[test]
fn a_write_without_the_lease_is_found() {
    let failure = found(LEADS_ALWAYS);
    assert!(
        failure.what.contains("writes while the lease is held by"),
        "{failure}"
    );
}

#[test]
fn a_delete_that_is_missed_in_a_relist_is_found() {
    let failure = found(KEEPS_PODS_THAT_A_RELIST_LACKS);
    assert!(!failure.troubles.is_empty(), "{failure}");
}

/// The failure that the seeds find, shrunk to three troubles at most.
fn found(bug: Run<Config>) -> Failure {
    let failure = first_failure(&Budgets::new(bug), 0..SEEDS).expect("the bug shows");
    assert!(failure.troubles.len() <= 3, "{failure}");
    failure
}

/// What the controller is told of an answer.
enum Answer {
    AsItIs,
    AlwaysGood,
}

/// Changes what is written, and what is answered to it.
fn tampered(client: Client, tamper: fn(&mut Value) -> Answer) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            if *request.method() != Method::PATCH {
                return client.send(request).await;
            }
            let (head, body) = request.into_parts();
            let mut write = serde_json::from_slice(&body.collect_bytes().await?).unwrap_or_default();
            let told = tamper(&mut write);
            let body = Body::from(write.to_string().into_bytes());
            let answer = client.send(Request::from_parts(head, body)).await;
            match told {
                Answer::AsItIs => answer,
                Answer::AlwaysGood => Ok(Response::new(Body::from(b"{}".to_vec()))),
            }
        }
    });
    Client::new(service, namespace)
}

/// The controller, with a source of pods whose relists leave nothing out.
async fn hoarding(config: &Config, env: Env) -> Result<(), Failed> {
    let hoard = Hoarding {
        source: source::<Pod, PodWire>(&env),
        known: BTreeMap::new(),
        unnamed: None,
        end: None,
    };
    let metrics = InformerMetrics::register(&env.registry)?;
    let pods = Informer::new(hoard, env.clock.clone(), metrics.for_resource("pods"));
    let pdbs = informer(source::<PodDisruptionBudget, PdbWire>(&env), &env, &metrics);
    let replication_controllers = informer(
        source::<ReplicationController, WorkloadWire>(&env),
        &env,
        &metrics,
    );
    let replica_sets = informer(source::<ReplicaSet, WorkloadWire>(&env), &env, &metrics);
    let deployments = informer(source::<Deployment, WorkloadWire>(&env), &env, &metrics);
    let stateful_sets = informer(source::<StatefulSet, WorkloadWire>(&env), &env, &metrics);
    let workloads = Workloads {
        replication_controllers: replication_controllers.store(),
        replica_sets: replica_sets.store(),
        deployments: deployments.store(),
        stateful_sets: stateful_sets.store(),
    };
    let (pods_store, pdbs_store) = (pods.store(), pdbs.store());

    let queue_metrics = QueueMetrics::register(&env.registry, env.clock.clone(), "test")?;
    let queue = || -> WorkQueue<Key> {
        let limiter = DefaultRateLimiter::new(env.clock.clone());
        WorkQueue::new(env.clock.clone(), limiter, queue_metrics.clone())
    };
    let queues = Queues {
        budgets: queue(),
        rechecks: queue(),
        stale_pods: queue(),
    };
    let controller = Arc::new(Controller::new(
        config,
        &env,
        Interner::new(),
        pods_store.clone(),
        workloads,
        queues.clone(),
    )?);
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
    tasks.spawn("timer", async move { timekeeper.keep_time().await });
    // What the others do not have yet is read.
    let synced = async {
        pods_store.synced().await;
        pdbs_store.synced().await;
    };
    let workers = Workers {
        controller: "disruption-controller",
        concurrent_syncs: 2,
        clock: env.clock.clone(),
        failures: SyncFailures::register(&env.registry)?,
    };
    let lanes = queues.lanes(2);
    workers
        .run_lanes(&*controller, &lanes, &env.leadership, synced, &env.shutdown)
        .await;
    Ok(())
}

fn source<K: Resource<DynamicType = ()>, W: Wire>(env: &Env) -> WatcherSource<W> {
    let resource = ApiResource::erase::<K>(&());
    WatcherSource::new(env.client.clone(), resource, Interner::new(), env.clock.clone())
}

fn informer<W: Wire>(
    source: WatcherSource<W>,
    env: &Env,
    metrics: &InformerMetrics,
) -> Informer<WatcherSource<W>> {
    Informer::new(source, env.clock.clone(), metrics.for_resource("others"))
}

/// A source whose relists leave nothing out.
struct Hoarding {
    source: WatcherSource<PodWire>,
    known: BTreeMap<ObjectKey, Observed<PodView>>,
    /// While a list is under way, what it has not named yet.
    unnamed: Option<BTreeMap<ObjectKey, Observed<PodView>>>,
    /// The end of the list, held back until everything is named.
    end: Option<SourceEvent<PodView>>,
}

impl Source for Hoarding {
    type View = PodView;

    async fn next(&mut self) -> SourceEvent<PodView> {
        while self.end.is_none() {
            let event = self.source.next().await;
            match &event {
                SourceEvent::Init => self.unnamed = Some(self.known.clone()),
                SourceEvent::InitItem(pod) | SourceEvent::Applied(pod) => {
                    if let Some(unnamed) = &mut self.unnamed {
                        unnamed.remove(&pod.view.key);
                    }
                    self.known.insert(pod.view.key.clone(), pod.clone());
                }
                SourceEvent::Deleted(pod) => {
                    self.known.remove(&pod.key);
                }
                SourceEvent::InitDone { .. } => {
                    self.end = Some(event);
                    continue;
                }
                _ => {}
            }
            return event;
        }
        if let Some((_, pod)) = self.unnamed.as_mut().and_then(BTreeMap::pop_first) {
            return SourceEvent::InitItem(pod);
        }
        self.unnamed = None;
        self.end.take().expect("a list that ended")
    }
}
