//! Bugs put in on purpose: the histories must find them, and shrink them to what matters.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use controller_core::clock::Clock;
use controller_core::informer::{BoxSource, Source, SourceEvent, WatcherSource};
use controller_core::meta::ObjectKey;
use controller_core::runtime::App;
use futures::FutureExt;
use harness::Run;
use harness::objects::{each, text};
use harness::sabotage::{
    Answer, between, edited, forgets_to_retry, found, found_in_trouble, leads_always, refusal, send,
};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use parking_lot::Mutex;
use resourceclaim_controller::ResourceClaimController;
use resourceclaim_controller::config::Config;
use resourceclaim_controller::view::{ClaimSource, ClaimantView, Entry, PodWire};
use serde_json::{Value, json};

use super::suite::Claims;

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
    env.client = edited(env.client, |head, write| {
        if head.method == Method::PATCH
            && head.uri.path().contains("/resourceclaims/")
            && let Some(metadata) = write["metadata"].as_object_mut()
        {
            metadata.remove("resourceVersion");
        }
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
        if head.method == Method::GET && head.uri.path().contains("/pods/") {
            return Ok(refusal(StatusCode::NOT_FOUND, "NotFound"));
        }
        send(&client, head, body).await
    });
    ResourceClaimController::run(config, env).boxed()
};

/// A pod that only ceases to be kept counts as deleted.
const TAKES_THE_FILTER_FOR_A_DELETION: Run<Config> = |config, env| {
    let env = env.over_source::<PodWire>(|source| {
        BoxSource::new(Hasty {
            source,
            known: BTreeMap::new(),
        })
    });
    ResourceClaimController::run(config, env).boxed()
};

#[test]
fn random_names_are_found() {
    found_in_trouble(&Claims::new(NAMES_AT_RANDOM), 366, "already");
}

#[test]
fn a_status_of_new_claims_alone_is_found() {
    found(&Claims::new(RECORDS_WHAT_IS_NEW), 4, "it forgets that");
}

#[test]
fn a_clean_up_without_the_version_is_found() {
    found(
        &Claims::new(GIVES_BACK_EVERY_VERSION),
        69,
        "loses its reservation",
    );
}

#[test]
fn a_reservation_for_a_pod_that_is_done_is_found() {
    found(&Claims::new(RESERVES_FOR_WHO_IS_DONE), 0, "was taken off");
}

#[test]
fn a_missing_read_of_an_unknown_pod_is_found() {
    found(
        &Claims::new(TAKES_THE_CACHE_FOR_THE_TRUTH),
        0,
        "loses its reservation",
    );
}

#[test]
fn a_forgotten_retry_is_found() {
    let suite = Claims::new(forgets_to_retry::<ResourceClaimController>);
    found_in_trouble(&suite, 89, "after the last fault");
}

#[test]
fn a_write_without_the_lease_is_found() {
    let suite = Claims::new(leads_always::<ResourceClaimController>);
    found(&suite, 0, "writes while the lease is held by");
}

#[test]
fn a_deletion_that_was_none_is_found() {
    found(
        &Claims::new(TAKES_THE_FILTER_FOR_A_DELETION),
        0,
        "loses its reservation",
    );
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
    let names = Arc::new(Mutex::new(Names::new(clock)));
    between(client, move |client, mut head, body| {
        let names = Arc::clone(&names);
        async move {
            if head.method == Method::POST && head.uri.path().ends_with("/resourceclaims") {
                names.lock().draw(&text(&parsed(&body)["metadata"]["name"]));
            }
            let uri = names.lock().to_real(&head.uri.to_string());
            head.uri = uri.parse().unwrap();
            let body = names.lock().to_real(&String::from_utf8_lossy(&body));
            let (head, body) = send(&client, head, body.into_bytes()).await?.into_parts();
            let body =
                body.map_frame(move |frame| frame.map_data(|data| names.lock().to_planned(&data).into()));
            Ok(Response::from_parts(head, body))
        }
    })
}

/// A source of pods of which every one that goes looks as if it had an entry: such a pod goes for good.
struct Hasty {
    source: WatcherSource<PodWire>,
    known: BTreeMap<ObjectKey, ClaimantView>,
}

impl Source for Hasty {
    type View = ClaimantView;

    async fn next(&mut self) -> SourceEvent<ClaimantView> {
        let mut event = self.source.next().await;
        match &mut event {
            SourceEvent::InitItem(pod) | SourceEvent::Applied(pod) => {
                self.known.insert(pod.view.key.clone(), pod.view.clone());
            }
            SourceEvent::Deleted(removed) => {
                let known = self.known.remove(&removed.key);
                let entry = Entry {
                    name: "any".into(),
                    source: ClaimSource::Unknown,
                };
                removed.view = removed.view.take().or(known).map(|pod| ClaimantView {
                    entries: Arc::new(vec![entry]),
                    ..pod
                });
            }
            _ => {}
        }
        event
    }
}
