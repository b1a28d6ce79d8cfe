//! Claims made from templates.

use controller_testing::soon;
use serde_json::json;

use crate::support::{CLAIM_OF, Cluster, FINALIZER, TEMPLATE, made, reserved_for, uid};

const ENTRIES: [&str; 5] = ["a", "b", "c", "d", "e"];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_pods_get_as_many_claims_as_they_ask_for_and_give_them_back() {
    let cluster = Cluster::with_template().await;
    let controller = cluster.controller().await;
    for count in [1, 2, 5] {
        let name = format!("pod-{count}");
        let entries: Vec<_> = ENTRIES[..count].iter().map(|entry| made(entry)).collect();
        let pod = cluster.pod(&name, &entries).await;
        cluster.until_running(&name).await;
        let claims = cluster.claims_of(&name, count).await;
        assert_eq!(claims.keys().collect::<Vec<_>>(), ENTRIES[..count].to_vec());
        for (entry, claim) in &claims {
            assert!(claim.starts_with(&format!("{name}-{entry}-")), "{claim}");
            let claim = cluster.get("ResourceClaim", claim).await;
            let metadata = &claim["metadata"];
            assert_eq!(
                metadata["ownerReferences"],
                json!([{
                    "apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid(&pod), "controller": true,
                }])
            );
            assert_eq!(metadata["annotations"][CLAIM_OF], *entry);
            assert_eq!(metadata["annotations"]["from"], TEMPLATE);
            assert_eq!(metadata["labels"], json!({"from": TEMPLATE}));
            assert_eq!(metadata["finalizers"], json!([FINALIZER]));
            assert_eq!(reserved_for(&claim), [uid(&pod)]);
        }
    }
    assert_eq!(cluster.count_claims().await, 8);
    cluster.kubelet.assert_sound();

    for count in [1, 2, 5] {
        cluster.finish(&format!("pod-{count}")).await;
    }
    let none = async || cluster.all("ResourceClaim").await.is_empty().then_some(());
    soon("all claims are given back", none).await;
    controller.stop().await;
}
