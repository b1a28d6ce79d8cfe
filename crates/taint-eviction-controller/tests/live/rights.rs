//! The rights of the README.

use harness::audit::Asked;
use testkit::real::eventually;

use crate::support::{Cluster, For, SOON, now, until_knowing, until_pending, whole};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_the_rights_of_the_readme_are_enough_and_none_is_unused() {
    let cluster = Cluster::with_nodes(["n"]).await;
    cluster.pods(1, "goes", "n", For::No).await;
    cluster.pods(1, "stays", "n", For::Seconds(300)).await;
    let replica = cluster.start_leading(2, &[]).await;
    // It watches the lease.
    let standby = cluster.start(&[]);
    until_knowing(&standby, 2).await;

    // Spared twice for the same reason: one event, and a patch of it.
    let tainted = whole(now());
    for _ in 0..2 {
        cluster.taint_added("n", tainted).await;
        cluster.until_evicted(1, SOON).await;
        until_pending(&replica, 1, SOON).await;
        cluster.untaint("n").await;
        until_pending(&replica, 0, SOON).await;
    }
    let explained = cluster.explain("stays-0").await;
    assert!(explained.contains("default/stays-0"), "{explained}");

    let rights = [
        ("get", "nodes"),
        ("list", "nodes"),
        ("watch", "nodes"),
        ("get", "pods"),
        ("list", "pods"),
        ("watch", "pods"),
        ("delete", "pods"),
        ("patch", "pods/status"),
        ("create", "leases"),
        ("get", "leases"),
        ("update", "leases"),
        ("list", "leases"),
        ("watch", "leases"),
        ("create", "events"),
        ("patch", "events"),
    ];
    let unused = || {
        let requests = cluster.requests();
        let used = |(verb, resource): &(&str, &str)| requests.iter().any(|asked| asked.is(verb, resource));
        rights
            .into_iter()
            .filter(|right| !used(right))
            .collect::<Vec<_>>()
    };
    let in_time = eventually(SOON, "every right is used", async || {
        unused().is_empty().then_some(())
    })
    .await;
    assert!(in_time.is_ok(), "not used: {:?}", unused());
    assert_eq!(replica.stop().await, Some(0));
    assert_eq!(standby.stop().await, Some(0));

    let requests = cluster.requests();
    let refused: Vec<&Asked> = requests.iter().filter(|asked| asked.code == 403).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    let beyond = requests
        .iter()
        .filter(|asked| !rights.contains(&(&*asked.verb, &*asked.resource)));
    assert_eq!(
        beyond
            .map(|asked| format!("{} {}", asked.verb, asked.resource))
            .collect::<Vec<_>>(),
        Vec::<String>::new()
    );
}
