//! What is missing for a time: a claim that somebody deletes, a template that comes late.

use std::time::Duration;

use controller_runtime::clock::Clock;
use controller_testing::soon;
use local_control_plane::eventually;
use serde_json::json;

use crate::support::{Cluster, claims_of, made, made_from, pod, uid};

/// How long a template is missing: long enough for retries that come ever more seldom.
const LATE: Duration = Duration::from_secs(25);
/// Within which a pod has its claim once its template is there. By the retry alone it would take up to [`LATE`].
const AT_ONCE: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_a_deleted_claim_is_made_again_and_the_others_stay() {
    let cluster = Cluster::with_template().await;
    let controller = cluster.controller().await;
    // Gated, so that no claim is allocated and held by its finalizer.
    let mut gated = pod("gated", &["a", "b", "c"].map(made));
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    cluster.create(gated).await;
    let before = cluster.claims_of("gated", 3).await;
    cluster.delete("ResourceClaim", &before["b"]).await;
    let renewed = cluster
        .until_is("Pod", "gated", "it has another claim", |pod| {
            claims_of(pod).get("b").is_some_and(|claim| *claim != before["b"])
        })
        .await;
    let after = claims_of(&renewed);
    assert_eq!(after.len(), 3, "{after:?}");
    assert_eq!((&after["a"], &after["c"]), (&before["a"], &before["c"]));
    let claim = cluster.get("ResourceClaim", &after["b"]).await;
    assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], uid(&renewed));
    cluster
        .merge("Pod", "gated", json!({"spec": {"schedulingGates": null}}))
        .await;
    cluster.until_running("gated").await;
    assert_eq!(cluster.count_claims().await, 3);
    controller.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_a_deleted_claim_in_use_stays_until_its_pod_is_done() {
    let cluster = Cluster::with_template().await;
    let controller = cluster.controller().await;
    cluster.pod("runs", &["a", "b"].map(made)).await;
    cluster.until_running("runs").await;
    let claims = cluster.claims_of("runs", 2).await;
    cluster.delete("ResourceClaim", &claims["a"]).await;
    let going = cluster.get("ResourceClaim", &claims["a"]).await;
    assert!(going["metadata"]["deletionTimestamp"].is_string());
    assert!(!going["status"]["allocation"].is_null());
    assert_eq!(cluster.claims_of("runs", 2).await, claims);
    cluster.finish("runs").await;
    for claim in claims.values() {
        cluster.until_gone("ResourceClaim", claim).await;
    }
    cluster.kubelet.assert_sound();
    controller.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_a_pod_whose_template_comes_late_gets_its_claim_at_once() {
    let cluster = Cluster::with_template().await;
    let controller = cluster.controller().await;
    cluster
        .pod("early", &[made("there"), made_from("late", "late")])
        .await;
    // One entry that fails does not stop the other.
    cluster.claims_of("early", 1).await;
    let told = async || {
        let events = cluster.all("Event").await;
        let is_told = |event: &serde_json::Value| event["reason"] == "FailedResourceClaimCreation";
        events.into_iter().find(is_told)
    };
    let event = soon("an event says so", told).await;
    assert_eq!(
        (&event["type"], &event["regarding"]["name"]),
        (&json!("Warning"), &json!("early"))
    );
    Clock::system().sleep(LATE).await;
    cluster
        .template_of(
            "late",
            json!({"name": "r", "exactly": {"deviceClassName": "gpu"}}),
        )
        .await;
    let made = async || (claims_of(&cluster.get("Pod", "early").await).len() == 2).then_some(());
    eventually(AT_ONCE, "the late claim is made", made).await.unwrap();
    cluster.until_running("early").await;
    controller.stop().await;
}
