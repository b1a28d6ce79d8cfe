//! Bugs put in on purpose: the histories must find them, and shrink them to what matters.

use std::collections::HashMap;
use std::sync::Arc;

use controller_core::informer::{BoxSource, Source, SourceEvent, WatcherSource};
use controller_core::meta::Uid;
use controller_core::runtime::{App, Env, Failure as Failed};
use futures::FutureExt;
use harness::Run;
use harness::sabotage::{between, edited, forgets_to_retry, found, found_in_trouble};
use http::{Method, Response};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use ttl_after_finished_controller::TtlAfterFinishedController;
use ttl_after_finished_controller::config::Config;
use ttl_after_finished_controller::view::{Finish, JobView, JobWire};

use super::suite::Jobs;

/// What the watch told last is taken for the state of the Job.
const SKIPS_THE_FRESH_READ: Run<Config> = |config, env| believing(config, env, Ttl::Last).boxed();

/// The shortest ttl that a Job ever had counts.
const IGNORES_A_RAISE: Run<Config> = |config, env| believing(config, env, Ttl::Shortest).boxed();

#[test]
fn a_skipped_fresh_read_is_found() {
    let failure = found_in_trouble(&Jobs::new(SKIPS_THE_FRESH_READ), 55, "");
    assert!(
        ["it expires in", "it has no ttl", "it has not finished"]
            .iter()
            .any(|early| failure.what.contains(early)),
        "{failure}"
    );
}

#[test]
fn an_ignored_raise_of_the_ttl_is_found() {
    found(&Jobs::new(IGNORES_A_RAISE), 5, "it expires in");
}

#[test]
fn a_forgotten_retry_is_found() {
    let suite = Jobs::new(forgets_to_retry::<TtlAfterFinishedController>);
    found_in_trouble(&suite, 4, "is still there");
}

/// Which of the ttls that a Job had counts.
#[derive(Clone, Copy, PartialEq)]
enum Ttl {
    Last,
    Shortest,
}

/// The Jobs as the watch told them last, by name.
type Told = Arc<Mutex<HashMap<String, JobView>>>;

/// The controller, which reads no Job but what the watch told of it, and deletes it whatever its version.
async fn believing(config: Config, mut env: Env, ttl: Ttl) -> Result<(), Failed> {
    let told = Told::default();
    env.client = edited(env.client, |_, options| {
        options["preconditions"]["resourceVersion"] = Value::Null;
    });
    env.client = answered_from(&told, env.client);
    let env = env.over_source::<JobWire>(move |source| {
        BoxSource::new(Telling {
            source,
            ttl,
            shortest: HashMap::new(),
            told: Arc::clone(&told),
        })
    });
    TtlAfterFinishedController::run(config, env).await
}

/// Answers reads of single Jobs from what was told.
fn answered_from(told: &Told, client: Client) -> Client {
    let told = Arc::clone(told);
    between(client, move |client, head, body| {
        let name = head.uri.path().rsplit('/').next().unwrap_or_default();
        let job = told
            .lock()
            .get(name)
            .filter(|_| head.method == Method::GET)
            .map(as_read);
        async move {
            match job {
                Some(job) => Ok(Response::new(Body::from(job.to_string().into_bytes()))),
                None => harness::sabotage::send(&client, head, body).await,
            }
        }
    })
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

/// Notes what its source tells, and may hold on to the shortest ttl of each Job.
struct Telling {
    source: WatcherSource<JobWire>,
    ttl: Ttl,
    shortest: HashMap<Uid, i32>,
    told: Told,
}

impl Source for Telling {
    type View = JobView;

    async fn next(&mut self) -> SourceEvent<JobView> {
        let mut event = self.source.next().await;
        match &mut event {
            SourceEvent::InitItem(job) | SourceEvent::Applied(job) => {
                if let (Ttl::Shortest, Some(ttl)) = (self.ttl, &mut job.view.ttl_seconds) {
                    let shortest = self.shortest.entry(job.uid.clone()).or_insert(*ttl);
                    *shortest = (*shortest).min(*ttl);
                    *ttl = *shortest;
                }
                self.told
                    .lock()
                    .insert(job.view.key.name.to_string(), job.view.clone());
            }
            SourceEvent::Deleted(job) => {
                self.told.lock().remove(&*job.key.name);
            }
            _ => {}
        }
        event
    }
}
