//! Bugs put in on purpose: the histories must find them, and shrink them to what matters.

use std::sync::Arc;

use controller_core::cache::SourceEvent;
use controller_core::meta::Uid;
use controller_runtime::driver;
use controller_runtime::leader::Leadership;
use controller_testing::fault_history::FaultKind;
use controller_testing::history::Histories;
use controller_testing::seeded_bugs::{
    forgets_to_retry, found_and_shrunk, found_by, gives_up, hoarding, ignores_dry_run, never_lists_again,
    retold, tires, trusts_silence,
};
use futures::FutureExt;
use ttl_controller::TtlController;
use ttl_controller::view::{NodeView, NodeWire};

use super::suite::Nodes;

controller_testing::seeded_bugs! { Nodes;
    a_missed_delete_after_a_relist_is_found:
        found_with_faults(hoarding::<NodeWire>, 237, "after the last fault node-");
    a_forgotten_retry_is_found: found_with_faults(forgets_to_retry, 16, "after the last fault node-");
}

/// Once leader, always leader: after the lease is lost, the replica writes on, by what it believes.
fn deaf() -> Histories<Nodes> {
    Histories::of(Arc::new(|config, mut env| {
        async move {
            env.leadership.lead().await;
            env.leadership = Leadership::always();
            driver::run::<TtlController>(config, env).await
        }
        .boxed()
    }))
}

#[test]
fn a_write_on_stale_state_after_a_lost_lease_is_found() {
    found_and_shrunk(&deaf(), 63, "writes while the lease is held by");
}

#[test]
fn a_replica_that_leads_on_is_found_by_its_cut_off() {
    found_by(&deaf(), FaultKind::CutOff, 0, "writes while the lease is held by");
}

#[test]
fn a_node_that_is_given_up_is_found_by_refusals_that_last() {
    let gives_up = Histories::<Nodes>::with(gives_up);
    found_by(&gives_up, FaultKind::Refusals, 0, "after the last fault node-");
}

#[test]
fn a_cache_of_a_state_that_no_longer_exists_is_found_by_set_backs() {
    let stubborn = Histories::<Nodes>::with(never_lists_again::<NodeWire>);
    found_by(&stubborn, FaultKind::SetBack, 0, "after the last fault node-");
}

#[test]
fn a_watch_that_is_given_up_is_found_by_outages() {
    let tires = Histories::<Nodes>::with(tires::<NodeWire>);
    found_by(&tires, FaultKind::Outage, 0, "after the last fault node-");
}

#[test]
fn a_dead_watch_that_counts_as_alive_is_found_by_faults_of_watches() {
    let trusts_silence = Histories::<Nodes>::with(trusts_silence);
    found_by(
        &trusts_silence,
        FaultKind::Watches,
        0,
        "after the last fault node-",
    );
}

#[test]
fn a_patch_war_is_found_by_a_rival_that_stays() {
    let forgets = Histories::<Nodes>::with(|env| {
        retold::<NodeWire>(env, || Box::new(takes_each_state_for_another_node))
    });
    found_by(&forgets, FaultKind::Rival, 0, "is written against a rival");
}

/// Nobody undoes what was written to a node that is always a new one.
fn takes_each_state_for_another_node(event: &mut SourceEvent<NodeView>) {
    if let SourceEvent::InitItem(node) | SourceEvent::Applied(node) = event
        && let Some(version) = &node.version
    {
        node.uid = Uid::from(&**version);
    }
}

#[test]
fn a_dry_run_that_writes_is_found() {
    let writes = Histories::<Nodes>::with(ignores_dry_run);
    found_by(&writes, FaultKind::DryRun, 0, "writes while the lease is held by");
}
