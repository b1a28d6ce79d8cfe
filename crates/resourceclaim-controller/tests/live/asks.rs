//! What templates and pods may ask for apart from one device.

use serde_json::{Value, json};

use crate::support::{CLASS, Cluster, EXTENDED, Setup, made, made_from, pod, reserved_for, uid};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_an_administrator_looks_at_a_device_in_use() {
    let cluster = Cluster::with(Setup {
        devices: 1,
        ..Setup::PLAIN
    })
    .await;
    cluster.template().await;
    let request = json!({"name": "r", "exactly": {"deviceClassName": CLASS, "adminAccess": true}});
    cluster.template_of("admin", request).await;
    let controller = cluster.controller().await;
    cluster.pod("uses", &[made("gpu")]).await;
    cluster.until_running("uses").await;
    cluster.pod("looks", &[made_from("gpu", "admin")]).await;
    cluster.until_running("looks").await;
    let claim = cluster.claims_of("looks", 1).await["gpu"].clone();
    let allocated = cluster.get("ResourceClaim", &claim).await;
    assert_eq!(
        allocated["status"]["allocation"]["devices"]["results"][0]["adminAccess"],
        true
    );
    cluster.finish("looks").await;
    cluster.until_gone("ResourceClaim", &claim).await;
    cluster.kubelet.assert_sound();
    controller.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_the_first_of_a_list_that_can_be_had_is_given() {
    let cluster = Cluster::with(Setup {
        devices: 2,
        ..Setup::PLAIN
    })
    .await;
    let request = json!({"name": "r", "firstAvailable": [
        {"name": "many", "deviceClassName": CLASS, "allocationMode": "ExactCount", "count": 2},
        {"name": "one", "deviceClassName": CLASS},
    ]});
    cluster.template_of("list", request).await;
    cluster.template().await;
    let controller = cluster.controller().await;
    let given = async |pod: &str| {
        cluster.pod(pod, &[made_from("gpu", "list")]).await;
        cluster.until_running(pod).await;
        let claim = cluster.claims_of(pod, 1).await["gpu"].clone();
        let claim = cluster.get("ResourceClaim", &claim).await;
        let results = claim["status"]["allocation"]["devices"]["results"].clone();
        let results = results.as_array().unwrap().iter();
        let requests: Vec<Value> = results.map(|result| result["request"].clone()).collect();
        requests
    };
    assert_eq!(given("first").await, ["r/many", "r/many"]);
    cluster.finish("first").await;
    cluster.pod("between", &[made("gpu")]).await;
    cluster.until_running("between").await;
    assert_eq!(given("second").await, ["r/one"]);
    cluster.kubelet.assert_sound();
    controller.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_a_claim_for_extended_resources_is_given_back_like_any() {
    let cluster = Cluster::with(Setup {
        devices: 2,
        ..Setup::PLAIN
    })
    .await;
    let controller = cluster.controller().await;
    let asks = |name: &str| {
        let mut asking = pod(name, &[]);
        let two = json!({EXTENDED: "2"});
        asking["spec"]["containers"][0]["resources"] = json!({"requests": two, "limits": two});
        asking
    };
    for round in ["first", "second"] {
        let created = cluster.create(asks(round)).await;
        cluster.until_running(round).await;
        let running = cluster.get("Pod", round).await;
        let claim = running["status"]["extendedResourceClaimStatus"]["resourceClaimName"].clone();
        let claim = claim.as_str().unwrap();
        let allocated = cluster.get("ResourceClaim", claim).await;
        assert_eq!(reserved_for(&allocated), [uid(&created)]);
        cluster.kubelet.assert_sound();
        cluster.finish(round).await;
        cluster.until_gone("ResourceClaim", claim).await;
    }
    controller.stop().await;
}
