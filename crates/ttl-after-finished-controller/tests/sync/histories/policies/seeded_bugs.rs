//! Bugs put in on purpose: the histories must find them.

use std::collections::BTreeMap;
use std::sync::Arc;

use controller_core::config::GoDuration;
use controller_runtime::args::Layers;
use controller_runtime::driver;
use controller_testing::fault_history::FaultKind;
use controller_testing::history::Histories;
use controller_testing::seeded_bugs::{
    Surroundings, between, edited, found, found_by, ignores_the_servers_clock, send,
};
use futures::FutureExt;
use http::Response;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::Value;
use ttl_after_finished_controller::TtlAfterFinishedController;
use ttl_after_finished_controller::config::Config;

type Debris = super::Debris<true>;

/// The version keeps an object that has just been annotated, relabelled or finished anew.
#[test]
fn a_delete_without_the_version_is_found() {
    found_by(
        &Histories::<Debris>::with(forgets_the_version),
        FaultKind::Writes,
        81,
        "annotated to be kept",
    );
}

/// The watch of namespaces lags.
#[test]
fn a_namespace_that_is_read_but_once_is_found() {
    found_by(
        &Histories::<Debris>::with(reads_namespaces_once),
        FaultKind::Watches,
        41,
        "annotated to be kept",
    );
}

/// What ended minutes before the process saw it is new by its clock.
#[test]
fn a_slow_clock_that_counts_is_found() {
    found_by(
        &Histories::<Debris>::with(ignores_the_servers_clock),
        FaultKind::SlowClock,
        63,
        "it is within the grace period",
    );
}

#[test]
fn a_grace_period_that_does_not_count_is_found() {
    let hasty = with_config(|config| config.policy_grace_period = GoDuration::default());
    found(&hasty, 0, "it is within the grace period");
}

#[test]
fn a_brake_that_never_holds_is_found() {
    found(
        &with_config(|config| without(config, "maxPerHour")),
        1,
        "deletes more than its maxPerHour",
    );
}

#[test]
fn a_last_failed_object_that_is_not_kept_is_found() {
    found(
        &with_config(|config| without(config, "keepLastFailed")),
        70,
        "it is the last that failed",
    );
}

#[test]
fn a_file_that_is_not_read_again_is_found() {
    found(&with_config(|_| {}), 2, "is still there");
}

fn without(config: &mut Config, field: &str) {
    for policy in &mut config.policies.0 {
        policy.as_object_mut().unwrap().remove(field);
    }
}

/// A controller that stays with this config, whatever the file says later.
fn with_config(edit: fn(&mut Config)) -> Histories<Debris> {
    Histories::of(Arc::new(move |mut config, mut env| {
        edit(&mut config);
        env.layers = Layers::default();
        driver::run::<TtlAfterFinishedController>(config, env).boxed()
    }))
}

/// Deletes an object whatever has become of it since it was judged.
fn forgets_the_version(env: Surroundings) -> Surroundings {
    edited(env, |_, options| {
        options["preconditions"]["resourceVersion"] = Value::Null;
    })
}

/// Takes the first answer about a namespace for true ever after.
fn reads_namespaces_once(mut env: Surroundings) -> Surroundings {
    let known: Arc<Mutex<BTreeMap<String, Vec<u8>>>> = Arc::default();
    env.http = between(env.http.client(), move |client, head, body| {
        let known = Arc::clone(&known);
        async move {
            let uri = head.uri.to_string();
            if !(uri.contains("/namespaces?") && uri.contains("metadata.name")) {
                return send(&client, head, body).await;
            }
            if let Some(answer) = known.lock().get(&uri) {
                return Ok(Response::new(Body::from(answer.clone())));
            }
            let (head, body) = send(&client, head, body).await?.into_parts();
            let body = body.collect_bytes().await?.to_vec();
            if head.status.is_success() {
                known.lock().insert(uri, body.clone());
            }
            Ok(Response::from_parts(head, Body::from(body)))
        }
    })
    .into();
    env
}
