//! A cluster of bare nodes, next to our binary as a process.

use std::ops::Range;

pub(crate) use controller_testing::{QUICK_LEASE, Replica, SOON};

pub(crate) use crate::stories::{Nodes, TTL, name};

controller_testing::cluster!("ttl-controller");

impl Cluster {
    /// With the nodes numbered `numbers`.
    pub(crate) async fn with_nodes(numbers: Range<usize>, ttl: Option<&str>) -> Self {
        let cluster = Self::new().await;
        cluster.add(numbers, ttl).await;
        cluster
    }
}
