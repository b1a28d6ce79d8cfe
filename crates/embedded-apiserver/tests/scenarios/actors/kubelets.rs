//! Kubelets: pods from binding to removal.

use super::*;

fn with_kubelets(options: KubeletOptions) -> Cluster {
    Cluster::new(1, Actors::new().kubelet(options))
}

fn bound(name: &str) -> Value {
    pod(name, json!({ "nodeName": "node-1" }))
}

async fn end(cluster: &Cluster, name: &str, options: Value) {
    cluster.delete(&format!("{PODS}/{name}"), options).await;
}

#[tokio::test(start_paused = true)]
async fn a_bound_pod_runs_after_a_while() {
    let cluster = with_kubelets(KubeletOptions::new().start_after(SECOND * 5));
    cluster.insert(bound("p"));
    cluster.insert(pod("unbound", json!({})));
    sleep(SECOND * 4).await;
    assert_eq!(cluster.phase("p").unwrap(), "Pending");
    sleep(SECOND * 2).await;
    assert_eq!(cluster.phase("p").unwrap(), "Running");
    assert_eq!(cluster.phase("unbound").unwrap(), "Pending");
    let p = cluster.get(&PODS_RESOURCE, "p");
    let ready = json!({
        "type": "Ready",
        "status": "True",
        "lastProbeTime": null,
        "lastTransitionTime": "2026-01-01T00:00:05Z",
    });
    assert_eq!(*condition(&p, "Ready"), ready);
    p.shows(json!({
        "status.podIP": "10.128.0.1",
        "status.hostIP": "10.0.0.1",
        "status.startTime": "2026-01-01T00:00:05Z",
        "status.containerStatuses.0.name": "c",
        "status.containerStatuses.0.ready": true,
        "status.containerStatuses.0.state": { "running": { "startedAt": "2026-01-01T00:00:05Z" } },
    }));
    assert_eq!(fields_of(&p, "kubelet")["subresource"], "status");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_ends_with_its_grace_period() {
    let cluster = with_kubelets(KubeletOptions::new());
    cluster.insert(bound("p"));
    sleep(SECOND * 2).await;
    let mut watch = cluster.watch(PODS).await;
    end(&cluster, "p", Value::Null).await;
    sleep(SECOND * 29).await;
    assert_eq!(cluster.phase("p").unwrap(), "Running");
    sleep(SECOND * 2).await;
    assert_eq!(cluster.phase("p"), None);
    assert_eq!(watch.line().await, "MODIFIED p");
    let ended = watch.event().await;
    assert_eq!(ended["object"]["status"]["phase"], "Succeeded");
    assert_eq!(condition(&ended["object"], "Ready")["status"], "False");
    watch.tells_of(&["MODIFIED p", "DELETED p"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_ends_earlier_if_it_can_or_must() {
    let cluster = with_kubelets(KubeletOptions::new().stop_within(SECOND * 10));
    for name in ["can", "must", "short"] {
        cluster.insert(bound(name));
    }
    sleep(SECOND * 2).await;
    end(&cluster, "can", Value::Null).await;
    end(&cluster, "must", Value::Null).await;
    end(&cluster, "short", json!({ "gracePeriodSeconds": 3 })).await;
    sleep(SECOND * 4).await;
    assert_eq!(cluster.names(&PODS_RESOURCE), ["can", "must"]);
    end(&cluster, "must", json!({ "gracePeriodSeconds": 6 })).await;
    sleep(SECOND * 3).await;
    assert_eq!(cluster.names(&PODS_RESOURCE), ["can"]);
    sleep(SECOND * 4).await;
    assert_eq!(cluster.names(&PODS_RESOURCE), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_over_waits_for_its_finalizers() {
    let cluster = with_kubelets(KubeletOptions::new());
    let mut held = bound("held");
    held["metadata"]["finalizers"] = json!(["x/y"]);
    cluster.insert(held);
    end(&cluster, "held", json!({ "gracePeriodSeconds": 2 })).await;
    sleep(SECOND * 3).await;
    let held = cluster.get(&PODS_RESOURCE, "held");
    assert_eq!(held["metadata"]["deletionGracePeriodSeconds"], 0);
    cluster.is_at_rest_for(SECOND * 60).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_happens_on_a_node_that_is_missing() {
    let cluster = with_kubelets(KubeletOptions::new());
    cluster.insert(pod("missing", json!({ "nodeName": "node-2" })));
    sleep(SECOND * 2).await;
    assert_eq!(cluster.phase("missing").unwrap(), "Pending");
    cluster.insert(object("Node", "v1", "node-2", json!({})));
    sleep(MOMENT).await;
    assert_eq!(cluster.phase("missing").unwrap(), "Running");
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_the_same_name_starts_anew() {
    let cluster = with_kubelets(KubeletOptions::new().start_after(SECOND * 10));
    cluster.insert(bound("p"));
    sleep(SECOND * 9).await;
    cluster.remove(&PODS_RESOURCE, "p");
    cluster.insert(bound("p"));
    sleep(SECOND * 9).await;
    assert_eq!(cluster.phase("p").unwrap(), "Pending");
    sleep(SECOND * 2).await;
    assert_eq!(cluster.phase("p").unwrap(), "Running");
}
