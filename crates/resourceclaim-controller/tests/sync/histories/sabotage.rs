//! Bugs put in on purpose: the histories must find them, and shrink them to what matters.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use controller_core::clock::Clock;
use controller_core::informer::SourceEvent;
use controller_core::runtime::Env;
use harness::objects::{each, name};
use harness::sabotage::{
    Answer, Retell, between, edited, forgets_to_retry, leads_always, refused, retold, send,
};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use parking_lot::Mutex;
use resourceclaim_controller::view::{ClaimSource, ClaimantView, Entry, PodWire};
use serde_json::{Value, json};

use super::suite::Claims;

/// The characters after the base of a claim's name.
const SUFFIX: usize = 5;

harness::sabotages! { Claims;
    // A claim has another name each time it is made, as upstream's have.
    random_names_are_found: found_in_trouble(renaming, 366, "already");
    // Only what is new is recorded, and what was recorded is lost with it: upstream v1.36.3.
    a_status_of_new_claims_alone_is_found: found(|env| through(env, records_what_is_new), 4, "it forgets that");
    // A claim is given back whatever has become of it since it was judged.
    a_clean_up_without_the_version_is_found: found(|env| edited(env, |head, write| {
        if head.method == Method::PATCH
            && head.uri.path().contains("/resourceclaims/")
            && let Some(metadata) = write["metadata"].as_object_mut()
        {
            metadata.remove("resourceVersion");
        }
    }), 69, "loses its reservation");
    // A pod whose containers have ended gets its claim reserved, like one that runs: upstream.
    a_reservation_for_a_pod_that_is_done_is_found:
        found(|env| through(env, reserves_for_who_is_done), 0, "was taken off");
    // A pod that the cache does not show is none.
    a_missing_read_of_an_unknown_pod_is_found: found(|env| {
        let reads = |head: &Parts| head.method == Method::GET && head.uri.path().contains("/pods/");
        refused(env, reads, StatusCode::NOT_FOUND, "NotFound")
    }, 0, "loses its reservation");
    a_forgotten_retry_is_found: found_in_trouble(forgets_to_retry, 89, "after the last fault");
    a_write_without_the_lease_is_found: found(leads_always, 0, "writes while the lease is held by");
    // A pod that only ceases to be kept counts as deleted.
    a_deletion_that_was_none_is_found:
        found(|env| retold::<PodWire>(env, takes_the_filter_for_a_deletion), 0, "loses its reservation");
}

/// Each request goes out as `send` does it.
fn through<F>(mut env: Env, send: fn(Client, Parts, Vec<u8>) -> F) -> Env
where
    F: Future<Output = Answer> + Send + 'static,
{
    env.client = between(env.client, send);
    env
}

/// Every pod that goes looks as if it had an entry: such a pod goes for good.
fn takes_the_filter_for_a_deletion() -> Retell<ClaimantView> {
    let mut known = BTreeMap::new();
    Box::new(move |event| match event {
        SourceEvent::InitItem(pod) | SourceEvent::Applied(pod) => {
            known.insert(pod.view.key.clone(), pod.view.clone());
        }
        SourceEvent::Deleted(removed) => {
            let known = known.remove(&removed.key);
            let entry = Entry {
                name: "any".into(),
                source: ClaimSource::Unknown,
            };
            let entries = Arc::new(vec![entry]);
            removed.view = removed
                .view
                .take()
                .or(known)
                .map(|pod| ClaimantView { entries, ..pod });
        }
        _ => {}
    })
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

async fn records_what_is_new(client: Client, head: Parts, body: Vec<u8>) -> Answer {
    let pod = head.uri.path().strip_suffix("/status");
    let Some(pod) = pod.filter(|path| path.contains("/pods/")) else {
        return send(&client, head, body).await;
    };
    let recorded = read(&client, pod).await["status"]["resourceClaimStatuses"].take();
    let mut write = parsed(&body);
    if let Some(statuses) = write["status"]["resourceClaimStatuses"].as_array_mut() {
        statuses.retain(|status| !each(&recorded).any(|recorded| recorded == status));
    }
    send(&client, head, write.to_string().into_bytes()).await
}

async fn reserves_for_who_is_done(client: Client, head: Parts, body: Vec<u8>) -> Answer {
    let write = parsed(&body);
    let change = &write["status"]["reservedFor"];
    let Some(gone) = each(change).find(|entry| entry["$patch"] == "delete") else {
        return send(&client, head, body).await;
    };
    let claim = read(&client, head.uri.path().trim_end_matches("/status")).await;
    let mut reserved = each(&claim["status"]["reservedFor"]);
    let again = reserved.find(|consumer| consumer["uid"] == gone["uid"]).cloned();
    let same = head.clone();
    let answer = send(&client, head, body).await?;
    if let Some(again) = again.filter(|_| answer.status() == StatusCode::OK) {
        let patch = json!({ "status": { "reservedFor": [again] } });
        let _ = send(&client, same, patch.to_string().into_bytes()).await;
    }
    Ok(answer)
}

/// Which name each claim really has, by the name that was planned.
#[derive(Default)]
struct Names {
    drawn: u32,
    real: BTreeMap<String, String>,
}

impl Names {
    /// The next name for a claim.
    fn draw(&mut self, planned: &str, clock: &Clock) {
        self.drawn += 1;
        let mut hasher = DefaultHasher::new();
        (clock.now().as_nanosecond(), self.drawn).hash(&mut hasher);
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

fn renaming(mut env: Env) -> Env {
    let (names, clock) = (Arc::new(Mutex::new(Names::default())), env.clock.clone());
    env.client = between(env.client, move |client, mut head, body| {
        let (names, clock) = (Arc::clone(&names), clock.clone());
        async move {
            if head.method == Method::POST && head.uri.path().ends_with("/resourceclaims") {
                names.lock().draw(&name(&parsed(&body)), &clock);
            }
            let uri = names.lock().to_real(&head.uri.to_string());
            head.uri = uri.parse().unwrap();
            let body = names.lock().to_real(&String::from_utf8_lossy(&body));
            let (head, body) = send(&client, head, body.into_bytes()).await?.into_parts();
            let body =
                body.map_frame(move |frame| frame.map_data(|data| names.lock().to_planned(&data).into()));
            Ok(Response::from_parts(head, body))
        }
    });
    env
}
