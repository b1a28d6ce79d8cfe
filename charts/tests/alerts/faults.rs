//! Faults that every controller can have.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use controller_core::app::Failure;
use controller_core::events::{Event, Recorder, reference};
use controller_core::meta::{ObjectKey, Uid};
use controller_core::workqueue::QueueMetrics;
use controller_runtime::driver::Env;
use controller_testing::Start;
use embedded_apiserver::{FaultRule, LEASES, Server};
use futures::FutureExt;
use jiff::Timestamp;
use serde_json::json;
use ttl_controller::TtlController;
use ttl_controller::config::Config;

use crate::cluster::{Cluster, TICK, now, writes_an_object};

/// A fault and the alerts that must fire for it.
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    pub(crate) begin: fn(&mut Cluster),
    /// All alerts that fire, without the controller's prefix.
    pub(crate) told_by: &'static [&'static str],
}

/// With the alerts that fire for the ttl-controller.
pub(crate) const SHARED: &[Fault] = &[
    Fault {
        name: "all replicas are gone",
        begin: |cluster| cluster.replicas.clear(),
        told_by: &["Down"],
    },
    Fault {
        name: "a stranger holds the Lease",
        begin: |cluster| cluster.fault = Some(|server, _| async move { take_lease(&server) }.boxed()),
        told_by: &["NoLeader", "NodesOutOfDate"],
    },
    Fault {
        name: "a second release has a Lease of its own",
        begin: |cluster| {
            cluster.start_as(|identity, client, clock| {
                let start = Start::of::<TtlController>().elected_as(identity);
                start.lease_in("default").start(client, clock)
            });
        },
        told_by: &["SeveralLeaders"],
    },
    Fault {
        name: "the right to write is missing",
        begin: |cluster| {
            let refused = embedded_apiserver::Fault::status(403, "Forbidden");
            cluster.server.fail(writes(cluster, refused));
        },
        told_by: &["NodesOutOfDate", "RequestsRefused", "RetriesGrow"],
    },
    Fault {
        name: "no write succeeds",
        begin: |cluster| {
            let fails = embedded_apiserver::Fault::status(500, "InternalError");
            cluster.server.fail(writes(cluster, fails));
        },
        told_by: &["NodesOutOfDate", "RetriesGrow"],
    },
    Fault {
        name: "the network of one node fails",
        begin: |cluster| {
            let leader = cluster.take_leader();
            let agent = format!("{}/{}", cluster.controller.name, leader.name);
            cluster.replicas.push(leader);
            let cut = FaultRule::new(embedded_apiserver::Fault::DropBefore);
            cluster
                .server
                .fail(cut.matching(move |request| request.user_agent == agent));
            cluster.server.close_watches();
        },
        told_by: &["ChangesUnseen", "RequestsFail"],
    },
    Fault {
        name: "the API server is gone",
        begin: |cluster| cluster.server.down(),
        told_by: &["ChangesUnseen", "NoLeader", "RequestsFail"],
    },
    Fault {
        name: "the right to write events is missing",
        begin: |cluster| {
            cluster.replicas.clear();
            cluster.start_as(|identity, client, clock| {
                let start = Start::of::<TtlController>().elected_as(identity);
                start
                    .running(|config, env| talk(config, env).boxed())
                    .start(client, clock)
            });
            let refused = FaultRule::new(embedded_apiserver::Fault::status(403, "Forbidden"));
            cluster
                .server
                .fail(refused.matching(|request| request.resource == "events"));
        },
        told_by: &["EventsDropped", "RequestsRefused"],
    },
    Fault {
        name: LEFT_DRY,
        begin: leave_dry,
        told_by: &["NodesOutOfDate", "PlannedWritesUndone"],
    },
    Fault {
        name: "the client certificate is not renewed",
        begin: |cluster| {
            cluster.replicas.clear();
            cluster.start_as(|identity, client, clock| {
                // For promtool, the half hour begins in 1970.
                let in_six_days = Timestamp::UNIX_EPOCH + Duration::from_hours(6 * 24);
                let start = Start::of::<TtlController>().elected_as(identity);
                start.certified_until(in_six_days).start(client, clock)
            });
        },
        told_by: &["ClientCertificateExpires"],
    },
    Fault {
        name: "the workers are stuck",
        begin: |cluster| {
            cluster.replicas.clear();
            cluster.start_as(|identity, client, clock| {
                let start = Start::of::<TtlController>().elected_as(identity);
                start
                    .running(|config, env| stuck(config, env).boxed())
                    .start(client, clock)
            });
        },
        told_by: &["QueueStalled"],
    },
];

/// Name of the fault that [`leave_dry`] causes.
pub(crate) const LEFT_DRY: &str = "the built-in loop was switched off, and the dry run stays on";

/// Leaves only a replica in a dry run.
pub(crate) fn leave_dry(cluster: &mut Cluster) {
    cluster.replicas.clear();
    cluster.start_as(cluster.controller.start_dry);
}

/// `fault` for every write of the controller except to its Lease and its events.
pub(crate) fn writes(cluster: &Cluster, fault: embedded_apiserver::Fault) -> FaultRule {
    FaultRule::new(fault)
        .matching(cluster.asks())
        .matching(writes_an_object)
}

/// Limits the rule to the first request for each name of an object.
pub(crate) fn once_an_object(rule: FaultRule) -> FaultRule {
    let asked = Mutex::new(BTreeSet::new());
    rule.matching(move |request| asked.lock().unwrap().insert(request.name.clone()))
}

fn take_lease(server: &Server) {
    let renewed = format!("{:.6}", now(server));
    let take = |lease: &mut serde_json::Value| {
        lease["spec"]["holderIdentity"] = json!("stranger");
        lease["spec"]["renewTime"] = json!(renewed);
    };
    server
        .edit(&LEASES, "kube-system", "ttl-controller", take)
        .unwrap();
}

/// A controller whose only worker never finishes its first key.
async fn stuck(_: Config, env: Env) -> Result<(), Failure> {
    let (clock, origin) = (env.clock.clone(), env.clock.instant());
    let metrics = QueueMetrics::register(&env.registry, move || clock.instant() - origin, "ttl_controller")?;
    metrics.added();
    metrics.started(None);
    loop {
        metrics.added();
        env.clock.sleep(TICK).await;
    }
}

/// A controller that emits events all the time.
async fn talk(_: Config, env: Env) -> Result<(), Failure> {
    let node = reference("v1", "Node", &ObjectKey::cluster("n"), &Uid::from("n"));
    for number in 0_u64.. {
        let event = Event::normal(node.clone(), "Told", "Tell", number.to_string());
        env.events.publish(event);
        env.clock.sleep(TICK).await;
    }
    Ok(())
}
