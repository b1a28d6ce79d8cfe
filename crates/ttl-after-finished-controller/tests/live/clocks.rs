//! A clock of ours that is an hour wrong, next to those of the API server and of who finished the Job. The loop runs
//! inside the test, on the permissions of the service account: a binary has the machine's clock.

use controller_runtime::clock::Clock;
use controller_testing::Start;
use jiff::SignedDuration;
use ttl_after_finished_controller::TtlAfterFinishedController;

use crate::support::{Cluster, Finish, Jobs};

const HOUR: SignedDuration = SignedDuration::from_hours(1);
const TTL: SignedDuration = SignedDuration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_a_clock_that_is_an_hour_fast_or_slow_deletes_nothing_early() {
    let cluster = Cluster::new().await;
    // To the slow clock a Job that finished an hour ago has finished just now, and one that finished just now waits.
    cluster.job("ahead", Some(5)).await;
    cluster.finish("ahead", Finish::Complete, 0).await;
    for (name, ahead, finished_ago) in [("slow", -HOUR, HOUR.as_secs()), ("fast", HOUR, 0)] {
        let clock = Clock::starting_at(Clock::system().now() + ahead);
        let client = cluster.client().await;
        let controller = Start::of::<TtlAfterFinishedController>().start(client, &clock);
        cluster.job(name, Some(5)).await;
        let finish = cluster.finish(name, Finish::Complete, finished_ago).await;
        let expiry = finish + SignedDuration::from_secs(finished_ago) + TTL;
        cluster.until_deleted_at(name, expiry).await;
        if name == "slow" {
            assert_eq!(cluster.deleted("ahead").await, None);
        }
        controller.stop().await;
    }
}
