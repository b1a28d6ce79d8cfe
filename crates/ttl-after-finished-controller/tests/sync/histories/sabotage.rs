//! Bugs put in on purpose: the histories must find them, and shrink them to what matters.

use std::collections::HashMap;
use std::sync::Arc;

use controller_core::informer::SourceEvent;
use controller_core::runtime::Env;
use harness::history::Histories;
use harness::sabotage::{answered, edited, forgets_to_retry, found_as, found_in_trouble, retold};
use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};
use ttl_after_finished_controller::view::{Finish, JobView, JobWire};

use super::suite::Jobs;

harness::sabotages! { Jobs;
    // The shortest ttl that a Job ever had counts.
    an_ignored_raise_of_the_ttl_is_found: found(|env| believing(env, true), 5, "it expires in");
    a_forgotten_retry_is_found: found_in_trouble(forgets_to_retry, 4, "is still there");
}

/// What the watch told last is taken for the state of the Job.
#[test]
fn a_skipped_fresh_read_is_found() {
    let failure = found_in_trouble(&Histories::<Jobs>::with(|env| believing(env, false)), 55, "");
    let early = ["it expires in", "it has no ttl", "it has not finished"];
    let is_early = early.iter().any(|early| failure.what.contains(early));
    assert!(is_early, "{failure}");
}

/// The Jobs as the watch told them last, by name.
type Told = Arc<Mutex<HashMap<String, JobView>>>;

/// No Job is read but what the watch told of it, and it is deleted whatever its version.
fn believing(env: Env, shortest_counts: bool) -> Env {
    let told = Told::default();
    let mut env = edited(env, |_, options| {
        options["preconditions"]["resourceVersion"] = Value::Null;
    });
    let answers = Arc::clone(&told);
    env.client = answered(env.client, move |head| {
        let name = head.uri.path().rsplit('/').next().unwrap_or_default();
        let job = answers
            .lock()
            .get(name)
            .filter(|_| head.method == Method::GET)
            .map(as_read);
        job.as_ref().map(found_as)
    });
    retold::<JobWire>(env, move || {
        let (told, mut shortest) = (Arc::clone(&told), HashMap::new());
        Box::new(move |event| match event {
            SourceEvent::InitItem(job) | SourceEvent::Applied(job) => {
                if let Some(ttl) = job.view.ttl_seconds.as_mut().filter(|_| shortest_counts) {
                    let shortest = shortest.entry(job.uid.clone()).or_insert(*ttl);
                    *shortest = (*shortest).min(*ttl);
                    *ttl = *shortest;
                }
                let name = job.view.key.name.to_string();
                told.lock().insert(name, job.view.clone());
            }
            SourceEvent::Deleted(job) => drop(told.lock().remove(&*job.key.name)),
            _ => {}
        })
    })
}

fn as_read(job: &JobView) -> Value {
    let condition = |finish: &Finish| match finish {
        Finish::At(at) => json!({"type": "Complete", "status": "True", "lastTransitionTime": at}),
        Finish::Undated => json!({"type": "Complete", "status": "True"}),
    };
    json!({
        "metadata": {"name": job.key.name, "namespace": "default", "uid": job.uid.to_string(), "resourceVersion": "1"},
        "spec": {"ttlSecondsAfterFinished": job.ttl_seconds},
        "status": {"conditions": job.finish.iter().map(condition).collect::<Vec<_>>()},
    })
}
