//! Rolling upgrades of two replicas while pods of a hundred budgets turn ready and unready.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use controller_runtime::clock::Clock;
use controller_testing::upgrades;
use futures::{StreamExt, stream};
use serde_json::json;

use crate::actors::is_ready;
use crate::budget::numbers;
use crate::support::{Budgets, Cluster};

const BUDGETS: usize = 100;
/// Between two pods that change, each of which makes a status change.
const PACE: Duration = Duration::from_millis(25);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_rolling_upgrades_hand_over_without_a_write_by_two() {
    let cluster = Cluster::new().await;
    stream::iter(0..BUDGETS)
        .for_each_concurrent(8, async |number| {
            let app = app(number);
            cluster.pdb(&app, "minAvailable", json!(1)).await;
            cluster.some_pods(&app, 2, None).await;
        })
        .await;
    upgrades::assert_handed_over(&cluster, restless(&cluster)).await;

    let last = cluster.start_leading(&[]).await;
    for (app, ready) in ready_pods(&cluster).await {
        cluster.until(&app, numbers(ready - 1, ready, 1, 2)).await;
    }
    assert_eq!(last.stop().await, Some(0));
}

/// Has the first pod of one budget after the other change, for ever.
async fn restless(cluster: &Cluster) -> Infallible {
    let clock = Clock::system();
    let mut ready = true;
    loop {
        ready = !ready;
        for number in 0..BUDGETS {
            cluster.ready(&first_pod(&app(number)), ready).await;
            clock.sleep(PACE).await;
        }
    }
}

/// How many pods of each budget are ready.
async fn ready_pods(cluster: &Cluster) -> BTreeMap<String, i64> {
    let mut ready = BTreeMap::new();
    for number in 0..BUDGETS {
        let app = app(number);
        let first = cluster.pod_api().get(&first_pod(&app)).await.unwrap();
        ready.insert(app, 1 + i64::from(is_ready(&first)));
    }
    ready
}

fn app(number: usize) -> String {
    format!("app{number}")
}

fn first_pod(app: &str) -> String {
    format!("{app}-0")
}
