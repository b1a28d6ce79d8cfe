//! The built-in loop running next to ours (CORE-17).

use controller_testing::soon;

use crate::support::{Cluster, Finish, Jobs};

const JOBS: usize = 50;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_the_built_in_loop_next_to_ours_starts_no_war() {
    let cluster = Cluster::new().await;
    let replica = cluster.start_leading(&[]).await;
    let _built_in = cluster.start_built_in(" TTL after finished controller").await;
    cluster.finished_jobs("job", JOBS).await;
    cluster.job("kept", Some(3600)).await;
    cluster.finish("kept", Finish::Complete, 0).await;
    let gone = async || (cluster.deleting("Job").await == JOBS).then_some(());
    soon("the Jobs are deleted", gone).await;

    // A delete of each at most: the loop that comes second leaves it, or is refused and looks again.
    let written = cluster.written_next_to_ours().await;
    assert!(written.all - written.conflicts <= JOBS, "{written:?}");
    assert!(written.conflicts <= JOBS, "{written:?}");
    assert_eq!(cluster.deleting("Job").await, JOBS);
    assert_eq!(replica.stop().await, Some(0));
}
