//! What other components of a cluster do on the embedded server when they are asked to.

use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};
use testkit::embedded::{
    Acting, Actors, CONFIG_MAPS as MAPS, KubeletOptions, LEASES as LEASES_RESOURCE,
    NAMESPACES as NAMESPACES_RESOURCE, NODES as NODES_RESOURCE, PODS as PODS_RESOURCE, REPLICA_SETS,
    Resource, Server,
};
use tokio::time::sleep;

use crate::http::*;
use crate::{objects, rows, server};

const SECOND: Duration = Duration::from_secs(1);
/// Less than any delay of an actor.
const MOMENT: Duration = Duration::from_millis(1);

/// A server with actors at work.
struct Cluster {
    server: Server,
    _acting: Acting,
}

impl Cluster {
    /// With the nodes `node-1` to `node-<nodes>`.
    fn new(nodes: usize, actors: Actors) -> Self {
        let server = server();
        server.seed_nodes(nodes);
        let acting = server.run(actors);
        Self {
            server,
            _acting: acting,
        }
    }

    fn insert(&self, object: Value) -> Value {
        self.server.insert(object).unwrap()
    }

    fn find(&self, resource: &'static Resource, name: &str) -> Option<Value> {
        self.server.get(resource, "default", name)
    }

    fn get(&self, resource: &'static Resource, name: &str) -> Value {
        self.find(resource, name).unwrap()
    }

    fn edit(&self, resource: &'static Resource, name: &str, change: impl FnOnce(&mut Value)) {
        self.server.edit(resource, "default", name, change).unwrap();
    }

    fn remove(&self, resource: &'static Resource, name: &str) {
        self.server.delete(resource, "default", name).unwrap();
    }

    fn names(&self, resource: &'static Resource) -> Vec<String> {
        let objects = self.server.list(resource);
        let names = objects
            .iter()
            .map(|object| object["metadata"]["name"].as_str().unwrap());
        names.map(str::to_owned).collect()
    }

    fn phase(&self, name: &str) -> Option<String> {
        let pod = self.find(&PODS_RESOURCE, name)?;
        Some(pod["status"]["phase"].as_str().unwrap_or("Pending").to_owned())
    }

    fn node_of(&self, pod: &str) -> Value {
        self.get(&PODS_RESOURCE, pod)["spec"]["nodeName"].clone()
    }

    async fn delete(&self, uri: &str, options: Value) -> Value {
        delete(&self.server.client(), uri, options).await.body
    }

    /// A watch from now on.
    async fn watch(&self, uri: &str) -> Watch {
        watch(&self.server.client(), uri, &self.server).await
    }

    /// Fails if anything is written meanwhile.
    async fn is_at_rest_for(&self, time: Duration) {
        let version = self.server.version();
        sleep(time).await;
        assert_eq!(self.server.version(), version);
    }
}

async fn watch(client: &Client, uri: &str, server: &Server) -> Watch {
    let version = server.version();
    Watch::open(client, format!("{uri}?watch=1&resourceVersion={version}")).await
}

fn object(kind: &str, api_version: &str, name: &str, metadata: Value) -> Value {
    let mut object = json!({ "kind": kind, "apiVersion": api_version });
    object["metadata"] = metadata;
    object["metadata"]["name"] = json!(name);
    object
}

fn map(name: &str, metadata: Value) -> Value {
    object("ConfigMap", "v1", name, metadata)
}

fn pod(name: &str, more: Value) -> Value {
    let mut pod = objects::pod(name, more);
    pod["kind"] = json!("Pod");
    pod["apiVersion"] = json!("v1");
    pod
}

fn owned_by(owner: &Value, blocks: bool) -> Value {
    json!({
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": blocks,
    })
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    found(&object["status"]["conditions"], "type", kind)
}

mod on_namespaces {
    use super::*;

    #[test]
    fn a_test_inserts_into_namespaces_that_it_did_not_create() {
        let server = server();
        let inserted = server.insert(map("a", json!({ "namespace": "new" }))).unwrap();
        assert_eq!(inserted["metadata"]["namespace"], "new");
        let namespace = server.get(&NAMESPACES_RESOURCE, "", "new").unwrap();
        assert_eq!(namespace["status"], json!({ "phase": "Active" }));
        server.delete(&NAMESPACES_RESOURCE, "", "new").unwrap();
        server.insert(map("b", json!({ "namespace": "new" }))).unwrap();
    }
}

mod garbage_collection {
    use super::*;

    const NOTHING: [&str; 0] = [];

    fn collected(nodes: usize) -> Cluster {
        Cluster::new(nodes, Actors::new().garbage_collector())
    }

    fn map_uri(name: &str) -> String {
        format!("{CONFIG_MAPS}/{name}")
    }

    fn by(policy: &str) -> Value {
        json!({ "propagationPolicy": policy })
    }

    /// `a`, `b` owned by `a`, `c` owned by `b`.
    fn chain(server: &Server, blocks: bool) {
        let mut owner = server.insert(map("a", json!({}))).unwrap();
        for name in ["b", "c"] {
            let metadata = json!({ "ownerReferences": [owned_by(&owner, blocks)] });
            owner = server.insert(map(name, metadata)).unwrap();
        }
    }

    async fn collected_chain() -> Cluster {
        let cluster = collected(0);
        chain(&cluster.server, true);
        sleep(MOMENT).await;
        cluster
    }

    #[tokio::test(start_paused = true)]
    async fn dependents_follow_their_owner() {
        let cluster = collected_chain().await;
        assert_eq!(cluster.names(&MAPS), ["a", "b", "c"]);
        let mut watch = cluster.watch(CONFIG_MAPS).await;
        cluster.delete(&map_uri("a"), Value::Null).await;
        watch.tells_of(&["DELETED a", "DELETED b", "DELETED c"]).await;
        assert_eq!(cluster.names(&MAPS), NOTHING);
    }

    #[tokio::test(start_paused = true)]
    async fn dependents_go_before_an_owner_that_is_deleted_in_the_foreground() {
        let cluster = collected_chain().await;
        let mut watch = cluster.watch(CONFIG_MAPS).await;
        let waiting = cluster.delete(&map_uri("a"), by("Foreground")).await;
        assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
        watch
            .tells_of(&["MODIFIED a", "MODIFIED b", "DELETED c", "DELETED b", "DELETED a"])
            .await;
        assert!(watch.is_silent().await);
    }

    /// The map `owner`, and `slow` of which it is the owner and which has a finalizer.
    async fn slow_dependent(blocks: bool) -> Cluster {
        let cluster = collected(0);
        let owner = cluster.insert(map("owner", json!({})));
        let owners = json!({ "ownerReferences": [owned_by(&owner, blocks)], "finalizers": ["x/y"] });
        cluster.insert(map("slow", owners));
        sleep(MOMENT).await;
        cluster.delete(&map_uri("owner"), by("Foreground")).await;
        cluster
    }

    #[tokio::test(start_paused = true)]
    async fn a_dependent_that_does_not_block_is_not_waited_for() {
        let cluster = slow_dependent(false).await;
        sleep(MOMENT).await;
        assert_eq!(cluster.names(&MAPS), ["slow"]);
        assert!(cluster.get(&MAPS, "slow")["metadata"]["deletionTimestamp"].is_string());
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_in_the_foreground_waits_for_one_that_blocks() {
        let cluster = slow_dependent(true).await;
        sleep(SECOND).await;
        assert_eq!(cluster.names(&MAPS), ["owner", "slow"]);
        cluster.edit(&MAPS, "slow", |slow| slow["metadata"]["finalizers"] = json!([]));
        sleep(MOMENT).await;
        assert_eq!(cluster.names(&MAPS), NOTHING);
    }

    #[tokio::test(start_paused = true)]
    async fn orphans_stay_and_forget_their_owner() {
        let cluster = collected_chain().await;
        cluster.delete(&map_uri("a"), by("Orphan")).await;
        sleep(MOMENT).await;
        assert_eq!(cluster.names(&MAPS), ["b", "c"]);
        let b = cluster.get(&MAPS, "b");
        assert_eq!(b["metadata"].get("ownerReferences"), None);
        let c = cluster.get(&MAPS, "c");
        assert_eq!(c["metadata"]["ownerReferences"], json!([owned_by(&b, true)]));
    }

    #[tokio::test(start_paused = true)]
    async fn one_owner_that_stays_is_enough() {
        let cluster = collected(0);
        let stays = cluster.insert(map("stays", json!({})));
        let goes = cluster.insert(map("goes", json!({})));
        let both = json!({ "ownerReferences": [owned_by(&goes, true), owned_by(&stays, true)] });
        cluster.insert(map("shared", both));
        sleep(MOMENT).await;
        cluster.delete(&map_uri("goes"), Value::Null).await;
        sleep(MOMENT).await;
        let shared = cluster.get(&MAPS, "shared");
        assert_eq!(
            shared["metadata"]["ownerReferences"],
            json!([owned_by(&stays, true)])
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_is_known_by_kind_name_and_uid() {
        let cluster = collected(0);
        let owner = cluster.insert(map("owner", json!({})));
        for (name, field, value) in rows! {
            "other-uid", "uid" => "u";
            "other-name", "name" => "n";
            "other-kind", "kind" => "Pod";
            "unknown-kind", "kind" => "Gadget";
        } {
            let mut reference = owned_by(&owner, false);
            reference[field] = json!(value);
            cluster.insert(map(name, json!({ "ownerReferences": [reference] })));
        }
        let reference = owned_by(&owner, false);
        cluster.insert(map(
            "elsewhere",
            json!({ "ownerReferences": [reference], "namespace": "other" }),
        ));
        sleep(MOMENT).await;
        assert_eq!(cluster.names(&MAPS), ["owner", "unknown-kind"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_wide_owner_keeps_what_is_in_namespaces() {
        let cluster = collected(2);
        let node = cluster.get(&NODES_RESOURCE, "node-1");
        let metadata = json!({ "ownerReferences": [owned_by(&node, false)], "namespace": "kube-node-lease" });
        cluster.insert(object("Lease", "coordination.k8s.io/v1", "node-1", metadata));
        sleep(MOMENT).await;
        assert_eq!(cluster.names(&LEASES_RESOURCE), ["node-1"]);
        cluster.remove(&NODES_RESOURCE, "node-1");
        sleep(MOMENT).await;
        assert_eq!(cluster.names(&LEASES_RESOURCE), NOTHING);
    }

    #[tokio::test(start_paused = true)]
    async fn owners_in_a_circle_do_not_wait_for_each_other() {
        let cluster = collected(0);
        chain(&cluster.server, true);
        let owner = owned_by(&cluster.get(&MAPS, "c"), true);
        cluster.edit(&MAPS, "a", |a| a["metadata"]["ownerReferences"] = json!([owner]));
        sleep(MOMENT).await;
        cluster.delete(&map_uri("a"), by("Foreground")).await;
        sleep(MOMENT).await;
        assert_eq!(cluster.names(&MAPS), NOTHING);
    }

    #[tokio::test(start_paused = true)]
    async fn what_happened_before_the_start_and_beyond_history_is_seen_too() {
        let server = server();
        let left = || server.list(&MAPS).len();
        let orphan_a_chain = || {
            chain(&server, true);
            server.delete(&MAPS, "default", "a").unwrap();
        };
        orphan_a_chain();
        server.compact();
        let acting = server.run(Actors::new().garbage_collector());
        sleep(MOMENT).await;
        assert_eq!(left(), 0);
        chain(&server, true);
        sleep(MOMENT).await;
        server.delete(&MAPS, "default", "a").unwrap();
        server.compact();
        sleep(MOMENT).await;
        assert_eq!(left(), 0);
        drop(acting);
        orphan_a_chain();
        sleep(SECOND).await;
        assert_eq!(left(), 2);
    }
}

mod kubelets {
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
}

mod scheduling {
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
}

mod together {
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
            pod.shows(
                json!({ "metadata.ownerReferences": [reference], "metadata.labels": objects::labels() }),
            );
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
        let door = cluster.server.listen(0).await.unwrap();
        let config = kube::Config::new(door.url().parse().unwrap());
        let client = Client::try_from(config).unwrap();
        let mut watch = watch(&client, PODS, &cluster.server).await;
        create(&client, PODS, pod("p", json!({}))).await;
        while watch.event().await["object"]["status"]["phase"] != "Running" {}
    }
}
