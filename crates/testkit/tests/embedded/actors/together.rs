//! Replica sets, and all actors at once.

use super::*;

fn set(replicas: u64) -> Value {
    let mut set = objects::workload("web", &pod("p", json!({})));
    set["kind"] = json!("ReplicaSet");
    set["apiVersion"] = json!("apps/v1");
    set["spec"]["replicas"] = json!(replicas);
    set
}

fn everybody() -> Actors {
    Actors::new()
        .garbage_collector()
        .scheduler()
        .kubelet(KubeletOptions::new().stop_within(SECOND * 5))
        .replica_sets()
}

impl Cluster {
    fn scale(&self, replicas: u64) {
        self.edit(&REPLICA_SETS, "web", |set| {
            set["spec"]["replicas"] = json!(replicas);
        });
    }

    fn status(&self) -> Value {
        self.get(&REPLICA_SETS, "web")["status"].clone()
    }

    fn count(&self) -> usize {
        self.server.list(&PODS_RESOURCE).len()
    }
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_keeps_as_many_pods_as_it_asks_for() {
    let cluster = Cluster::new(2, everybody());
    let owner = cluster.insert(set(3));
    sleep(MOMENT).await;
    let mut status = json!({ "replicas": 3, "fullyLabeledReplicas": 3, "observedGeneration": 1 });
    assert_eq!(cluster.status(), status);
    sleep(SECOND * 2).await;
    status["readyReplicas"] = json!(3);
    status["availableReplicas"] = json!(3);
    assert_eq!(cluster.status(), status);
    let pods = cluster.server.list(&PODS_RESOURCE);
    let mut reference = owned_by(&owner, true);
    reference["controller"] = json!(true);
    for pod in &pods {
        pod.shows(json!({ "metadata.ownerReferences": [reference], "metadata.labels": objects::labels() }));
        let name = pod["metadata"]["name"].as_str().unwrap();
        assert!(name.starts_with("web-") && name.len() == 9, "{name}");
    }
    // One that is deleted is replaced at once, one that is done as well.
    let name = |at: usize| pods[at]["metadata"]["name"].as_str().unwrap();
    cluster.delete(&format!("{PODS}/{}", name(0)), Value::Null).await;
    sleep(MOMENT).await;
    assert_eq!(cluster.count(), 4);
    sleep(SECOND * 6).await;
    assert_eq!(cluster.count(), 3);
    assert_eq!(cluster.phase(name(0)), None);
    cluster.edit(&PODS_RESOURCE, name(1), |pod| {
        pod["status"]["phase"] = json!("Failed");
    });
    sleep(SECOND * 2).await;
    assert_eq!(cluster.count(), 4);
    assert_eq!(cluster.status()["readyReplicas"], 3);
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_gives_up_the_pods_that_are_the_least_loss() {
    let cluster = Cluster::new(1, everybody());
    cluster.edit(&NODES_RESOURCE, "node-1", |node| {
        node["status"]["allocatable"]["pods"] = json!("2");
    });
    cluster.insert(set(2));
    sleep(SECOND * 2).await;
    let running = cluster.names(&PODS_RESOURCE);
    cluster.scale(4);
    sleep(SECOND * 2).await;
    assert_eq!(cluster.count(), 4);
    cluster.scale(2);
    sleep(SECOND * 2).await;
    assert_eq!(cluster.names(&PODS_RESOURCE), running);
    cluster.scale(0);
    sleep(SECOND * 10).await;
    assert_eq!(cluster.count(), 0);
    assert_eq!(
        cluster.status(),
        json!({ "replicas": 0, "observedGeneration": 4 })
    );
}

#[tokio::test(start_paused = true)]
async fn pods_go_with_their_replica_set() {
    let cluster = Cluster::new(2, everybody());
    cluster.insert(set(3));
    sleep(SECOND * 2).await;
    let foreground = json!({ "propagationPolicy": "Foreground" });
    cluster
        .delete(&format!("{}/web", crate::http::REPLICA_SETS), foreground)
        .await;
    sleep(SECOND * 4).await;
    // It waits for its pods, which take five seconds.
    assert!(cluster.find(&REPLICA_SETS, "web").is_some());
    sleep(SECOND * 2).await;
    assert_eq!(cluster.find(&REPLICA_SETS, "web"), None);
    assert_eq!(cluster.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_drained_node_is_empty_and_its_pods_run_elsewhere() {
    let cluster = Cluster::new(2, everybody());
    cluster.insert(set(4));
    sleep(SECOND * 2).await;
    let client = cluster.server.client_as("kubectl/v1");
    let cordon = json!({ "spec": { "unschedulable": true } });
    strategic(&client, format!("{NODES}/node-1"), cordon).await;
    let on_it = format!("{PODS}?fieldSelector=spec.nodeName%3Dnode-1");
    let pods = read(&client, &on_it).await;
    assert_eq!(names(&pods).len(), 2);
    for name in names(&pods) {
        delete(&client, format!("{PODS}/{name}"), Value::Null).await;
    }
    sleep(SECOND * 7).await;
    lists(&client, &on_it, &[]).await;
    assert_eq!(cluster.status()["readyReplicas"], 4);
}

#[tokio::test(start_paused = true)]
async fn what_actors_write_is_no_request() {
    let cluster = Cluster::new(1, everybody());
    cluster.server.down();
    cluster.insert(set(1));
    sleep(SECOND * 2).await;
    cluster.server.up();
    let pods = read(&cluster.server.client(), PODS).await;
    assert_eq!(pods["items"][0]["status"]["phase"], "Running");
    assert_eq!(cluster.server.requests().lines(), ["list default/pods"]);
    let pod = &cluster.server.list(&PODS_RESOURCE)[0];
    let managers = each(&pod["metadata"]["managedFields"], "manager");
    assert_eq!(managers, ["kube-controller-manager", "kubelet"]);
}

#[tokio::test(start_paused = true)]
async fn actors_at_rest_write_nothing() {
    let cluster = Cluster::new(3, everybody());
    cluster.insert(set(5));
    sleep(SECOND * 10).await;
    cluster.is_at_rest_for(Duration::from_hours(24)).await;
}

async fn history() -> Vec<String> {
    let cluster = Cluster::new(3, everybody());
    let mut watch = cluster.watch(PODS).await;
    cluster.insert(set(6));
    sleep(SECOND * 2).await;
    cluster.scale(2);
    sleep(SECOND * 10).await;
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
    // Each of six pods is created, bound, started, deleted, ended, over, gone.
    assert_eq!(first.len(), 6 * 7);
    assert_eq!(history().await, first);
}

#[tokio::test]
async fn actors_work_for_clients_on_loopback_too() {
    let kubelet = KubeletOptions::new().start_after(MOMENT);
    let cluster = Cluster::new(1, Actors::new().scheduler().kubelet(kubelet));
    let transport = cluster.server.listen(0).await.unwrap();
    let config = kube::Config::new(transport.url().parse().unwrap());
    let client = Client::try_from(config).unwrap();
    let mut watch = watch(&client, PODS, &cluster.server).await;
    create(&client, PODS, pod("p", json!({}))).await;
    while watch.event().await["object"]["status"]["phase"] != "Running" {}
}
