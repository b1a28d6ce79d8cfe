//! Bugs put in on purpose: the histories must find them, and shrink them to what matters.

use controller_core::leader::Leadership;
use controller_core::runtime::App;
use disruption_controller::DisruptionController;
use disruption_controller::config::Config;
use disruption_controller::view::PodWire;
use futures::FutureExt;
use harness::Run;
use harness::sabotage::{edited, found, gone_where_refused, hoarding};
use serde_json::Value;

use super::suite::Budgets;

/// A status is written whatever has become of the budget since it was read.
const WRITES_OVER_EVERY_VERSION: Run<Config> = |config, mut env| {
    env.client = edited(env.client, |_, write| {
        if let Some(metadata) = write["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
    });
    DisruptionController::run(config, env).boxed()
};

/// A write that fails is not tried again.
const FORGETS_TO_RETRY: Run<Config> = |config, mut env| {
    env.client = gone_where_refused(env.client);
    DisruptionController::run(config, env).boxed()
};

/// What cannot be computed allows what it allowed before.
const FAILS_AS_IT_WAS: Run<Config> = |config, mut env| {
    env.client = edited(env.client, |_, write| {
        if let Some(status) = write["status"].as_object_mut()
            && status["conditions"][0]["reason"] == "SyncFailed"
        {
            status.remove("disruptionsAllowed");
        }
    });
    DisruptionController::run(config, env).boxed()
};

/// Approved evictions are forgotten with the next status.
const FORGETS_APPROVED_EVICTIONS: Run<Config> = |config, mut env| {
    env.client = edited(env.client, |_, write| {
        if !write["status"]["observedGeneration"].is_null() {
            write["status"]["disruptedPods"] = Value::Null;
        }
    });
    DisruptionController::run(config, env).boxed()
};

/// Whoever runs writes.
const LEADS_ALWAYS: Run<Config> = |config, mut env| {
    env.leadership = Leadership::always();
    DisruptionController::run(config, env).boxed()
};

/// A relist is added to what is known of the pods.
const KEEPS_PODS_THAT_A_RELIST_LACKS: Run<Config> =
    |config, env| DisruptionController::run(config, hoarding::<PodWire>(env)).boxed();

#[test]
fn a_patch_without_the_version_is_found() {
    let failure = found(&Budgets::new(WRITES_OVER_EVERY_VERSION), 6);
    assert!(
        failure.what.contains("it overwrites the approved eviction of"),
        "{failure}"
    );
}

#[test]
fn a_forgotten_retry_is_found() {
    let failure = found(&Budgets::new(FORGETS_TO_RETRY), 4);
    assert!(!failure.troubles.is_empty(), "{failure}");
    assert!(failure.what.contains("after the last fault"), "{failure}");
}

#[test]
fn a_fail_safe_that_keeps_the_old_number_is_found() {
    let failure = found(&Budgets::new(FAILS_AS_IT_WAS), 3);
    assert!(failure.what.contains("what was delivered allows 0"), "{failure}");
}

#[test]
fn an_approved_eviction_that_is_forgotten_is_found() {
    let failure = found(&Budgets::new(FORGETS_APPROVED_EVICTIONS), 6);
    assert!(failure.what.contains("was approved to go"), "{failure}");
}

#[test]
fn a_write_without_the_lease_is_found() {
    let failure = found(&Budgets::new(LEADS_ALWAYS), 0);
    assert!(
        failure.what.contains("writes while the lease is held by"),
        "{failure}"
    );
}

#[test]
fn a_delete_that_is_missed_in_a_relist_is_found() {
    let failure = found(&Budgets::new(KEEPS_PODS_THAT_A_RELIST_LACKS), 37);
    assert!(!failure.troubles.is_empty(), "{failure}");
}
