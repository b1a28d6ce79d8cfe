//! Bugs put in on purpose: the histories must find them, and shrink them to what matters.

use controller_testing::fault_history::FaultKind;
use controller_testing::history::Histories;
use controller_testing::seeded_bugs::{
    edited, forgets_to_retry, found_by, hoarding, lists_from_any_cache, refused,
};
use http::{Method, StatusCode};
use serde_json::json;
use taint_eviction_controller::view::NodeWire;

use crate::ledger::Ledger;

controller_testing::seeded_bugs! { Ledger;
    // A relist is added to the known taints, and no node is read before its pods are evicted.
    a_taint_removal_that_is_missed_after_a_relist_is_found: found_with_faults(|env| {
        let is_read = |head: &http::request::Parts| {
            head.method == Method::GET && head.uri.path().starts_with("/api/v1/nodes/")
        };
        hoarding::<NodeWire>(refused(env, is_read, StatusCode::FORBIDDEN, "Forbidden"))
    }, 329, "no taint calls for its eviction");
    // Any pod with the name is deleted.
    a_delete_without_the_uid_is_found: found(|env| edited(env, |head, body| {
        if head.method == Method::DELETE {
            *body = json!({});
        }
    }), 1, "it may hit another pod of the name");
    a_forgotten_retry_is_found: found_with_faults(forgets_to_retry, 4, "is still there");
}

#[test]
fn a_list_from_a_cache_that_lags_is_found_by_several_api_servers() {
    let lists_anywhere = Histories::<Ledger>::with(lists_from_any_cache);
    found_by(&lists_anywhere, FaultKind::ApiServers, 10_600, "is gone");
}
