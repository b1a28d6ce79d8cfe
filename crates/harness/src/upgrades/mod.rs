//! Rolling upgrades of the two replicas of a controller, and how long nobody writes meanwhile.
//!
//! | file | holds |
//! |---|---|
//! | `evidence` | what the watch of the Lease and the audit log say |
//! | `handovers` | pure: who led when, and what one hand-over took |
//! | `report` | the figures of all upgrades, and their bars |
//!
//! An upgrade is that of a Deployment with two replicas, `maxSurge: 1` and `maxUnavailable: 0`: a new replica is
//! started, and when it is ready an old one gets SIGTERM; and once more. Which of the old ones goes first is the
//! Deployment's whim: here the leader in every other upgrade, the standby in the rest. Each replica has a token of
//! its own, as a pod has, by which the audit log tells their requests apart. Leases have their default times.

mod evidence;
mod handovers;
mod report;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::num::NonZeroUsize;

use controller_core::clock::Clock;

use crate::cluster::Cluster;
use crate::replica::{Replica, soon};
use evidence::{LeaseLog, Write, credential, writes};
use handovers::{Stop, handovers, terms};
use report::Report;

/// How many upgrades a run of the tests makes.
const UPGRADES: usize = 2;
/// Asks for another number, and for the bars to be judged: on a machine with much else to do they say little.
const VARIABLE: &str = "UPGRADES";

/// Upgrades the controller under a load that has it write all the time. Prints what that took.
///
/// Fails when a replica writes while it does not hold the Lease, when a leader that is stopped does not give it up,
/// and, where `$UPGRADES` is set, when nobody writes for too long.
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
    // The leader last: nobody is to take over any more.
    for name in deployment.order(false).await {
        deployment.stop(count, &name).await;
    }
    let terms = terms(&lease.versions().await);
    Report::new(&handovers(&terms, &writes), &stops, &terms, &writes)
}

/// The replicas that run.
struct Deployment<'a> {
    cluster: &'a Cluster,
    pods: Vec<Pod>,
    /// Of all that were ever started, by their tokens' names in the audit log.
    names: BTreeMap<String, String>,
}

struct Pod {
    /// Its identity in the election.
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

    /// Who leads; waits while nobody does.
    async fn holder(&self) -> String {
        let held = async || self.cluster.lease_holder().await;
        soon("somebody leads", held).await
    }

    /// The replicas of now, in the order in which they are to be stopped.
    async fn order(&self, leader_first: bool) -> Vec<String> {
        let leader = self.holder().await;
        let mut names: Vec<String> = self.pods.iter().map(|pod| pod.name.clone()).collect();
        names.sort_by_key(|name| (*name == leader) != leader_first);
        names
    }

    /// Ends a replica as the kubelet does, and waits for that.
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

    /// All writes, the first one of the last leader among them.
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
