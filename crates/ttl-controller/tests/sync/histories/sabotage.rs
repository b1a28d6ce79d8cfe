//! Bugs put in on purpose: the histories must find them, and shrink them to what matters.

use controller_core::leader::Leadership;
use controller_core::runtime::App;
use futures::FutureExt;
use harness::Run;
use harness::sabotage::{forgets_to_retry, found_and_shrunk, found_in_trouble, keeps_what_a_relist_lacks};
use ttl_controller::TtlController;
use ttl_controller::config::Config;
use ttl_controller::view::NodeWire;

use super::suite::Nodes;

/// Once leader, always leader: writes go on, on what this replica believes, after the lease was lost.
const DEAF_TO_A_LOST_LEASE: Run<Config> = |config, mut env| {
    async move {
        env.leadership.lead().await;
        env.leadership = Leadership::always();
        TtlController::run(config, env).await
    }
    .boxed()
};

#[test]
fn a_write_on_stale_state_after_a_lost_lease_is_found() {
    found_and_shrunk(
        &Nodes::new(DEAF_TO_A_LOST_LEASE),
        1,
        "writes while the lease is held by",
    );
}

#[test]
fn a_missed_delete_after_a_relist_is_found() {
    let suite = Nodes::new(keeps_what_a_relist_lacks::<TtlController, NodeWire>);
    found_in_trouble(&suite, 20, "after the last fault node-");
}

#[test]
fn a_forgotten_retry_is_found() {
    let suite = Nodes::new(forgets_to_retry::<TtlController>);
    found_in_trouble(&suite, 16, "after the last fault node-");
}
