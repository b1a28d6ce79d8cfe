//! A clock of ours that is an hour wrong, next to those of the API server and of who taints. The loop runs inside the
//! test, on the permissions of the service account: a binary has the machine's clock.

use controller_runtime::clock::Clock;
use controller_testing::{Start, soon};
use jiff::SignedDuration;
use taint_eviction_controller::TaintEvictionController;

use crate::support::{Cluster, Evicted, For, SOON, assert_prompt, now, seconds_after, whole};

/// How late a pod may go. By its own clock the controller would evict an hour early or late.
const LATE: SignedDuration = SignedDuration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_a_clock_that_is_an_hour_fast_or_slow_evicts_nobody_early() {
    const CLOCKS: [(&str, &str, i64); 2] = [
        ("fast-stamped", "fast-unstamped", 1),
        ("slow-stamped", "slow-unstamped", -1),
    ];
    let nodes = CLOCKS.map(|(stamped, unstamped, _)| [stamped, unstamped]);
    let cluster = Cluster::with_nodes::<4>(nodes.concat().try_into().unwrap()).await;
    for node in nodes.concat() {
        cluster.pods(3, node, node, For::Seconds(5)).await;
    }
    let mut expected = 0;
    for (stamped, unstamped, hours_ahead) in CLOCKS {
        let clock = Clock::starting_at(now() + SignedDuration::from_hours(hours_ahead));
        let controller = Start::of::<TaintEvictionController>().start(cluster.client().await, &clock);
        soon("the cache holds the pods", async || {
            (controller.metric("informer_objects") == 12).then_some(())
        })
        .await;

        let added = whole(now());
        cluster.taint_added(stamped, added).await;
        cluster.taint(unstamped).await;
        expected += 6;
        cluster.until_evicted(expected, SOON).await;
        let deleted = cluster.deleted_at(expected).await;
        let tainted = cluster.tainted_at(unstamped).await;
        assert_prompt(&deleted.lags(stamped, seconds_after(added, 5)), LATE);
        assert_prompt(&deleted.lags(unstamped, seconds_after(tainted, 5)), LATE);
        for node in [stamped, unstamped] {
            cluster.untaint(node).await;
        }
        controller.stop().await;
    }
}
