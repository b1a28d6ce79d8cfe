//! Claims of groups of pods.

use serde_json::{Value, json};

use crate::support::{
    CLAIM_OF, Cluster, GROUPS, Setup, claims_of, is_free, made, named, pod, reserved_for, uid,
};

fn group(name: &str, claims: &[Value]) -> Value {
    json!({
        "kind": "PodGroup", "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": claims},
    })
}

/// A pod of a group that uses an entry of the group as its own.
fn member(name: &str, group: &str, entries: &[Value]) -> Value {
    let mut member = pod(name, entries);
    member["spec"]["schedulingGroup"] = json!({"podGroupName": group});
    member
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_a_group_gets_a_claim_for_all_of_its_pods() {
    let cluster = Cluster::with(Setup {
        groups: true,
        ..Setup::PLAIN
    })
    .await;
    cluster.template().await;
    let controller = cluster.controller().await;
    let group = cluster.create(group("gang", &[made("gpu")])).await;
    let told = cluster
        .until_is("PodGroup", "gang", "it has a claim", |group| {
            claims_of(group).len() == 1
        })
        .await;
    let claim = claims_of(&told)["gpu"].clone();
    assert!(claim.starts_with("gang-gpu-"), "{claim}");
    let made_for = cluster.get("ResourceClaim", &claim).await;
    let owner = &made_for["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"]),
        (&json!("PodGroup"), &json!(uid(&group)))
    );
    assert_eq!(made_for["metadata"]["annotations"][CLAIM_OF], "gpu");

    for name in ["one", "two"] {
        cluster.create(member(name, "gang", &[made("gpu")])).await;
    }
    for name in ["one", "two"] {
        cluster.until_running(name).await;
        assert_eq!(cluster.claims_of(name, 1).await["gpu"], claim);
    }
    let shared = cluster.get("ResourceClaim", &claim).await;
    assert_eq!(reserved_for(&shared), [uid(&group)]);
    assert_eq!(cluster.count_claims().await, 1);

    cluster.kubelet.assert_sound();
    cluster.finish("one").await;
    cluster.finish("two").await;
    cluster.delete("PodGroup", "gang").await;
    for pod in ["one", "two"] {
        cluster.force_delete("Pod", pod).await;
    }
    cluster.until_gone("PodGroup", "gang").await;
    cluster.until_gone("ResourceClaim", &claim).await;
    controller.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_a_claim_that_a_group_names_is_free_when_the_group_is_gone() {
    let cluster = Cluster::with(Setup {
        groups: true,
        ..Setup::PLAIN
    })
    .await;
    cluster.claim("shared").await;
    let controller = cluster.controller().await;
    let group = cluster.create(group("gang", &[named("gpu", "shared")])).await;
    for name in ["one", "two"] {
        cluster
            .create(member(name, "gang", &[named("gpu", "shared")]))
            .await;
    }
    for name in ["one", "two"] {
        cluster.until_running(name).await;
    }
    let shared = cluster.get("ResourceClaim", "shared").await;
    assert_eq!(reserved_for(&shared), [uid(&group)]);
    cluster.kubelet.assert_sound();
    for name in ["one", "two"] {
        cluster.finish(name).await;
    }
    cluster.delete("PodGroup", "gang").await;
    cluster.until_gone("PodGroup", "gang").await;
    cluster
        .until_is("ResourceClaim", "shared", "it is free", is_free)
        .await;
    controller.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_without_groups_on_the_server_one_line_says_so_and_the_rest_works() {
    let cluster = Cluster::with_template().await;
    let replica = cluster.start_leading(&[GROUPS]).await;
    cluster.pod("alone", &[made("gpu")]).await;
    cluster.until_running("alone").await;
    let line = "DRAWorkloadResourceClaims=true is ignored: the API server serves podgroups neither in \
                scheduling.k8s.io/v1beta1 nor in scheduling.k8s.io/v1alpha2";
    assert_eq!(replica.said(line), 1);
    assert_eq!(replica.said("podgroups"), 1, "{}", replica.process.log());
    assert_eq!(replica.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_with_the_gate_off_groups_are_left_alone_and_the_rest_works() {
    let cluster = Cluster::with(Setup {
        groups: true,
        ..Setup::PLAIN
    })
    .await;
    cluster.template().await;
    let replica = cluster.start_leading(&[]).await;
    cluster.create(group("gang", &[made("gpu")])).await;
    cluster.pod("alone", &[made("gpu")]).await;
    cluster.until_running("alone").await;
    assert_eq!(claims_of(&cluster.get("PodGroup", "gang").await).len(), 0);
    assert_eq!(cluster.count_claims().await, 1);
    let of_groups = cluster.requests().into_iter();
    let of_groups = of_groups.filter(|asked| asked.resource.starts_with("podgroups"));
    assert_eq!(of_groups.count(), 0);
    assert_eq!(replica.stop().await, Some(0));
}
