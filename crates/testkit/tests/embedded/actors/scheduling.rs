//! Which node a pod gets.

use super::*;

fn with_nodes(count: usize) -> Cluster {
    Cluster::new(count, Actors::new().scheduler())
}

impl Cluster {
    fn change_node(&self, number: usize, change: impl FnOnce(&mut Value)) {
        self.edit(&NODES_RESOURCE, &format!("node-{number}"), change);
    }
}

#[tokio::test(start_paused = true)]
async fn pods_are_spread_over_the_nodes() {
    let cluster = with_nodes(3);
    cluster.insert(pod("there", json!({ "nodeName": "node-2" })));
    for name in ["a", "b", "c", "d"] {
        cluster.insert(pod(name, json!({})));
    }
    sleep(MOMENT).await;
    let nodes = ["a", "b", "c", "d"].map(|name| cluster.node_of(name));
    assert_eq!(nodes, ["node-1", "node-3", "node-1", "node-2"]);
    let a = cluster.get(&PODS_RESOURCE, "a");
    assert_eq!(condition(&a, "PodScheduled")["status"], "True");
    let owners = a["metadata"]["managedFields"].to_string();
    assert!(!owners.contains("f:nodeName"), "{owners}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fits_nowhere_says_so_until_it_does() {
    let cluster = with_nodes(1);
    cluster.change_node(1, |node| node["spec"]["unschedulable"] = json!(true));
    cluster.insert(pod("p", json!({})));
    sleep(SECOND).await;
    let p = cluster.get(&PODS_RESOURCE, "p");
    assert_eq!(p["spec"].get("nodeName"), None);
    assert_eq!(
        *condition(&p, "PodScheduled"),
        json!({
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/1 nodes are available.",
            "lastProbeTime": null,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    );
    cluster.is_at_rest_for(SECOND * 60).await;
    cluster.change_node(1, |node| node["spec"]["unschedulable"] = json!(false));
    sleep(MOMENT).await;
    assert_eq!(cluster.node_of("p"), "node-1");
}

#[tokio::test(start_paused = true)]
async fn taints_selectors_and_room_decide_where_a_pod_fits() {
    let cluster = with_nodes(4);
    cluster.change_node(1, |node| {
        node["spec"]["taints"] = json!([{ "key": "k", "value": "v", "effect": "NoSchedule" }]);
    });
    cluster.change_node(2, |node| {
        node["spec"]["taints"] = json!([{ "key": "soft", "effect": "PreferNoSchedule" }]);
        node["status"]["allocatable"]["pods"] = json!("1");
    });
    cluster.change_node(3, |node| {
        node["metadata"]["labels"]["disk"] = json!("fast");
        node["spec"]["taints"] = json!([{ "key": "gone", "effect": "NoExecute" }]);
    });
    cluster.change_node(4, |node| node["spec"]["unschedulable"] = json!(true));
    let equal = json!([{ "key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule" }]);
    let other = json!([{ "key": "k", "value": "other" }]);
    let anything = json!([{ "operator": "Exists" }]);
    let expected = rows! {
        "a-plain", json!({}) => json!("node-2");
        "b-no-room", json!({}) => Value::Null;
        "c-tolerates", json!({ "tolerations": equal }) => json!("node-1");
        "d-other", json!({ "tolerations": other }) => Value::Null;
        "e-selects", json!({ "tolerations": anything, "nodeSelector": { "disk": "fast" } }) => json!("node-3");
        "f-nowhere", json!({ "tolerations": anything, "nodeSelector": { "disk": "slow" } }) => Value::Null;
        "g-cordoned", json!({ "tolerations": anything }) => json!("node-4");
    };
    for (name, spec, _) in &expected {
        cluster.insert(pod(name, spec.clone()));
    }
    sleep(MOMENT).await;
    for (name, _, node) in expected {
        assert_eq!(cluster.node_of(name), node, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_that_wait_for_something_else_are_left_alone() {
    let cluster = with_nodes(1);
    for (name, spec) in rows! {
        "other" => json!({ "schedulerName": "other" });
        "gated" => json!({ "schedulingGates": [{ "name": "g" }] });
        "claims" => json!({ "resourceClaims": [{ "name": "c", "resourceClaimName": "c" }] });
    } {
        cluster.insert(pod(name, spec));
    }
    cluster.is_at_rest_for(SECOND).await;
    cluster.insert(pod("mine", json!({ "schedulerName": "default-scheduler" })));
    sleep(MOMENT).await;
    assert_eq!(cluster.node_of("mine"), "node-1");
}

#[tokio::test(start_paused = true)]
async fn a_node_has_room_again_when_a_pod_is_done() {
    let cluster = with_nodes(1);
    cluster.change_node(1, |node| node["status"]["allocatable"]["pods"] = json!("1"));
    cluster.insert(pod("a", json!({})));
    cluster.insert(pod("b", json!({})));
    sleep(MOMENT).await;
    assert_eq!(cluster.node_of("b"), Value::Null);
    cluster.edit(&PODS_RESOURCE, "a", |pod| {
        pod["status"]["phase"] = json!("Succeeded");
    });
    sleep(MOMENT).await;
    assert_eq!(cluster.node_of("b"), "node-1");
}
