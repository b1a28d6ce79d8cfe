//! The hours to record.

use std::time::Duration;

use embedded_apiserver::{Fault, FaultRule};

use crate::cluster::Cluster;
use crate::faults;

/// Everything that happens in a healthy cluster at some time, in one hour: a rolling upgrade, a node that dies, a
/// relist, conflicts, requests with 429, an API server that restarts.
pub(crate) async fn healthy(cluster: &mut Cluster) {
    cluster.pass(7).await;
    upgrade(cluster).await;
    cluster.pass(5).await;
    drop(cluster.take_leader());
    cluster.pass(1).await;
    cluster.start();
    cluster.pass(5).await;
    cluster.server.compact();
    cluster.server.close_watches();
    cluster.pass(4).await;
    be_busy(cluster);
    cluster.pass(10).await;
    cluster.server.restart();
    cluster.pass(1).await;
    come_up(cluster);
    cluster.pass(25).await;
}

/// Half an hour with a permanent fault, and as long as the fault says in which nothing changes.
pub(crate) async fn with(cluster: &mut Cluster, fault: &faults::Fault) {
    (fault.begin)(cluster);
    cluster.pass(28).await;
    cluster.recording.stay(cluster.stays);
}

/// Replaces each replica, as a Deployment does. The leader goes last and hands over.
async fn upgrade(cluster: &mut Cluster) {
    for _ in 0..2 {
        cluster.start();
        cluster.pass(1).await;
        let leader = cluster.take_leader();
        leader.process.stop().await;
        cluster.pass(1).await;
    }
}

/// Some writes of the controller conflict, some get 429, some are lost.
fn be_busy(cluster: &Cluster) {
    for fault in [
        Fault::status(409, "Conflict"),
        Fault::Throttled {
            retry_after: Duration::from_secs(2),
        },
        Fault::status(500, "InternalError"),
        Fault::DropAfterEffect,
    ] {
        let writes = FaultRule::new(fault)
            .matching(cluster.asks())
            .matching(|request| request.verb.is_write());
        cluster.server.fail(writes.probability(0.1).times(12));
    }
}

/// The API server is back, but does not know the roles for some seconds.
fn come_up(cluster: &Cluster) {
    let knows_roles = cluster.server.elapsed() + Duration::from_secs(5);
    let early = FaultRule::new(Fault::status(403, "Forbidden")).matching(cluster.asks());
    cluster
        .server
        .fail(early.matching(move |request| request.arrived < knows_roles));
    cluster.server.up();
}
