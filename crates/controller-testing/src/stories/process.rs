//! The process of a story: a controller inside the test, or its binary.

use crate::process::Running;
use crate::replica::{Replica, SOON, soon};
use crate::scrape::sum_of;

/// A running controller; dropping it kills the process.
pub enum StoryProcess {
    Inside(Running),
    Binary(Replica),
}

impl StoryProcess {
    /// The sum of an integer metric over the series whose labels contain `labels`; 0 if there is none.
    pub async fn metric(&self, name: &str, labels: &str) -> u64 {
        match self {
            Self::Inside(running) => sum_of(&running.scrape(), name, labels),
            Self::Binary(replica) => replica.metric(name, labels).await,
        }
    }

    /// The sum of an integer metric over all its series.
    pub async fn total(&self, name: &str) -> u64 {
        self.metric(name, "").await
    }

    /// Waits until this [`metric`](Self::metric) is `wanted`.
    pub async fn until_metric(&self, name: &str, labels: &str, wanted: u64) {
        let what = format!("{name} is {wanted}");
        let is = async || (self.metric(name, labels).await == wanted).then_some(());
        soon(&what, is).await;
    }

    /// Returns whether the process holds its Lease.
    pub async fn leads(&self) -> bool {
        self.total("leader_election_master_status").await == 1
    }

    /// Waits until the process holds its Lease.
    pub async fn until_leading(&self) {
        soon("the process leads", async || self.leads().await.then_some(())).await;
    }

    /// Ends the process as SIGTERM does.
    pub async fn stop(self) {
        match self {
            Self::Inside(running) => running.stop().await,
            Self::Binary(replica) => assert_eq!(replica.stop().await, Some(0)),
        }
    }

    /// Waits until the process has ended by itself, without an error.
    pub async fn end(self) {
        match self {
            Self::Inside(running) => running.end().await,
            Self::Binary(mut replica) => {
                let ended = replica.process.wait_exit(SOON).await.unwrap();
                assert_eq!(ended.code(), Some(0), "{}", replica.process.log());
            }
        }
    }
}
