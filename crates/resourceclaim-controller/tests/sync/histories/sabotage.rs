//! Bugs put in on purpose: the histories must find them, and shrink them to what matters.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use controller_core::clock::Clock;
use controller_core::informer::{
    Change, Handler, Informer, InformerMetrics, Interner, Store, WatcherSource, Wire,
};
use controller_core::leader::Leadership;
use controller_core::runtime::{App, Env, Failure as Failed};
use controller_core::tasks::TaskSet;
use controller_core::workers::{SyncFailures, Workers};
use controller_core::workqueue::{DefaultRateLimiter, QueueMetrics, WorkQueue};
use futures::FutureExt;
use harness::Run;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use kube::client::Body;
use kube::discovery::ApiResource;
use kube::{Client, Resource};
use parking_lot::Mutex;
use resourceclaim_controller::ResourceClaimController;
use resourceclaim_controller::caches::{Caches, Written};
use resourceclaim_controller::config::Config;
use resourceclaim_controller::controller::Controller;
use resourceclaim_controller::decide::Gates;
use resourceclaim_controller::queues::Key;
use resourceclaim_controller::view::{ClaimSource, ClaimWire, Entry, PodView, PodWire, TemplateWire};
use serde_json::{Value, json};
use testkit::history::{Failure, first_failure};

use super::ledger::{each, text};
use super::suite::Claims;

/// Within so many seeds each bug must show.
const SEEDS: u64 = 200;
/// The characters after the base of a claim's name.
const SUFFIX: usize = 5;

/// A claim has another name each time it is made, as upstream's have.
const NAMES_AT_RANDOM: Run<Config> = |config, mut env| {
    env.client = renaming(env.client, env.clock.clone());
    ResourceClaimController::run(config, env).boxed()
};

/// Only what is new is recorded, and what was recorded is lost with it: upstream v1.36.3.
const RECORDS_WHAT_IS_NEW: Run<Config> = |config, mut env| {
    env.client = between(env.client, |client, head, body| async move {
        records_what_is_new(&client, head, body).await
    });
    ResourceClaimController::run(config, env).boxed()
};

/// A claim is given back whatever has become of it since it was judged.
const GIVES_BACK_EVERY_VERSION: Run<Config> = |config, mut env| {
    env.client = between(env.client, |client, head, body| async move {
        let mut write = parsed(&body);
        if head.method == Method::PATCH
            && head.uri.path().contains("/resourceclaims/")
            && let Some(metadata) = write["metadata"].as_object_mut()
        {
            metadata.remove("resourceVersion");
            return send(&client, head, write.to_string().into_bytes()).await;
        }
        send(&client, head, body).await
    });
    ResourceClaimController::run(config, env).boxed()
};

/// A pod whose containers have ended gets its claim reserved, like one that runs: upstream.
const RESERVES_FOR_WHO_IS_DONE: Run<Config> = |config, mut env| {
    env.client = between(env.client, |client, head, body| async move {
        reserves_for_who_is_done(&client, head, body).await
    });
    ResourceClaimController::run(config, env).boxed()
};

/// A pod that the cache does not show is none.
const TAKES_THE_CACHE_FOR_THE_TRUTH: Run<Config> = |config, mut env| {
    env.client = between(env.client, |client, head, body| async move {
        if head.method != Method::GET || !head.uri.path().contains("/pods/") {
            return send(&client, head, body).await;
        }
        let status = json!({ "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound" });
        let mut answer = Response::new(Body::from(status.to_string().into_bytes()));
        *answer.status_mut() = StatusCode::NOT_FOUND;
        Ok(answer)
    });
    ResourceClaimController::run(config, env).boxed()
};

/// What was to be changed counts as changed.
const FORGETS_TO_RETRY: Run<Config> = |config, mut env| {
    env.client = between(env.client, |client, head, body| async move {
        let is_change = matches!(head.method, Method::PATCH | Method::DELETE);
        match send(&client, head, body).await {
            Ok(answer) if answer.status().is_success() || !is_change => Ok(answer),
            Err(failed) if !is_change => Err(failed),
            _ => Ok(Response::new(Body::from(b"{}".to_vec()))),
        }
    });
    ResourceClaimController::run(config, env).boxed()
};

/// Whoever runs writes.
const LEADS_ALWAYS: Run<Config> = |config, mut env| {
    env.leadership = Leadership::always();
    ResourceClaimController::run(config, env).boxed()
};

/// A pod that only ceases to be kept counts as deleted.
const TAKES_THE_FILTER_FOR_A_DELETION: Run<Config> =
    |config, env| async move { hasty(&config, env).await }.boxed();

#[test]
fn random_names_are_found() {
    let failure = found(NAMES_AT_RANDOM);
    assert!(!failure.troubles.is_empty(), "{failure}");
    assert!(failure.what.contains("already"), "{failure}");
}

#[test]
fn a_status_of_new_claims_alone_is_found() {
    let failure = found(RECORDS_WHAT_IS_NEW);
    assert!(failure.what.contains("it forgets that"), "{failure}");
}

#[test]
fn a_clean_up_without_the_version_is_found() {
    let failure = found(GIVES_BACK_EVERY_VERSION);
    assert!(failure.what.contains("loses its reservation"), "{failure}");
}

#[test]
fn a_reservation_for_a_pod_that_is_done_is_found() {
    let failure = found(RESERVES_FOR_WHO_IS_DONE);
    assert!(failure.what.contains("was taken off"), "{failure}");
}

#[test]
fn a_missing_read_of_an_unknown_pod_is_found() {
    let failure = found(TAKES_THE_CACHE_FOR_THE_TRUTH);
    assert!(failure.what.contains("loses its reservation"), "{failure}");
}

#[test]
fn a_forgotten_retry_is_found() {
    let failure = found(FORGETS_TO_RETRY);
    assert!(!failure.troubles.is_empty(), "{failure}");
    assert!(failure.what.contains("after the last fault"), "{failure}");
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
fn a_deletion_that_was_none_is_found() {
    let failure = found(TAKES_THE_FILTER_FOR_A_DELETION);
    assert!(failure.what.contains("loses its reservation"), "{failure}");
}

/// The failure that the seeds find, shrunk to three troubles at most.
fn found(bug: Run<Config>) -> Failure {
    let failure = first_failure(&Claims::new(bug), 0..SEEDS).expect("the bug shows");
    assert!(failure.troubles.len() <= 3, "{failure}");
    failure
}

type Answer = kube::Result<Response<Body>>;

/// A client whose requests `send`s them.
fn between<F>(client: Client, send: impl Fn(Client, Parts, Vec<u8>) -> F + Send + Sync + 'static) -> Client
where
    F: Future<Output = Answer> + Send + 'static,
{
    let namespace = client.default_namespace().to_owned();
    let send = Arc::new(send);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, send) = (client.clone(), Arc::clone(&send));
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await?.to_vec();
            send(client, head, body).await
        }
    });
    Client::new(service, namespace)
}

async fn send(client: &Client, head: Parts, body: Vec<u8>) -> Answer {
    client.send(Request::from_parts(head, Body::from(body))).await
}

fn parsed(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_default()
}

/// The object at `path` as it is now.
async fn read(client: &Client, path: &str) -> Value {
    let Ok(request) = Request::get(path).body(Vec::new()) else {
        return Value::Null;
    };
    client.request(request).await.unwrap_or_default()
}

async fn records_what_is_new(client: &Client, head: Parts, body: Vec<u8>) -> Answer {
    let path = head.uri.path();
    let Some(pod) = path
        .strip_suffix("/status")
        .filter(|path| path.contains("/pods/"))
    else {
        return send(client, head, body).await;
    };
    let recorded = read(client, pod).await["status"]["resourceClaimStatuses"].take();
    let mut write = parsed(&body);
    if let Some(statuses) = write["status"]["resourceClaimStatuses"].as_array_mut() {
        statuses.retain(|status| !each(&recorded).any(|recorded| recorded == status));
    }
    send(client, head, write.to_string().into_bytes()).await
}

async fn reserves_for_who_is_done(client: &Client, head: Parts, body: Vec<u8>) -> Answer {
    let write = parsed(&body);
    let change = &write["status"]["reservedFor"];
    let Some(gone) = each(change).find(|entry| entry["$patch"] == "delete") else {
        return send(client, head, body).await;
    };
    let claim = read(client, head.uri.path().trim_end_matches("/status")).await;
    let mut reserved = each(&claim["status"]["reservedFor"]);
    let again = reserved.find(|consumer| consumer["uid"] == gone["uid"]).cloned();
    let same = head.clone();
    let answer = send(client, head, body).await?;
    if let Some(again) = again.filter(|_| answer.status() == StatusCode::OK) {
        let patch = json!({ "status": { "reservedFor": [again] } });
        let _ = send(client, same, patch.to_string().into_bytes()).await;
    }
    Ok(answer)
}

/// Which name each claim really has.
struct Names {
    clock: Clock,
    drawn: u32,
    /// By the name that was planned.
    real: BTreeMap<String, String>,
}

impl Names {
    const fn new(clock: Clock) -> Self {
        Self {
            clock,
            drawn: 0,
            real: BTreeMap::new(),
        }
    }

    /// The next name for a claim.
    fn draw(&mut self, planned: &str) {
        self.drawn += 1;
        let mut hasher = DefaultHasher::new();
        (self.clock.now().as_nanosecond(), self.drawn).hash(&mut hasher);
        let mut chance = hasher.finish();
        let mut real = planned[..planned.len() - SUFFIX].to_owned();
        for _ in 0..SUFFIX {
            real.push(char::from(b"bcdfghjk"[usize::try_from(chance % 8).unwrap()]));
            chance /= 8;
        }
        self.real.insert(planned.to_owned(), real);
    }

    fn to_real(&self, text: &str) -> String {
        let renamed = |text: String, (planned, real): (&String, &String)| text.replace(planned, real);
        self.real.iter().fold(text.to_owned(), renamed)
    }

    fn to_planned(&self, text: &[u8]) -> Vec<u8> {
        let text = String::from_utf8_lossy(text).into_owned();
        let renamed = |text: String, (planned, real): (&String, &String)| text.replace(real, planned);
        self.real.iter().fold(text, renamed).into_bytes()
    }
}

fn renaming(client: Client, clock: Clock) -> Client {
    let namespace = client.default_namespace().to_owned();
    let names = Arc::new(Mutex::new(Names::new(clock)));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, names) = (client.clone(), Arc::clone(&names));
        async move {
            let (mut head, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            if head.method == Method::POST && head.uri.path().ends_with("/resourceclaims") {
                names.lock().draw(&text(&parsed(&body)["metadata"]["name"]));
            }
            let uri = names.lock().to_real(&head.uri.to_string());
            head.uri = uri.parse().unwrap();
            let body = names.lock().to_real(&String::from_utf8_lossy(&body));
            let (head, body) = send(&client, head, body.into_bytes()).await?.into_parts();
            let body =
                body.map_frame(move |frame| frame.map_data(|data| names.lock().to_planned(&data).into()));
            Ok::<_, kube::Error>(Response::from_parts(head, body))
        }
    });
    Client::new(service, namespace)
}

/// The controller, for which every pod that the informer drops was deleted.
async fn hasty(config: &Config, env: Env) -> Result<(), Failed> {
    let interner = Interner::new();
    let metrics = InformerMetrics::register(&env.registry)?;
    let pods = informer::<Pod, PodWire>(&env, &interner, &metrics);
    let claims = informer::<ResourceClaim, ClaimWire>(&env, &interner, &metrics);
    let templates = informer::<ResourceClaimTemplate, TemplateWire>(&env, &interner, &metrics);
    let (pods_store, claims_store, templates_store) = (pods.store(), claims.store(), templates.store());
    let (written, losses) = Written::new(&env.clock);
    let caches = Caches::new(pods.store(), claims.store(), templates.store(), None, written);
    let queue: WorkQueue<Key> = WorkQueue::new(
        env.clock.clone(),
        DefaultRateLimiter::new(env.clock.clone()),
        QueueMetrics::register(&env.registry, env.clock.clone(), "test")?,
    );
    let controller = Controller::new(config, &env, Gates::default(), interner, caches, queue.clone())?;
    let controller = Arc::new(controller);
    let mut tasks = TaskSet::new();
    tasks.spawn(
        "informer of pods",
        pods.handler(Hasty(Arc::clone(&controller))).run(),
    );
    tasks.spawn(
        "informer of claims",
        claims.handler(Arc::clone(&controller)).run(),
    );
    tasks.spawn(
        "informer of templates",
        templates.handler(Arc::clone(&controller)).run(),
    );
    let minding = Arc::clone(&controller);
    tasks.spawn("what later lists lack", async move {
        minding.mind(losses).await;
    });
    let synced = async {
        pods_store.synced().await;
        claims_store.synced().await;
        templates_store.synced().await;
    };
    let workers = Workers {
        controller: "resourceclaim-controller",
        concurrent_syncs: 50,
        clock: env.clock.clone(),
        failures: SyncFailures::register(&env.registry)?,
    };
    workers
        .run(&*controller, &queue, &env.leadership, synced, &env.shutdown)
        .await;
    Ok(())
}

fn informer<K, W>(
    env: &Env,
    interner: &Arc<Interner>,
    metrics: &InformerMetrics,
) -> Informer<WatcherSource<W>>
where
    K: Resource<DynamicType = ()>,
    W: Wire,
{
    let resource = ApiResource::erase::<K>(&());
    let source = WatcherSource::new(
        env.client.clone(),
        resource,
        Arc::clone(interner),
        env.clock.clone(),
    );
    Informer::new(source, env.clock.clone(), metrics.for_resource("any"))
}

/// Makes every pod look as if it had an entry when it goes: such a pod goes for good.
struct Hasty(Arc<Controller>);

impl Handler<PodView> for Hasty {
    fn on_change(&self, change: Change<'_, PodView>, store: &Store<PodView>) {
        let Change::Deleted(pod) = change else {
            return self.0.on_change(change, store);
        };
        let entry = Entry {
            name: "any".into(),
            source: ClaimSource::Unknown,
        };
        let pod = PodView {
            entries: Arc::new(vec![entry]),
            ..(**pod).clone()
        };
        self.0.on_change(Change::Deleted(&Arc::new(pod)), store);
    }
}
