//! Bugs put in on purpose: the histories must find them, and shrink them to what matters.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use controller_core::cache::{Removed, SourceEvent, Versioned};
use controller_core::config::Encoding;
use controller_testing::fault_history::FaultKind;
use controller_testing::history::Histories;
use controller_testing::objects::{each, name};
use controller_testing::seeded_bugs::{
    HttpAnswer, Retell, Surroundings, between, forgets_the_version, forgets_to_retry, found_by, leads_always,
    refusal, refused, retold, send, sent,
};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use resourceclaim_controller::view::{ClaimSource, ClaimantView, Entry, PodGroupWire, PodWire};
use serde_json::{Value, json};

use super::suite::Claims;

/// The characters after the base of a claim's name.
const SUFFIX: usize = 5;

controller_testing::seeded_bugs! { Claims;
    // A claim gets another name each time it is made, as upstream.
    random_names_are_found: found_with_faults(renaming, 74, "has several claims");
    // Only new claims are recorded, and the earlier records are lost: upstream v1.36.3.
    a_status_of_new_claims_alone_is_found: found(|env| sent(env, records_what_is_new), 8, "it forgets that");
    // A claim is given back whatever has happened to it since it was judged.
    a_clean_up_without_the_version_is_found: found(forgets_the_version, 480, "loses its reservation");
    // A pod whose containers have ended gets its claim reserved, like one that runs: upstream.
    a_reservation_for_a_pod_that_is_done_is_found:
        found(|env| sent(env, reserves_for_who_is_done), 0, "was taken off");
    // A pod that the cache does not show counts as missing.
    a_missing_read_of_an_unknown_pod_is_found: found(|env| {
        let reads = |head: &Parts| head.method == Method::GET && head.uri.path().contains("/pods/");
        refused(env, reads, StatusCode::NOT_FOUND, "NotFound")
    }, 0, "loses its reservation");
    a_forgotten_retry_is_found: found_with_faults(forgets_to_retry, 149, "after the last fault");
    a_write_without_the_lease_is_found: found(leads_always, 0, "writes while the lease is held by");
    // A namespace that has ended once counts as ended.
    a_namespace_that_ends_for_good_is_found: found(gives_up_namespaces, 43, "has no claim");
    // A pod that the informer merely filters out counts as deleted.
    a_deletion_that_was_none_is_found:
        found(|env| retold::<PodWire>(env, takes_the_filter_for_a_deletion), 0, "loses its reservation");
    // A group that is being deleted counts as gone, although its pods run.
    a_group_that_counts_as_gone_before_its_pods_are_is_found:
        found(|env| retold::<PodGroupWire>(env, takes_the_end_for_a_deletion), 5, "loses its reservation");
}

#[test]
fn random_names_are_found_by_late_effects() {
    let renaming = Histories::<Claims>::with(renaming);
    found_by(&renaming, FaultKind::LateEffects, 6, "has several claims");
}

/// Every read of a pod that fails counts as its absence.
#[test]
fn a_failed_read_that_counts_as_absence_is_found_by_failed_reads() {
    let hasty = Histories::<Claims>::with(|env| sent(env, takes_a_failed_read_for_absence));
    found_by(&hasty, FaultKind::Gets, 0, "loses its reservation");
}

/// Makes nothing in a namespace whose end a refusal has told.
fn gives_up_namespaces(mut env: Surroundings) -> Surroundings {
    let ended = Arc::new(AtomicBool::new(false));
    env.http = between(env.http.client(), move |client, head, body| {
        let ended = Arc::clone(&ended);
        async move {
            let makes = head.method == Method::POST && head.uri.path().ends_with("/resourceclaims");
            if makes && ended.load(Ordering::Relaxed) {
                return Ok(refusal(StatusCode::FORBIDDEN, "Forbidden"));
            }
            let answer = send(&client, head, body).await?;
            if !makes || answer.status() != StatusCode::FORBIDDEN {
                return Ok(answer);
            }
            let (head, body) = answer.into_parts();
            let body = body.collect_bytes().await?;
            let text = String::from_utf8_lossy(&body);
            ended.fetch_or(text.contains("NamespaceTerminating"), Ordering::Relaxed);
            Ok(Response::from_parts(head, Body::from(body.to_vec())))
        }
    })
    .into();
    env
}

/// Every pod that disappears seems to have had an entry: such a pod counts as deleted.
fn takes_the_filter_for_a_deletion() -> Retell<ClaimantView> {
    let mut known = BTreeMap::new();
    Box::new(move |event| match event {
        SourceEvent::InitItem(pod) | SourceEvent::Applied(pod) => {
            known.insert(pod.view.key.clone(), pod.view.clone());
        }
        SourceEvent::Deleted(removed) => {
            let (name, source) = ("any".into(), ClaimSource::Unknown);
            let entries = Arc::new(vec![Entry { name, source }]);
            let pod = removed.view.take().or(known.remove(&removed.key));
            removed.view = pod.map(|pod| ClaimantView { entries, ..pod });
        }
        _ => {}
    })
}

fn takes_the_end_for_a_deletion() -> Retell<ClaimantView> {
    Box::new(|event| {
        if let SourceEvent::Applied(Versioned {
            view, uid, version, ..
        }) = event
            && view.deleting
        {
            *event = SourceEvent::Deleted(Removed {
                key: view.key.clone(),
                uid: uid.clone(),
                view: Some(view.clone()),
                version: version.clone(),
            });
        }
    })
}

async fn takes_a_failed_read_for_absence(client: Client, head: Parts, body: Vec<u8>) -> HttpAnswer {
    let is_read = head.method == Method::GET && head.uri.path().contains("/pods/");
    match send(&client, head, body).await {
        Ok(answer) if answer.status().is_success() || !is_read => Ok(answer),
        _ if is_read => Ok(refusal(StatusCode::NOT_FOUND, "NotFound")),
        failed => failed,
    }
}

fn parsed(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_default()
}

/// The current object at `path`.
async fn read(client: &Client, path: &str) -> Value {
    let request = Request::get(path).body(Vec::new()).unwrap();
    client.request(request).await.unwrap_or_default()
}

async fn records_what_is_new(client: Client, head: Parts, body: Vec<u8>) -> HttpAnswer {
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

async fn reserves_for_who_is_done(client: Client, head: Parts, body: Vec<u8>) -> HttpAnswer {
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

/// The real name of a claim: the planned one with other characters after its base.
fn drawn(planned: &str, chance: impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    chance.hash(&mut hasher);
    let mut chance = hasher.finish();
    let mut real = planned[..planned.len() - SUFFIX].to_owned();
    for _ in 0..SUFFIX {
        real.push(char::from(b"bcdfghjk"[usize::try_from(chance % 8).unwrap()]));
        chance /= 8;
    }
    real
}

fn renamed<'a>(text: &[u8], names: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    let text = String::from_utf8_lossy(text).into_owned();
    names.fold(text, |text, (from, to)| text.replace(from, to))
}

fn renaming(mut env: Surroundings) -> Surroundings {
    // The number of drawn names, and the real names by the planned ones.
    let names = Arc::new(Mutex::new((0_u32, BTreeMap::<String, String>::new())));
    let clock = env.clock.clone();
    // JSON, because its strings have no length prefix.
    env.encoding = Encoding::Json;
    env.http = between(env.http.client(), move |client, mut head, body| {
        let (names, clock) = (Arc::clone(&names), clock.clone());
        async move {
            if head.method == Method::POST && head.uri.path().ends_with("/resourceclaims") {
                let (count, real) = &mut *names.lock();
                let planned = name(&parsed(&body));
                *count += 1;
                real.insert(
                    planned.clone(),
                    drawn(&planned, (clock.now().as_nanosecond(), *count)),
                );
            }
            let to_real = |text: &[u8]| renamed(text, names.lock().1.iter());
            head.uri = to_real(head.uri.to_string().as_bytes()).parse().unwrap();
            let body = to_real(&body).into_bytes();
            let (head, body) = send(&client, head, body).await?.into_parts();
            let body = body.map_frame(move |frame| {
                frame.map_data(|data| {
                    let real = &names.lock().1;
                    renamed(&data, real.iter().map(|(planned, real)| (real, planned))).into()
                })
            });
            Ok(Response::from_parts(head, body))
        }
    })
    .into();
    env
}
