//! Bugs put in on purpose: the histories must find them, and shrink them to what matters.

use controller_core::leader::Leadership;
use controller_core::runtime::App;
use futures::FutureExt;
use harness::Run;
use harness::sabotage::{found, found_and_shrunk, gone_where_refused, hoarding};
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

/// A relist is added to what is known, instead of taking its place: what was deleted meanwhile stays.
const KEEPS_WHAT_A_RELIST_LACKS: Run<Config> =
    |config, env| TtlController::run(config, hoarding::<NodeWire>(env)).boxed();

/// A write that fails is not tried again.
const FORGETS_TO_RETRY: Run<Config> = |config, mut env| {
    env.client = gone_where_refused(env.client);
    TtlController::run(config, env).boxed()
};

#[test]
fn a_write_on_stale_state_after_a_lost_lease_is_found() {
    let failure = found_and_shrunk(&Nodes::new(DEAF_TO_A_LOST_LEASE), 1);
    assert!(!failure.troubles.is_empty(), "{failure}");
    assert!(failure.timeline.len() < failure.drawn / 2, "{failure}");
    assert!(
        failure.what.contains("writes while the lease is held by"),
        "{failure}"
    );
}

#[test]
fn a_missed_delete_after_a_relist_is_found() {
    let failure = found(&Nodes::new(KEEPS_WHAT_A_RELIST_LACKS), 20);
    assert!(!failure.troubles.is_empty(), "{failure}");
    assert!(failure.what.contains("after the last fault node-"), "{failure}");
}

#[test]
fn a_forgotten_retry_is_found() {
    let failure = found(&Nodes::new(FORGETS_TO_RETRY), 16);
    assert!(!failure.troubles.is_empty(), "{failure}");
    assert!(failure.what.contains("after the last fault node-"), "{failure}");
}
