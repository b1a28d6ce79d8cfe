//! Bugs put in on purpose: the histories must find them, and shrink them to what matters.

use std::sync::Arc;

use controller_testing::seeded_bugs::{
    Surroundings, asks_again, between, edited, forgets_the_version, forgets_to_retry, hoarding, leads_always,
    send,
};
use disruption_controller::view::PodWire;
use http::Response;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::Value;

use super::suite::Budgets;

controller_testing::seeded_bugs! { Budgets;
    // A status is written whatever has happened to the budget since it was read.
    a_patch_without_the_version_is_found:
        found(forgets_the_version, 6, "it overwrites the approved eviction of");
    a_forgotten_retry_is_found: found_with_faults(forgets_to_retry, 161, "after the last fault");
    // A budget that cannot be computed allows what it allowed before.
    a_fail_safe_that_keeps_the_old_number_is_found: found(|env| edited(env, |_, write| {
        if let Some(status) = write["status"].as_object_mut()
            && status["conditions"][0]["reason"] == "SyncFailed"
        {
            status.remove("disruptionsAllowed");
        }
    }), 3, "what was delivered allows 0");
    // Approved evictions are forgotten with the next status.
    an_approved_eviction_that_is_forgotten_is_found: found(|env| edited(env, |_, write| {
        if !write["status"]["observedGeneration"].is_null() {
            write["status"]["disruptedPods"] = Value::Null;
        }
    }), 6, "was approved to go");
    a_write_without_the_lease_is_found: found(leads_always, 0, "writes while the lease is held by");
    a_refusal_of_protobuf_that_is_forgotten_is_found: found_with_faults(asks_again, 0, "asks again for protobuf");
    // A custom resource whose definition is gone counts as an object that is gone.
    a_kind_that_counts_as_served_for_good_is_found: found(remembers_what_is_served, 0, "it tells of others");
    a_delete_that_is_missed_in_a_relist_is_found: found_with_faults(hoarding::<PodWire>, 34, "it should say");
}

/// Asks for the kinds of custom resources once.
fn remembers_what_is_served(mut env: Surroundings) -> Surroundings {
    let served: Arc<Mutex<Vec<u8>>> = Arc::default();
    env.http = between(env.http.client(), move |client, head, body| {
        let served = Arc::clone(&served);
        async move {
            let is_discovery = head.uri.path() == "/apis/example.com/v1";
            let known = served.lock().clone();
            if is_discovery && !known.is_empty() {
                return Ok(Response::new(Body::from(known)));
            }
            let answer = send(&client, head, body).await?;
            if !is_discovery || !answer.status().is_success() {
                return Ok(answer);
            }
            let kinds = answer.into_body().collect_bytes().await?.to_vec();
            served.lock().clone_from(&kinds);
            Ok(Response::new(Body::from(kinds)))
        }
    })
    .into();
    env
}
