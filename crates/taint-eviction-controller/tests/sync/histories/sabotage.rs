//! Bugs put in on purpose: the histories must find them, and shrink them to what matters.

use controller_core::runtime::App;
use futures::FutureExt;
use harness::Run;
use harness::sabotage::{
    between, edited, forgets_to_retry, found, found_in_trouble, hoarding, refusal, send,
};
use http::{Method, StatusCode};
use serde_json::json;
use taint_eviction_controller::TaintEvictionController;
use taint_eviction_controller::config::Config;
use taint_eviction_controller::view::NodeWire;

use super::suite::Pods;

/// A relist is added to what is known of the taints, and no node is read before its pods are evicted.
const KEEPS_TAINTS_THAT_A_RELIST_LACKS: Run<Config> = |config, mut env| {
    env.client = between(env.client, |client, head, body| async move {
        if head.method == Method::GET && head.uri.path().starts_with("/api/v1/nodes/") {
            return Ok(refusal(StatusCode::FORBIDDEN, "Forbidden"));
        }
        send(&client, head, body).await
    });
    TaintEvictionController::run(config, hoarding::<NodeWire>(env)).boxed()
};

/// Whoever has the name is deleted.
const DELETES_BY_NAME: Run<Config> = |config, mut env| {
    env.client = edited(env.client, |head, body| {
        if head.method == Method::DELETE {
            *body = json!({});
        }
    });
    TaintEvictionController::run(config, env).boxed()
};

#[test]
fn a_taint_removal_that_is_missed_after_a_relist_is_found() {
    found_in_trouble(&Pods::new(KEEPS_TAINTS_THAT_A_RELIST_LACKS), 20, "");
}

#[test]
fn a_delete_without_the_uid_is_found() {
    found(
        &Pods::new(DELETES_BY_NAME),
        1,
        "it may hit another pod of the name",
    );
}

#[test]
fn a_forgotten_retry_is_found() {
    let suite = Pods::new(forgets_to_retry::<TaintEvictionController>);
    found_in_trouble(&suite, 4, "is still there");
}
