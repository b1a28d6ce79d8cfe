//! kube-controller-manager's own loop next to ours (CORE-17).

use std::time::Duration;

use controller_core::time::saturating_add;
use local_control_plane::Process;

use crate::audit::is_work;
use crate::cluster::{Cluster, now, until_time};
use crate::long_or_short;
use crate::replica::soon;

/// How long both run at a time; in a short test less.
const BOTH_RUN: [Duration; 2] = [Duration::from_mins(2), Duration::from_secs(20)];

/// Write requests of our controller, without those of Leases and events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// All of them.
    pub all: usize,
    /// Those that changed nothing, because the other loop had written since the read.
    pub conflicts: usize,
}

impl Cluster {
    /// Starts the loop that ours replaces, and waits until its log says that it starts: `Starting` and `log`.
    pub async fn start_built_in(&self, log: &str) -> Process {
        let flags = ["--leader-elect=false"];
        // daemonset-controller makes the index of pods by node. The built-in taint eviction reads it, and without it leaves
        // the pods that it has seen before their node's taint.
        let controllers = [self.chart.controller(), "daemonset-controller"];
        let manager = self.control_plane.start_controller_manager(&controllers, &flags);
        let manager = manager.unwrap();
        let starting = format!("Starting{log}");
        let runs = async || manager.log().contains(&starting).then_some(());
        soon("the built-in loop starts", runs).await;
        manager
    }

    /// Lets both loops run for two minutes, in a short test for less; what ours has written since its start.
    pub async fn written_next_to_ours(&self) -> Written {
        let [long, short] = BOTH_RUN;
        let end = saturating_add(now(), long_or_short(long, short));
        until_time(end).await;
        let requests = self.requests();
        let mut written = Written::default();
        for asked in &requests {
            if is_work(&asked.verb, &asked.resource) {
                written.all += 1;
                written.conflicts += usize::from(asked.code == 409);
            }
        }
        written
    }
}
