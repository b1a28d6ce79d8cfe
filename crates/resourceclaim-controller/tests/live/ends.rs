//! Every way in which a pod ends.

use serde_json::{Value, json};

use crate::support::{Cluster, Setup, made, named, pod, uid};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_a_claim_goes_with_its_pod_however_that_ends() {
    let cluster = Cluster::with_template().await;
    let controller = cluster.controller().await;
    let names = ["succeeds", "fails", "deleted", "forced"];
    let mut claims = Vec::new();
    for name in names {
        cluster.pod(name, &[made("gpu")]).await;
    }
    for name in names {
        cluster.until_running(name).await;
        claims.push(cluster.claims_of(name, 1).await["gpu"].clone());
    }
    cluster.finish("succeeds").await;
    cluster
        .merge_status("Pod", "fails", json!({"phase": "Failed"}))
        .await;
    cluster.delete("Pod", "deleted").await;
    cluster.force_delete("Pod", "forced").await;
    for claim in claims {
        cluster.until_gone("ResourceClaim", &claim).await;
    }
    for name in ["succeeds", "fails"] {
        assert_eq!(
            cluster.claims_of(name, 1).await.len(),
            1,
            "the pod keeps its record"
        );
    }
    cluster.kubelet.assert_sound();
    controller.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_a_pod_deleted_before_it_is_placed_leaves_nothing() {
    let cluster = Cluster::with(Setup {
        devices: 1,
        ..Setup::PLAIN
    })
    .await;
    cluster.template().await;
    let controller = cluster.controller().await;
    // Only one of the two claims can be had, so the pod is never placed.
    cluster.pod("waits", &[made("a"), made("b")]).await;
    let claims = cluster.claims_of("waits", 2).await;
    cluster.delete("Pod", "waits").await;
    for claim in claims.values() {
        cluster.until_gone("ResourceClaim", claim).await;
    }
    // The device is free.
    cluster.pod("next", &[made("gpu")]).await;
    cluster.until_running("next").await;
    controller.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_a_pod_of_the_same_name_gets_a_claim_of_its_own() {
    let cluster = Cluster::with_template().await;
    cluster.claim("shared").await;
    let entries = [made("gpu"), named("user", "shared")];
    let controller = cluster.controller().await;
    cluster.pod("again", &entries).await;
    let mut seen: Vec<(String, Value)> = Vec::new();
    for round in 0..3 {
        cluster.until_running("again").await;
        let made = cluster.claims_of("again", 1).await["gpu"].clone();
        let claim = cluster.get("ResourceClaim", &made).await;
        let pod_now = cluster.get("Pod", "again").await;
        assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], uid(&pod_now));
        for (name, before) in &seen {
            assert_ne!(uid(&claim), uid(before));
            assert_ne!(made, *name, "a kubelet refuses another claim of the same name");
        }
        seen.push((made, claim));
        // Once with grace and twice without: the next one comes in the same moment.
        if round == 0 {
            cluster.delete("Pod", "again").await;
            cluster.until_gone("Pod", "again").await;
        } else {
            cluster.force_delete("Pod", "again").await;
        }
        cluster.create(pod("again", &entries)).await;
    }
    cluster.until_running("again").await;
    for (name, _) in &seen {
        cluster.until_gone("ResourceClaim", name).await;
    }
    cluster.kubelet.assert_sound();
    controller.stop().await;
}
