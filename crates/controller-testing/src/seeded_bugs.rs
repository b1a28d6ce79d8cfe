//! Bugs put into a controller on purpose: its histories must find them.
//!
//! A bug sits between the controller and its surroundings, so the controller itself runs unchanged: [`edited`] and
//! [`refused`] change its requests and their answers, [`hoarding`] and [`retold`] the events of its informers. Bugs
//! that every controller can have are ready-made: [`forgets_to_retry`], [`leads_always`], [`asks_again`], [`hoarding`].

mod sources;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use controller_runtime::clock::Clock;
use controller_runtime::leader::Leadership;
use futures::stream;
use http::header::{ACCEPT, DATE};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::BoxError;

pub use self::sources::{Retell, hoarding, never_lists_again, retold, tires};
use crate::fault_history::{FailedSeed, FaultKind, Recorded, Shrink, Suite, replay, search, searches};
pub use crate::surroundings::Surroundings;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf, application/json";
/// Each bug must show within this many seeds.
const SEEDS: u64 = 200;
/// What shows a bug is simple: shrunk, it has no more faults.
const MOST_FAULTS: usize = 3;

/// The API server's answer, or the error.
pub type HttpAnswer = kube::Result<Response<Body>>;

/// Tests that a scene's histories find bugs: each with the bug, the seed, and a part of the failure's text.
#[macro_export]
macro_rules! seeded_bugs {
    ($scene:ty; $($(#[$attribute:meta])* $test:ident: $found:ident($bug:expr, $seed:expr, $what:expr);)*) => { $(
        $(#[$attribute])*
        #[test]
        fn $test() {
            let suite = $crate::history::Histories::<$scene>::with($bug);
            $crate::seeded_bugs::$found(&suite, $seed, $what);
        }
    )* };
}

/// The failure of a suite with a bug, with the faults that it takes; its text contains `what`. `seed` is the first that
/// shows the bug: trying earlier ones would only cost time. If histories are drawn differently by now, a later seed
/// must show the bug.
pub fn found(suite: &impl Suite, seed: u64, what: &str) -> FailedSeed {
    shrunk(suite, seed, what, Shrink::Faults)
}

/// [`found`] for a bug that does no harm without faults.
pub fn found_with_faults(suite: &impl Suite, seed: u64, what: &str) -> FailedSeed {
    let failure = found(suite, seed, what);
    assert!(!failure.faults.is_empty(), "{failure}");
    failure
}

/// [`found_with_faults`], shrunk to the steps that it takes, which are fewer than half of all.
pub fn found_and_shrunk(suite: &impl Suite, seed: u64, what: &str) -> FailedSeed {
    let failure = shrunk(suite, seed, what, Shrink::Everything);
    assert!(!failure.faults.is_empty(), "{failure}");
    assert!(failure.timeline.len() < failure.drawn / 2, "{failure}");
    failure
}

/// The failure of a suite with a bug in histories whose faults are all of one kind; its text contains `what`.
pub fn found_by(suite: &impl Suite, kind: FaultKind, seed: u64, what: &str) -> FailedSeed {
    let failure =
        known(suite, what).unwrap_or_else(|| looked_for(suite, seed, Some(kind), (Shrink::Faults, what)));
    assert!(!failure.faults.is_empty(), "{failure}");
    failure
}

fn shrunk(suite: &impl Suite, seed: u64, what: &str, shrink: Shrink) -> FailedSeed {
    let failure = known(suite, what).unwrap_or_else(|| looked_for(suite, seed, None, (shrink, what)));
    assert!(failure.faults.len() <= MOST_FAULTS, "{failure}");
    failure
}

/// The recorded history of the test that runs, if it still shows the bug. Every night they are looked for again.
fn known(suite: &impl Suite, what: &str) -> Option<FailedSeed> {
    let recorded = Recorded::of_this_test();
    let mut failures = recorded
        .iter()
        .filter(|_| !searches())
        .filter_map(|recorded| replay(suite, recorded).flatten());
    failures.find(|failure| failure.what.contains(what))
}

/// A bug may show in other ways, too, before it shows as `what`.
fn looked_for(
    suite: &impl Suite,
    seed: u64,
    kind: Option<FaultKind>,
    (shrink, what): (Shrink, &str),
) -> FailedSeed {
    let mut seeds = seed..seed + SEEDS;
    let failure = loop {
        let (_, Some(failure)) = search(suite, seeds.clone(), kind, shrink) else {
            panic!("no history shows the bug as {what:?}");
        };
        println!("{failure}");
        if failure.what.contains(what) {
            break failure;
        }
        seeds.start = failure.seed + 1;
    };
    if let Some(to_do) = failure.recorded.note(true) {
        println!("{to_do}");
    }
    failure
}

/// Does not retry a failed change: reports the object as gone, because with any other answer the loop, which knows its
/// own writes, would read it.
pub fn forgets_to_retry(mut env: Surroundings) -> Surroundings {
    env.http = between(env.http.client(), |client, head, body| async move {
        let is_change = matches!(head.method, Method::PATCH | Method::DELETE);
        match send(&client, head, body).await {
            Ok(answer) if answer.status().is_success() => Ok(answer),
            _ if is_change => Ok(refusal(StatusCode::NOT_FOUND, "NotFound")),
            answer => answer,
        }
    })
    .into();
    env
}

/// Gives an object up at the tenth refusal of a change.
pub fn gives_up(mut env: Surroundings) -> Surroundings {
    const PATIENCE: usize = 10;
    let refused: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    env.http = between(env.http.client(), move |client, head, body| {
        let refused = Arc::clone(&refused);
        async move {
            let (path, is_change) = (head.uri.path().to_owned(), head.method != Method::GET);
            let answer = send(&client, head, body).await?;
            if answer.status().is_success() || !is_change || path.contains("/leases/") {
                return Ok(answer);
            }
            let times = {
                let mut refused = refused.lock();
                let times = refused.entry(path).or_default();
                *times += 1;
                *times
            };
            let gone = || refusal(StatusCode::NOT_FOUND, "NotFound");
            Ok(if times < PATIENCE { answer } else { gone() })
        }
    })
    .into();
    env
}

/// Takes no watch for dead: the connection of each answer always has something to say.
pub fn trusts_silence(mut env: Surroundings) -> Surroundings {
    let clock = env.clock.clone();
    env.http = between(env.http.client(), move |client, head, body| {
        let clock = clock.clone();
        async move {
            let answer = send(&client, head, body).await?;
            Ok(answer.map(|body| StreamBody::new(stream::unfold((body, clock), busy))))
        }
    })
    .into();
    env
}

/// The next frame of an answer; an empty one if it is silent for a while.
async fn busy((mut body, clock): (Body, Clock)) -> Option<(kube::Result<Frame<Bytes>>, (Body, Clock))> {
    let frame = match clock.timeout(Duration::from_secs(20), body.frame()).await {
        Ok(frame) => frame?,
        Err(_silent) => Ok(Frame::data(Bytes::new())),
    };
    Some((frame, (body, clock)))
}

pub fn leads_always(mut env: Surroundings) -> Surroundings {
    env.leadership = Leadership::always();
    env
}

/// Lists from any API server's watch cache, as client-go does.
pub fn lists_from_any_cache(mut env: Surroundings) -> Surroundings {
    env.http = between(env.http.client(), |client, mut head, body| async move {
        let uri = head.uri.to_string();
        if uri.contains("sendInitialEvents=true") {
            head.uri = uri
                .replace("&resourceVersion=", "&resourceVersion=0")
                .parse()
                .unwrap();
        }
        send(&client, head, body).await
    })
    .into();
    env
}

/// Changes the bodies of requests before they are sent.
pub fn edited(mut env: Surroundings, edit: fn(&Parts, &mut Value)) -> Surroundings {
    env.http = between(env.http.client(), move |client, head, mut body| async move {
        if let Ok(mut value) = serde_json::from_slice(&body) {
            edit(&head, &mut value);
            body = value.to_string().into_bytes();
        }
        send(&client, head, body).await
    })
    .into();
    env
}

/// Makes writes go through whatever has become of the object since it was judged.
pub fn forgets_the_version(env: Surroundings) -> Surroundings {
    edited(env, |_, write| {
        if let Some(metadata) = write["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
    })
}

/// Makes every list and watch ask for protobuf, whatever the answer to an earlier request was.
pub fn asks_again(mut env: Surroundings) -> Surroundings {
    env.http = between(env.http.client(), |client, mut head, body| async move {
        if head.method == Method::GET && head.uri.query().is_some() {
            head.headers.insert(ACCEPT, HeaderValue::from_static(PROTOBUF));
        }
        send(&client, head, body).await
    })
    .into();
    env
}

/// Answers the reads for which `which` holds with a refusal, for example 404 `NotFound`, at the API server's time.
pub fn refused(
    mut env: Surroundings,
    which: fn(&Parts) -> bool,
    code: StatusCode,
    reason: &'static str,
) -> Surroundings {
    env.http = between(env.http.client(), move |client, head, body| async move {
        let is_refused = which(&head);
        let answer = send(&client, head, body).await?;
        if !is_refused {
            return Ok(answer);
        }
        let mut refusal = refusal(code, reason);
        let date = answer.headers().get(DATE).cloned();
        refusal.headers_mut().extend(date.map(|date| (DATE, date)));
        Ok(refusal)
    })
    .into();
    env
}

/// Writes in spite of `--dry-run`.
pub fn ignores_dry_run(mut env: Surroundings) -> Surroundings {
    env.dry_run = false;
    env
}

/// Goes by its own clock alone: no answer has a `Date`.
pub fn ignores_the_servers_clock(env: Surroundings) -> Surroundings {
    sent(env, |client, head, body| async move {
        let mut answer = send(&client, head, body).await?;
        answer.headers_mut().remove(DATE);
        Ok(answer)
    })
}

/// Sends requests through `send`.
pub fn sent<F>(mut env: Surroundings, send: fn(Client, Parts, Vec<u8>) -> F) -> Surroundings
where
    F: Future<Output = HttpAnswer> + Send + 'static,
{
    env.http = between(env.http.client(), send).into();
    env
}

/// A client for which `answer` answers some requests.
pub fn answered(
    client: Client,
    answer: impl Fn(&Parts) -> Option<Response<Body>> + Send + Sync + 'static,
) -> Client {
    between(client, move |client, head, body| {
        let answer = answer(&head);
        async move {
            match answer {
                Some(answer) => Ok(answer),
                None => send(&client, head, body).await,
            }
        }
    })
}

/// The API server's answer with an object.
pub fn found_as(object: &Value) -> Response<Body> {
    Response::new(Body::from(object.to_string().into_bytes()))
}

/// A client for which `send` sends or answers the requests.
pub fn between<F, B>(
    client: Client,
    send: impl Fn(Client, Parts, Vec<u8>) -> F + Send + Sync + 'static,
) -> Client
where
    F: Future<Output = kube::Result<Response<B>>> + Send + 'static,
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
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

pub async fn send(client: &Client, head: Parts, body: Vec<u8>) -> HttpAnswer {
    client.send(Request::from_parts(head, Body::from(body))).await
}

/// A client that gets the answers to the requests selected by `which` late: `late` after they were carried out.
pub fn answered_late(client: Client, clock: &Clock, late: Duration, which: fn(&Parts) -> bool) -> Client {
    let clock = clock.clone();
    between(client, move |client, head, body| {
        let clock = clock.clone();
        async move {
            let is_late = which(&head);
            let answer = send(&client, head, body).await;
            if is_late {
                clock.sleep(late).await;
            }
            answer
        }
    })
}

/// The API server's answer to a refused request, for example 404 `NotFound`.
pub fn refusal(code: StatusCode, reason: &str) -> Response<Body> {
    let status = json!({ "kind": "Status", "status": "Failure", "code": code.as_u16(), "reason": reason });
    let mut answer = Response::new(Body::from(status.to_string().into_bytes()));
    *answer.status_mut() = code;
    answer
}
