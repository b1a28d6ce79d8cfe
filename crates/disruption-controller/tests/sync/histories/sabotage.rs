//! Bugs put in on purpose: the histories must find them, and shrink them to what matters.

use controller_core::runtime::App;
use disruption_controller::DisruptionController;
use disruption_controller::config::Config;
use disruption_controller::view::PodWire;
use futures::FutureExt;
use harness::Run;
use harness::sabotage::{
    edited, forgets_to_retry, found, found_in_trouble, keeps_what_a_relist_lacks, leads_always,
};
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

#[test]
fn a_patch_without_the_version_is_found() {
    let suite = Budgets::new(WRITES_OVER_EVERY_VERSION);
    found(&suite, 6, "it overwrites the approved eviction of");
}

#[test]
fn a_forgotten_retry_is_found() {
    let suite = Budgets::new(forgets_to_retry::<DisruptionController>);
    found_in_trouble(&suite, 4, "after the last fault");
}

#[test]
fn a_fail_safe_that_keeps_the_old_number_is_found() {
    found(&Budgets::new(FAILS_AS_IT_WAS), 3, "what was delivered allows 0");
}

#[test]
fn an_approved_eviction_that_is_forgotten_is_found() {
    found(&Budgets::new(FORGETS_APPROVED_EVICTIONS), 6, "was approved to go");
}

#[test]
fn a_write_without_the_lease_is_found() {
    let suite = Budgets::new(leads_always::<DisruptionController>);
    found(&suite, 0, "writes while the lease is held by");
}

#[test]
fn a_delete_that_is_missed_in_a_relist_is_found() {
    let suite = Budgets::new(keeps_what_a_relist_lacks::<DisruptionController, PodWire>);
    found_in_trouble(&suite, 37, "");
}
