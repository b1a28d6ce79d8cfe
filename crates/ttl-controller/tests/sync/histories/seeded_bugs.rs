//! Bugs put in on purpose: the histories must find them, and shrink them to what matters.

use std::sync::Arc;

use controller_runtime::driver;
use controller_runtime::leader::Leadership;
use controller_testing::history::Histories;
use controller_testing::seeded_bugs::{forgets_to_retry, found_and_shrunk, hoarding};
use futures::FutureExt;
use ttl_controller::TtlController;
use ttl_controller::view::NodeWire;

use super::suite::Nodes;

controller_testing::seeded_bugs! { Nodes;
    a_missed_delete_after_a_relist_is_found:
        found_with_faults(hoarding::<NodeWire>, 20, "after the last fault node-");
    a_forgotten_retry_is_found: found_with_faults(forgets_to_retry, 16, "after the last fault node-");
}

/// Once leader, always leader: after the lease is lost, the replica writes on, by what it believes.
#[test]
fn a_write_on_stale_state_after_a_lost_lease_is_found() {
    let deaf = Histories::<Nodes>::of(Arc::new(|config, mut env| {
        async move {
            env.leadership.lead().await;
            env.leadership = Leadership::always();
            driver::run::<TtlController>(config, env).await
        }
        .boxed()
    }));
    found_and_shrunk(&deaf, 1, "writes while the lease is held by");
}
