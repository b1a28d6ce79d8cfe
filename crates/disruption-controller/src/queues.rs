//! What is worked on, and the queues that hold it.

use std::fmt;

use controller_core::meta::ObjectKey;
use controller_core::workers::Lane;
use controller_core::workqueue::WorkQueue;

/// What is worked on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A budget is to be computed.
    Budget(ObjectKey),
    /// A budget is to be computed because its time has come.
    Recheck(ObjectKey),
    /// A pod's condition is stale.
    StalePod(ObjectKey),
}

/// The queues, the most urgent first.
#[derive(Clone, Debug)]
pub struct Queues {
    /// `disruption`.
    pub budgets: WorkQueue<Key>,
    /// `disruption_recheck`.
    pub rechecks: WorkQueue<Key>,
    /// `stale_pod_disruption`.
    pub stale_pods: WorkQueue<Key>,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Budget(key) | Self::Recheck(key) | Self::StalePod(key)) = self;
        key.fmt(f)
    }
}

impl Queues {
    /// The queues of each of `workers` workers, which are the same for all.
    pub fn lanes(&self, workers: usize) -> Vec<Lane<Key>> {
        let queues = vec![
            self.budgets.clone(),
            self.rechecks.clone(),
            self.stale_pods.clone(),
        ];
        vec![Lane(queues); workers]
    }
}
