//! The rights of the README.

use harness::audit::{Asked, requests_of};
use serde_json::json;
use testkit::real::eventually;

use crate::support::{Cluster, NAME, SOON, numbers, until_ready};

const RIGHTS: [(&str, &str); 23] = [
    ("list", "pods"),
    ("watch", "pods"),
    ("list", "replicationcontrollers"),
    ("watch", "replicationcontrollers"),
    ("list", "replicasets"),
    ("watch", "replicasets"),
    ("list", "deployments"),
    ("watch", "deployments"),
    ("list", "statefulsets"),
    ("watch", "statefulsets"),
    ("list", "poddisruptionbudgets"),
    ("watch", "poddisruptionbudgets"),
    ("get", "*/scale"),
    ("patch", "poddisruptionbudgets/status"),
    ("patch", "pods/status"),
    ("create", "events"),
    ("patch", "events"),
    ("create", "leases"),
    ("get", "leases"),
    ("update", "leases"),
    ("list", "leases"),
    ("watch", "leases"),
    // Discovery, which every account may read.
    ("get", ""),
];

fn uses(asked: &Asked, (verb, resource): (&str, &str)) -> bool {
    let same = match resource.strip_prefix('*') {
        Some(subresource) => asked.resource.ends_with(subresource),
        None => asked.resource == resource,
    };
    asked.verb == verb && same
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_the_rights_of_the_readme_are_enough_and_none_is_unused() {
    let cluster = Cluster::new().await;
    cluster.define("Widget", true).await;
    let widget = cluster.custom("Widget", "web", 3).await;
    let set = cluster.workload("ReplicaSet", "web", 2, None).await;
    cluster.pod("web", "web-0", Some(&widget)).await;
    cluster.pod("web", "web-1", Some(&set)).await;
    cluster.pod("web", "naked", None).await;
    let stale = json!([
        {"type": "Ready", "status": "True"},
        {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
    ]);
    cluster
        .merge_status("Pod", "naked", json!({"conditions": stale}))
        .await;
    cluster.pdb("web", "maxUnavailable", json!(4)).await;
    let replica = cluster.start_leading(&[]).await;
    // It watches the lease.
    let standby = cluster.start(&[]);
    until_ready(&standby).await;
    cluster.until("web", numbers(2, 3, 1, 5)).await;
    // The same event again, soon: a series.
    for _ in 0..2 {
        cluster.relabel("naked", "none").await;
        cluster.until("web", numbers(1, 2, 1, 5)).await;
        cluster.relabel("naked", "web").await;
        cluster.until("web", numbers(2, 3, 1, 5)).await;
    }
    let explained = cluster.explain("web").await;
    assert!(explained.contains("default/web"), "{explained}");

    let asked = || requests_of(&cluster.control_plane, NAME);
    let unused = || {
        let asked = asked();
        let rights = RIGHTS.into_iter();
        rights
            .filter(|right| !asked.iter().any(|asked| uses(asked, *right)))
            .collect::<Vec<_>>()
    };
    let in_time = eventually(SOON, "every right is used", async || {
        unused().is_empty().then_some(())
    })
    .await;
    assert!(in_time.is_ok(), "not used: {:?}", unused());
    assert_eq!(replica.stop().await, Some(0));
    assert_eq!(standby.stop().await, Some(0));

    let asked = asked();
    let refused: Vec<&Asked> = asked.iter().filter(|asked| asked.code == 403).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    let beyond: Vec<&Asked> = asked
        .iter()
        .filter(|asked| !RIGHTS.into_iter().any(|right| uses(asked, right)))
        .collect();
    assert!(beyond.is_empty(), "{beyond:#?}");
}
