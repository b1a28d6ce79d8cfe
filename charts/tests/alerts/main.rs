//! The alerts of the charts on the metrics of real runs. Each controller works for an hour on the embedded API server,
//! under paused time, and `promtool test rules` says which of its alerts fired. In a healthy hour none fires, nor for a
//! dry run next to a loop that works. Half an hour with a fault fires exactly the alerts for that fault. The queries of
//! the dashboards return results.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail by panicking"
)]

mod cluster;
mod dashboards;
mod disruption;
mod faults;
mod hour;
mod promtool;
mod recording;
mod resourceclaim;
mod rules;
mod taint_eviction;
mod ttl;
mod ttl_after_finished;

use std::collections::BTreeSet;

use cluster::{Cluster, Controller};
use faults::Fault;
use promtool::assert_fired;
use rules::alerts;

/// An hour with fewer writes would prove little.
const FEWEST_WRITES: usize = 60;

/// The tests of each controller: `<controller>::<test>`.
macro_rules! hours {
    ($($controller:ident),* $(,)?) => {
        const CONTROLLERS: [&Controller; xtask::CONTROLLERS.len()] = [$(&$controller::CONTROLLER),*];

        mod hours {
            $(mod $controller {
                use crate::$controller::CONTROLLER;

                #[tokio::test(start_paused = true)]
                async fn no_alert_fires_in_a_healthy_hour() {
                    crate::no_alert_fires_in_a_healthy_hour(&CONTROLLER).await;
                }

                #[tokio::test(start_paused = true)]
                async fn no_alert_fires_for_a_dry_run_next_to_a_loop_that_works() {
                    crate::no_alert_fires_for_a_dry_run_next_to_a_loop_that_works(&CONTROLLER).await;
                }

                #[tokio::test(start_paused = true)]
                async fn a_fault_fires_the_alerts_for_it() {
                    crate::a_fault_fires_the_alerts_for_it(&CONTROLLER, CONTROLLER.faults).await;
                }
            })*
        }
    };
}
hours![disruption, resourceclaim, taint_eviction, ttl_after_finished, ttl];

async fn no_alert_fires_in_a_healthy_hour(controller: &'static Controller) {
    let mut cluster = Cluster::of(controller).await;
    hour::healthy(&mut cluster).await;
    assert!(
        cluster.writes() > FEWEST_WRITES,
        "{} writes in the hour",
        cluster.writes()
    );
    assert_fired(&cluster, "a healthy hour", &[]);
}

async fn no_alert_fires_for_a_dry_run_next_to_a_loop_that_works(controller: &'static Controller) {
    let mut cluster = Cluster::of(controller).await;
    // The replicas that write are no longer scraped: they play the built-in loop.
    let built_in = std::mem::take(&mut cluster.replicas);
    cluster.start_as(controller.start_dry);
    cluster.pass(57).await;
    let planned = cluster.replicas[0]
        .process
        .metric("controller_planned_writes_total");
    assert!(planned > 0, "nothing was planned");
    assert_fired(&cluster, "a dry run next to the built-in loop", &[]);
    drop(built_in);
}

async fn a_fault_fires_the_alerts_for_it(controller: &'static Controller, faults: &[Fault]) {
    for fault in faults {
        let mut cluster = Cluster::of(controller).await;
        hour::with(&mut cluster, fault).await;
        assert_fired(&cluster, fault.name, fault.told_by);
    }
}

/// With the controller that has the least work.
#[tokio::test(start_paused = true)]
async fn a_fault_of_every_controller_fires_the_alerts_for_it() {
    a_fault_fires_the_alerts_for_it(&ttl::CONTROLLER, faults::SHARED).await;
}

#[test]
fn every_alert_has_a_fault_that_it_tells() {
    assert_eq!(CONTROLLERS.map(|controller| controller.name), xtask::CONTROLLERS);
    let told = |faults: &[Fault]| -> BTreeSet<_> {
        let alerts = faults.iter().flat_map(|fault| fault.told_by);
        alerts.map(|alert| (*alert).to_owned()).collect()
    };
    for controller in CONTROLLERS {
        let told = &told(controller.faults) | &told(faults::SHARED);
        let untold: Vec<_> = alerts(controller.name)
            .into_iter()
            .filter(|alert| !told.contains(alert))
            .collect();
        assert!(untold.is_empty(), "{}: no fault for {untold:?}", controller.name);
    }
}
