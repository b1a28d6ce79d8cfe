//! kube-controller-manager's own loop next to ours (CORE-17).

use std::time::Duration;

use controller_core::clock::saturating_add;
use testkit::real::Process;

use crate::audit::is_work;
use crate::cluster::{Cluster, now, until_time};
use crate::long_or_short;
use crate::replica::soon;

/// How long both loops run side by side: in a long and in a short test.
const BESIDE: [Duration; 2] = [Duration::from_mins(2), Duration::from_secs(20)];

impl Cluster {
    /// Starts the loop that ours replaces, and waits until its log reports the start: `Starting` and `log`.
    pub async fn start_built_in(&self, log: &str) -> Process {
        let flags = ["--leader-elect=false"];
        let manager = self
            .control_plane
            .start_controller_manager(&[self.chart.controller()], &flags);
        let manager = manager.unwrap();
        let starting = format!("Starting{log}");
        let runs = async || manager.log().contains(&starting).then_some(());
        soon("the built-in loop starts", runs).await;
        manager
    }

    /// Runs both loops for two minutes, less in a short test; returns the number of our writes since the start, without
    /// Leases and events.
    pub async fn written_beside(&self) -> usize {
        let [long, short] = BESIDE;
        let end = saturating_add(now(), long_or_short(long, short));
        until_time(end).await;
        let requests = self.requests();
        let writes = requests
            .iter()
            .filter(|asked| is_work(&asked.verb, &asked.resource));
        writes.count()
    }
}
