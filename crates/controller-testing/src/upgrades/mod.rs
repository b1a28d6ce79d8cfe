//! Rolling upgrades of a controller's two replicas, and for how long nobody writes.
//!
//! | file | holds |
//! |---|---|
//! | `evidence` | the watch of the Lease, and the audit log |
//! | `handovers` | pure: who led when, and the duration of each hand-over |
//! | `report` | the figures of all upgrades, and their bars |
//!
//! An upgrade is that of a Deployment with two replicas, `maxSurge: 1` and `maxUnavailable: 0`: a new replica starts,
//! and once it is ready an old one gets SIGTERM; then the same again. The Deployment is free to choose which old
//! replica goes first: here the leader in every other upgrade, the standby in the rest. Each replica has its own token,
//! as a pod has, which tells the replicas' requests apart in the audit log. Leases have their default times.

mod evidence;
mod handovers;
mod report;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::num::NonZeroUsize;

use controller_runtime::clock::Clock;
use evidence::{LeaseLog, Write, credential, writes};
use handovers::{Stop, handovers, terms};
use report::Report;

use crate::cluster::Cluster;
use crate::replica::{Replica, soon};

/// Number of upgrades in a test run.
const UPGRADES: usize = 2;
/// Sets another number, and judges the bars: on a busy machine they say little.
const VARIABLE: &str = "UPGRADES";

/// Upgrades the controller under a load that makes it write all the time. Prints the durations.
///
/// Fails if a replica writes without holding the Lease, if a stopped leader does not release it, and, if `$UPGRADES` is
/// set, if nobody writes for too long.
pub async fn assert_handed_over(cluster: &Cluster, load: impl Future<Output = Infallible>) {
    let asked = std::env::var(VARIABLE).ok();
    let asked: Option<NonZeroUsize> = asked.map(|count| count.parse().unwrap());
    let count = asked.map_or(UPGRADES, NonZeroUsize::get);
    let report = tokio::select! {
        report = upgrade(cluster, count) => report,
        never = load => match never {},
    };
    println!("{}, {report}", cluster.chart.controller());
    if asked.is_some() {
        report.assert_short();
    }
}

async fn upgrade(cluster: &Cluster, count: usize) -> Report {
    let lease = LeaseLog::start(&cluster.control_plane, cluster.chart.controller());
    let mut deployment = Deployment {
        cluster,
        pods: Vec::new(),
        names: BTreeMap::new(),
    };
    for _ in 0..2 {
        deployment.add().await;
        // The first leads.
        deployment.holder().await;
    }
    let mut stops = Vec::new();
    for upgrade in 0..count {
        for name in deployment.order(upgrade % 2 == 0).await {
            deployment.add().await;
            stops.push(deployment.stop(upgrade, &name).await);
        }
    }
    let writes = deployment.writes_to_the_end().await;
    // The leader last: nobody must take over any more.
    for name in deployment.order(false).await {
        deployment.stop(count, &name).await;
    }
    let terms = terms(&lease.versions().await);
    Report::new(&handovers(&terms, &writes), &stops, &terms, &writes)
}

/// The running replicas.
struct Deployment<'a> {
    cluster: &'a Cluster,
    pods: Vec<Pod>,
    /// The names of all replicas ever started, by their tokens' names in the audit log.
    names: BTreeMap<String, String>,
}

struct Pod {
    /// The replica's identity in the election.
    name: String,
    replica: Replica,
}

impl Deployment<'_> {
    /// Starts a replica and waits until it is ready.
    async fn add(&mut self) {
        let Cluster {
            control_plane,
            chart,
            binary,
            ..
        } = self.cluster;
        let kubeconfig = chart.token(control_plane).await;
        let name = format!("replica-{}", self.names.len());
        self.names.insert(credential(&kubeconfig).await, name.clone());
        let identity = format!("--leader-elect-identity={name}");
        let replica = Replica::start(binary, &kubeconfig, &[&identity]);
        replica.until_ready().await;
        self.pods.push(Pod { name, replica });
    }

    /// The leader; waits until there is one.
    async fn holder(&self) -> String {
        let held = async || self.cluster.lease_holder().await;
        soon("somebody leads", held).await
    }

    /// The current replicas, in the order in which to stop them.
    async fn order(&self, leader_first: bool) -> Vec<String> {
        let leader = self.holder().await;
        let mut names: Vec<String> = self.pods.iter().map(|pod| pod.name.clone()).collect();
        names.sort_by_key(|name| (*name == leader) != leader_first);
        names
    }

    /// Ends a replica as the kubelet does, and waits for its exit.
    async fn stop(&mut self, upgrade: usize, name: &str) -> Stop {
        let led = self.holder().await == name;
        let at = self.pods.iter().position(|pod| pod.name == name).unwrap();
        let Pod { name, replica } = self.pods.remove(at);
        let clock = Clock::system();
        let asked = clock.now();
        assert_eq!(replica.stop().await, Some(0), "{name}");
        Stop {
            upgrade,
            name,
            led,
            asked,
            ended: clock.now(),
        }
    }

    /// All writes so far, up to at least the first one of the last leader.
    async fn writes_to_the_end(&self) -> Vec<Write> {
        let leader = self.holder().await;
        let written = async || {
            let writes = writes(&self.cluster.control_plane, &self.names);
            let last_has = writes.iter().any(|write| write.by == leader && write.accepted);
            last_has.then_some(writes)
        };
        soon("the last leader writes", written).await
    }
}
