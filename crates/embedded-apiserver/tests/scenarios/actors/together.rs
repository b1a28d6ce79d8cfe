//! All actors together.

use super::*;

fn everybody() -> Actors {
    Actors::new()
        .garbage_collector()
        .kubelet(KubeletOptions::new().stop_within(SECOND * 5))
}

impl Cluster {
    /// Creates a replica set and one pod of it on each of the first `pods` nodes.
    fn insert_set(&self, pods: usize) {
        let mut set = objects::workload("web", &pod("p", json!({})));
        set["kind"] = json!("ReplicaSet");
        set["apiVersion"] = json!("apps/v1");
        let owner = self.insert(set);
        for number in 1..=pods {
            let mut pod = pod(
                &format!("web-{number}"),
                json!({ "nodeName": format!("node-{number}") }),
            );
            pod["metadata"]["ownerReferences"] = json!([owned_by(&owner, true)]);
            self.insert(pod);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pods_go_with_their_replica_set() {
    let cluster = Cluster::new(3, everybody());
    cluster.insert_set(3);
    sleep(SECOND * 2).await;
    let foreground = json!({ "propagationPolicy": "Foreground" });
    cluster
        .delete(&format!("{}/web", crate::http::REPLICA_SETS), foreground)
        .await;
    sleep(SECOND * 4).await;
    // The replica set waits for its pods, which take five seconds to end.
    assert!(cluster.find(&REPLICA_SETS, "web").is_some());
    sleep(SECOND * 2).await;
    assert_eq!(cluster.find(&REPLICA_SETS, "web"), None);
    assert_eq!(cluster.names(&PODS_RESOURCE), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_actors_write_is_no_request() {
    let cluster = Cluster::new(1, everybody());
    cluster.server.down();
    cluster.insert_set(1);
    sleep(SECOND * 2).await;
    cluster.server.up();
    let pods = read(&cluster.server.client(), PODS).await;
    assert_eq!(pods["items"][0]["status"]["phase"], "Running");
    assert_eq!(cluster.server.requests().lines(), ["list default/pods"]);
    let pod = &cluster.server.list(&PODS_RESOURCE)[0];
    assert_eq!(fields_of(pod, "kubelet")["subresource"], "status");
}

#[tokio::test(start_paused = true)]
async fn actors_at_rest_write_nothing() {
    let cluster = Cluster::new(5, everybody());
    cluster.insert_set(5);
    sleep(SECOND * 10).await;
    cluster.is_at_rest_for(Duration::from_hours(24)).await;
}

async fn history() -> Vec<String> {
    let cluster = Cluster::new(6, everybody());
    let mut watch = cluster.watch(PODS).await;
    cluster.insert_set(6);
    sleep(SECOND * 2).await;
    cluster.remove(&REPLICA_SETS, "web");
    let mut lines = Vec::new();
    while let Next::Event(event) = watch.next_within(SECOND * 30).await {
        lines.push(event.to_string());
    }
    lines
}

#[tokio::test(start_paused = true)]
async fn every_run_is_the_same() {
    let first = history().await;
    // Each of the six pods is created, started, deleted, ended, marked as ended, removed.
    assert_eq!(first.len(), 6 * 6);
    assert_eq!(history().await, first);
}

#[tokio::test]
async fn actors_work_for_clients_on_loopback_too() {
    let kubelet = KubeletOptions::new().start_after(MOMENT);
    let cluster = Cluster::new(1, Actors::new().kubelet(kubelet));
    let transport = cluster.server.listen(0).await.unwrap();
    let config = kube::Config::new(transport.url().parse().unwrap());
    let client = Client::try_from(config).unwrap();
    let mut watch = watch(&client, PODS, &cluster.server).await;
    create(&client, PODS, pod("p", json!({ "nodeName": "node-1" }))).await;
    while watch.event().await["object"]["status"]["phase"] != "Running" {}
}
