//! Deletes that the API server refuses: for want of a right in one namespace, by admission in the other.

use std::time::Duration;

use serde_json::json;

use crate::support::{Cluster, DELETIONS, Evicted, For, NAMESPACE, OVERDUE, now, seconds_after, until};

/// Where a `ValidatingAdmissionPolicy` keeps all pods: it refuses as a webhook does, and needs no server.
const KEPT: &str = "kept";
/// For how many seconds.
const REFUSED_FOR: u64 = 60;
/// Within which all is done once the deletes are let through.
const MADE_UP_WITHIN: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_deletes_that_are_refused_for_a_minute_are_made_up_for_within_ten_seconds() {
    let cluster = Cluster::with_nodes(["n"]).await;
    cluster.namespace(KEPT).await;
    let delete = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]}]);
    cluster.grant_in(KEPT, delete).await;
    for namespace in [NAMESPACE, KEPT] {
        cluster.pods_in(namespace, 50, "p", "n", For::No).await;
    }
    let replica = cluster.start_leading(&[]).await;
    cluster.let_delete(false).await;
    cluster.keep(KEPT).await;

    cluster.taint("n").await;
    let began = now();
    replica.until_metric(OVERDUE, "", 100).await;
    while now() < seconds_after(began, REFUSED_FOR) {
        until(seconds_after(now(), 1)).await;
        assert_eq!(replica.total(OVERDUE).await, 100);
    }
    assert_eq!(cluster.deleting("Pod").await, 0);
    let requests = cluster.requests();
    let refused = requests
        .iter()
        .filter(|asked| asked.is("delete", "pods") && (asked.code == 403 || asked.code == 422));
    assert!(refused.count() >= 200, "each is tried again and again");
    for namespace in [NAMESPACE, KEPT] {
        let events = cluster.described(namespace, "p-0").await;
        let warnings = events
            .iter()
            .filter(|event| event.starts_with("Warning FailedEviction "));
        assert_eq!(warnings.count(), 1, "{events:#?}");
    }

    cluster.allow_deletes(KEPT, "Pod", "p-0").await;
    cluster.let_delete(true).await;
    cluster.until_evicted(100, MADE_UP_WITHIN).await;
    replica.until_metric(OVERDUE, "", 0).await;
    replica.until_metric(DELETIONS, "", 100).await;
    let requests = cluster.requests();
    let marks = requests.iter().filter(|asked| asked.is("patch", "pods/status"));
    assert_eq!(marks.count(), 100);
    assert_eq!(replica.stop().await, Some(0));
}
