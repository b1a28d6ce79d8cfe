//! The permissions that the chart gives.
//!
//! `resourceclaims/binding` is unlike the others: the API server asks for it at the cluster's scope within a write of the
//! status, so only a `ClusterRoleBinding` grants it, and who lacks it gets no 403 but a 422 with a cause on
//! `status.allocation`.

use controller_testing::soon;
use serde_json::{Value, json};

use crate::support::{
    CLASS, Cluster, GROUPS, NODE, Setup, claims_of, made, made_from, named, pod, reserved_for,
    rules_without_binding, uid,
};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_the_permissions_of_the_chart_are_enough_and_none_is_unused() {
    use_all_permissions(Setup::PLAIN).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_without_granular_authorization_nobody_asks_for_the_right_to_bind() {
    use_all_permissions(Setup {
        granular: false,
        ..Setup::PLAIN
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_the_permissions_to_groups_are_enough_and_none_is_unused() {
    use_all_permissions(Setup {
        groups: true,
        ..Setup::PLAIN
    })
    .await;
}

async fn use_all_permissions(setup: Setup) {
    let cluster = Cluster::with(setup).await;
    cluster.template().await;
    cluster.claim("shared").await;
    let flags: &[&str] = if setup.groups { &[GROUPS] } else { &[] };
    let replica = cluster.start_leading(flags).await;
    // It watches the lease.
    let standby = cluster.start(flags);
    reserve_and_release(&cluster).await;
    // Consumers that no cache has: they are asked for.
    reserve_for_nobody(&cluster, json!({"resource": "pods"})).await;
    if setup.groups {
        let kind = json!({"apiGroup": "scheduling.k8s.io", "resource": "podgroups"});
        reserve_for_nobody(&cluster, kind).await;
        make_for_a_group(&cluster).await;
    }
    // The same twice, soon: one event, and a patch of it.
    fail_twice(&cluster).await;
    let pod = cluster.explain("late").await;
    assert!(pod.contains("late"), "{pod}");
    let claim = cluster.explain("shared").await;
    assert!(claim.contains("shared"), "{claim}");

    cluster.until_all_used().await;
    assert_eq!(replica.stop().await, Some(0));
    assert_eq!(standby.stop().await, Some(0));
    // Without the right to bind a write is invalid, as if the claim were at fault.
    let mut refused = cluster.requests();
    refused.retain(|asked| [403, 422].contains(&asked.code));
    assert_eq!(refused, []);
    assert_eq!(cluster.beyond(), []);
}

/// Claims are made, reserved by us for a pod that no scheduler placed, and given back.
async fn reserve_and_release(cluster: &Cluster) {
    cluster
        .pod("placed", &[made("gpu"), named("user", "shared")])
        .await;
    cluster.until_running("placed").await;
    cluster.create(direct("direct")).await;
    cluster.until_running("direct").await;
    let claim = cluster.claims_of("placed", 1).await["gpu"].clone();
    for pod in ["placed", "direct"] {
        cluster.finish(pod).await;
    }
    cluster.until_gone("ResourceClaim", &claim).await;
}

/// A pod that is on its node from the start.
fn direct(name: &str) -> Value {
    let mut direct = pod(name, &[named("user", "shared")]);
    direct["spec"]["nodeName"] = json!(NODE);
    direct
}

/// A claim is reserved for a consumer of this kind that is not there.
async fn reserve_for_nobody(cluster: &Cluster, mut ghost: Value) {
    let name = format!("forgotten-by-{}", ghost["resource"].as_str().unwrap());
    cluster.claim(&name).await;
    // Its own uid: of one that is known to be gone nobody asks again.
    for field in ["name", "uid"] {
        ghost[field] = json!(name);
    }
    let result = json!({"request": "r", "driver": "gpu.example.com", "pool": NODE, "device": "gpu-15"});
    let status = json!({"allocation": {"devices": {"results": [result]}}, "reservedFor": [ghost]});
    cluster.merge_status("ResourceClaim", &name, status).await;
    let freed = |claim: &Value| reserved_for(claim).is_empty();
    cluster
        .until_is("ResourceClaim", &name, "it is free", freed)
        .await;
}

async fn make_for_a_group(cluster: &Cluster) {
    let group = json!({
        "kind": "PodGroup", "metadata": {"name": "gang"},
        "spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": [made("gpu")]},
    });
    cluster.create(group).await;
    let told = |group: &Value| claims_of(group).len() == 1;
    cluster.until_is("PodGroup", "gang", "it has a claim", told).await;
}

/// A template is missing, comes, and is missing again.
async fn fail_twice(cluster: &Cluster) {
    let mut gated = pod("late", &[made_from("gpu", "late")]);
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    cluster.create(gated).await;
    let times = async |wanted: u64| {
        let told = async || {
            let events = cluster.all("Event").await;
            let event = events.into_iter().find(|event| {
                event["reason"] == "FailedResourceClaimCreation" && event["regarding"]["name"] == "late"
            })?;
            let count = event["series"]["count"].as_u64().unwrap_or(1);
            (count >= wanted).then_some(())
        };
        soon("the event", told).await;
    };
    times(1).await;
    let request = json!({"name": "r", "exactly": {"deviceClassName": CLASS}});
    cluster.template_of("late", request).await;
    let claim = cluster.claims_of("late", 1).await["gpu"].clone();
    cluster.delete("ResourceClaimTemplate", "late").await;
    cluster.delete("ResourceClaim", &claim).await;
    times(2).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_without_the_right_to_bind_nothing_is_reserved_until_it_is_given() {
    let cluster = Cluster::with_template().await;
    cluster.claim("shared").await;
    cluster.grant(rules_without_binding()).await;
    let replica = cluster.start_leading(&[]).await;
    cluster
        .pod("placed", &[made("gpu"), named("user", "shared")])
        .await;
    cluster.until_running("placed").await;
    let direct = cluster.create(direct("direct")).await;
    let lost = async || {
        let requests = cluster.requests();
        let reserve = |code| {
            move |asked: &&controller_testing::audit::Asked| {
                asked.is("patch", "resourceclaims/status") && asked.code == code
            }
        };
        assert!(!requests.iter().any(|asked| reserve(200)(&asked)));
        requests.iter().any(|asked| reserve(422)(&asked)).then_some(())
    };
    soon("the reservation is refused", lost).await;
    let told = async || (replica.said("resourceclaims/binding") > 0).then_some(());
    soon("the log names the right", told).await;
    // It is no 403: the API server takes it for a fault of the claim.
    assert_eq!(cluster.refused(), []);

    cluster.grant(Setup::PLAIN.chart().rules()).await;
    cluster.until_running("direct").await;
    let shared = cluster.get("ResourceClaim", "shared").await;
    assert!(reserved_for(&shared).contains(&uid(&direct)));
    cluster.kubelet.assert_sound();
    assert_eq!(replica.stop().await, Some(0));
}
