//! What other components of a cluster do on the embedded server when they are asked to.

use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};
use testkit::embedded::{
    Actors, CONFIG_MAPS as MAPS, KubeletOptions, LEASES as LEASES_RESOURCE,
    NAMESPACES as NAMESPACES_RESOURCE, NODES as NODES_RESOURCE, PODS as PODS_RESOURCE, REPLICA_SETS,
    Resource, Server,
};
use tokio::time::sleep;

use crate::http::*;
use crate::server;

const SECOND: Duration = Duration::from_secs(1);
/// Less than any delay of an actor.
const MOMENT: Duration = Duration::from_millis(1);

fn map(name: &str, metadata: Value) -> Value {
    object("ConfigMap", "v1", name, metadata)
}

fn object(kind: &str, api_version: &str, name: &str, metadata: Value) -> Value {
    let mut object = json!({ "kind": kind, "apiVersion": api_version });
    object["metadata"] = metadata;
    object["metadata"]["name"] = json!(name);
    object
}

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = object("Pod", "v1", name, json!({}));
    pod["spec"] = spec;
    pod["spec"]["containers"] = json!([{ "name": "c", "image": "i" }]);
    pod["spec"]["terminationGracePeriodSeconds"] = json!(30);
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

fn names_of(server: &Server, resource: &'static Resource) -> Vec<String> {
    let objects = server.list(resource);
    let names = objects.iter().map(|object| &object["metadata"]["name"]);
    names.map(|name| name.as_str().unwrap().to_owned()).collect()
}

fn phase(server: &Server, name: &str) -> Option<String> {
    let pod = server.get(&PODS_RESOURCE, "default", name)?;
    Some(pod["status"]["phase"].as_str().unwrap_or("Pending").to_owned())
}

fn node_of(server: &Server, name: &str) -> Value {
    server.get(&PODS_RESOURCE, "default", name).unwrap()["spec"]["nodeName"].clone()
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    conditions
        .iter()
        .find(|condition| condition["type"] == kind)
        .unwrap()
}

async fn watch(client: &Client, uri: &str, server: &Server) -> Watch {
    Watch::open(
        client,
        format!("{uri}?watch=1&resourceVersion={}", server.version()),
    )
    .await
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

    fn collected() -> (Server, testkit::embedded::Acting) {
        let server = server();
        let acting = server.run(Actors::new().garbage_collector());
        (server, acting)
    }

    /// `a`, `b` owned by `a`, `c` owned by `b`.
    fn chain(server: &Server, blocks: bool) {
        let mut owner = server.insert(map("a", json!({}))).unwrap();
        for name in ["b", "c"] {
            let metadata = json!({ "ownerReferences": [owned_by(&owner, blocks)] });
            owner = server.insert(map(name, metadata)).unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn dependents_follow_their_owner() {
        let (server, _acting) = collected();
        chain(&server, true);
        sleep(MOMENT).await;
        assert_eq!(names_of(&server, &MAPS), ["a", "b", "c"]);
        let client = server.client();
        let mut watch = watch(&client, CONFIG_MAPS, &server).await;
        delete(&client, format!("{CONFIG_MAPS}/a"), Value::Null).await;
        for name in ["a", "b", "c"] {
            assert_eq!(watch.line().await, format!("DELETED {name}"));
        }
        assert_eq!(names_of(&server, &MAPS), Vec::<String>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn dependents_go_before_an_owner_that_is_deleted_in_the_foreground() {
        let (server, _acting) = collected();
        chain(&server, true);
        sleep(MOMENT).await;
        let client = server.client();
        let mut watch = watch(&client, CONFIG_MAPS, &server).await;
        let options = json!({ "propagationPolicy": "Foreground" });
        let waiting = delete(&client, format!("{CONFIG_MAPS}/a"), options).await;
        assert_eq!(
            waiting.body["metadata"]["finalizers"],
            json!(["foregroundDeletion"])
        );
        for line in ["MODIFIED a", "MODIFIED b", "DELETED c", "DELETED b", "DELETED a"] {
            assert_eq!(watch.line().await, line);
        }
        assert!(watch.is_silent().await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dependent_that_does_not_block_is_not_waited_for() {
        let (server, _acting) = collected();
        let owner = server.insert(map("owner", json!({}))).unwrap();
        let metadata = json!({
            "ownerReferences": [owned_by(&owner, false)],
            "finalizers": ["x/y"],
        });
        server.insert(map("slow", metadata)).unwrap();
        sleep(MOMENT).await;
        let options = json!({ "propagationPolicy": "Foreground" });
        delete(&server.client(), format!("{CONFIG_MAPS}/owner"), options).await;
        sleep(MOMENT).await;
        assert_eq!(names_of(&server, &MAPS), ["slow"]);
        let slow = server.get(&MAPS, "default", "slow").unwrap();
        assert!(slow["metadata"]["deletionTimestamp"].is_string());
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_in_the_foreground_waits_for_one_that_blocks() {
        let (server, _acting) = collected();
        let owner = server.insert(map("owner", json!({}))).unwrap();
        let metadata = json!({
            "ownerReferences": [owned_by(&owner, true)],
            "finalizers": ["x/y"],
        });
        server.insert(map("slow", metadata)).unwrap();
        sleep(MOMENT).await;
        let options = json!({ "propagationPolicy": "Foreground" });
        delete(&server.client(), format!("{CONFIG_MAPS}/owner"), options).await;
        sleep(SECOND).await;
        assert_eq!(names_of(&server, &MAPS), ["owner", "slow"]);
        let release = |slow: &mut Value| slow["metadata"]["finalizers"] = json!([]);
        server.edit(&MAPS, "default", "slow", release).unwrap();
        sleep(MOMENT).await;
        assert_eq!(names_of(&server, &MAPS), Vec::<String>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn orphans_stay_and_forget_their_owner() {
        let (server, _acting) = collected();
        chain(&server, true);
        sleep(MOMENT).await;
        let options = json!({ "propagationPolicy": "Orphan" });
        delete(&server.client(), format!("{CONFIG_MAPS}/a"), options).await;
        sleep(MOMENT).await;
        assert_eq!(names_of(&server, &MAPS), ["b", "c"]);
        let b = server.get(&MAPS, "default", "b").unwrap();
        assert_eq!(b["metadata"].get("ownerReferences"), None);
        let c = server.get(&MAPS, "default", "c").unwrap();
        assert_eq!(c["metadata"]["ownerReferences"], json!([owned_by(&b, true)]));
    }

    #[tokio::test(start_paused = true)]
    async fn one_owner_that_stays_is_enough() {
        let (server, _acting) = collected();
        let stays = server.insert(map("stays", json!({}))).unwrap();
        let goes = server.insert(map("goes", json!({}))).unwrap();
        let metadata = json!({ "ownerReferences": [owned_by(&goes, true), owned_by(&stays, true)] });
        server.insert(map("shared", metadata)).unwrap();
        sleep(MOMENT).await;
        delete(&server.client(), format!("{CONFIG_MAPS}/goes"), Value::Null).await;
        sleep(MOMENT).await;
        let shared = server.get(&MAPS, "default", "shared").unwrap();
        assert_eq!(
            shared["metadata"]["ownerReferences"],
            json!([owned_by(&stays, true)])
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_is_known_by_kind_name_and_uid() {
        let (server, _acting) = collected();
        let owner = server.insert(map("owner", json!({}))).unwrap();
        let other = |field: &str, value: &str| {
            let mut reference = owned_by(&owner, false);
            reference[field] = json!(value);
            json!({ "ownerReferences": [reference] })
        };
        server.insert(map("other-uid", other("uid", "u"))).unwrap();
        server.insert(map("other-name", other("name", "n"))).unwrap();
        server.insert(map("other-kind", other("kind", "Pod"))).unwrap();
        server
            .insert(map("unknown-kind", other("kind", "Gadget")))
            .unwrap();
        let mut elsewhere = map(
            "elsewhere",
            json!({ "ownerReferences": [owned_by(&owner, false)] }),
        );
        elsewhere["metadata"]["namespace"] = json!("other");
        server.insert(elsewhere).unwrap();
        sleep(MOMENT).await;
        assert_eq!(names_of(&server, &MAPS), ["owner", "unknown-kind"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_wide_owner_keeps_what_is_in_namespaces() {
        let (server, _acting) = collected();
        server.seed_nodes(2);
        let node = server.get(&NODES_RESOURCE, "", "node-1").unwrap();
        let metadata = json!({ "ownerReferences": [owned_by(&node, false)], "namespace": "kube-node-lease" });
        let lease = object("Lease", "coordination.k8s.io/v1", "node-1", metadata);
        server.insert(lease).unwrap();
        sleep(MOMENT).await;
        assert_eq!(names_of(&server, &LEASES_RESOURCE), ["node-1"]);
        server.delete(&NODES_RESOURCE, "", "node-1").unwrap();
        sleep(MOMENT).await;
        assert_eq!(names_of(&server, &LEASES_RESOURCE), Vec::<String>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn owners_in_a_circle_do_not_wait_for_each_other() {
        let (server, _acting) = collected();
        chain(&server, true);
        let c = server.get(&MAPS, "default", "c").unwrap();
        server
            .edit(&MAPS, "default", "a", |a| {
                a["metadata"]["ownerReferences"] = json!([owned_by(&c, true)]);
            })
            .unwrap();
        sleep(MOMENT).await;
        let options = json!({ "propagationPolicy": "Foreground" });
        delete(&server.client(), format!("{CONFIG_MAPS}/a"), options).await;
        sleep(MOMENT).await;
        assert_eq!(names_of(&server, &MAPS), Vec::<String>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn what_happened_before_the_start_and_beyond_history_is_seen_too() {
        let server = server();
        chain(&server, true);
        server.delete(&MAPS, "default", "a").unwrap();
        server.compact();
        let acting = server.run(Actors::new().garbage_collector());
        sleep(MOMENT).await;
        assert_eq!(names_of(&server, &MAPS), Vec::<String>::new());
        chain(&server, true);
        sleep(MOMENT).await;
        server.delete(&MAPS, "default", "a").unwrap();
        server.compact();
        sleep(MOMENT).await;
        assert_eq!(names_of(&server, &MAPS), Vec::<String>::new());
        drop(acting);
        chain(&server, true);
        server.delete(&MAPS, "default", "a").unwrap();
        sleep(SECOND).await;
        assert_eq!(names_of(&server, &MAPS), ["b", "c"]);
    }
}

mod kubelets {
    use super::*;

    fn with_nodes(count: usize, options: KubeletOptions) -> (Server, testkit::embedded::Acting) {
        let server = server();
        server.seed_nodes(count);
        let acting = server.run(Actors::new().kubelet(options));
        (server, acting)
    }

    fn bound(name: &str) -> Value {
        pod(name, json!({ "nodeName": "node-1" }))
    }

    async fn end(server: &Server, name: &str, options: Value) {
        delete(&server.client(), format!("{PODS}/{name}"), options).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_bound_pod_runs_after_a_while() {
        let options = KubeletOptions::new().start_after(SECOND * 5);
        let (server, _acting) = with_nodes(1, options);
        server.insert(bound("p")).unwrap();
        server.insert(pod("unbound", json!({}))).unwrap();
        sleep(SECOND * 4).await;
        assert_eq!(phase(&server, "p").unwrap(), "Pending");
        sleep(SECOND * 2).await;
        assert_eq!(phase(&server, "p").unwrap(), "Running");
        assert_eq!(phase(&server, "unbound").unwrap(), "Pending");
        let p = server.get(&PODS_RESOURCE, "default", "p").unwrap();
        let ready = json!({
            "type": "Ready",
            "status": "True",
            "lastProbeTime": null,
            "lastTransitionTime": "2026-01-01T00:00:05Z",
        });
        assert_eq!(*condition(&p, "Ready"), ready);
        assert_eq!(p["status"]["podIP"], "10.128.0.1");
        assert_eq!(p["status"]["hostIP"], "10.0.0.1");
        assert_eq!(p["status"]["startTime"], "2026-01-01T00:00:05Z");
        let container = &p["status"]["containerStatuses"][0];
        assert_eq!(
            (&container["name"], &container["ready"], &container["state"]),
            (
                &json!("c"),
                &json!(true),
                &json!({ "running": { "startedAt": "2026-01-01T00:00:05Z" } })
            )
        );
        let entries = p["metadata"]["managedFields"].as_array().unwrap();
        let kubelet = entries
            .iter()
            .find(|entry| entry["manager"] == "kubelet")
            .unwrap();
        assert_eq!(kubelet["subresource"], "status");
    }

    #[tokio::test(start_paused = true)]
    async fn a_deleted_pod_ends_with_its_grace_period() {
        let (server, _acting) = with_nodes(1, KubeletOptions::new());
        server.insert(bound("p")).unwrap();
        sleep(SECOND * 2).await;
        let client = server.client();
        let mut watch = watch(&client, PODS, &server).await;
        end(&server, "p", Value::Null).await;
        sleep(SECOND * 29).await;
        assert_eq!(phase(&server, "p").unwrap(), "Running");
        sleep(SECOND * 2).await;
        assert_eq!(phase(&server, "p"), None);
        assert_eq!(watch.line().await, "MODIFIED p");
        let ended = watch.event().await;
        assert_eq!(ended["object"]["status"]["phase"], "Succeeded");
        assert_eq!(condition(&ended["object"], "Ready")["status"], "False");
        assert_eq!(watch.line().await, "MODIFIED p");
        assert_eq!(watch.line().await, "DELETED p");
    }

    #[tokio::test(start_paused = true)]
    async fn a_deleted_pod_ends_earlier_if_it_can_or_must() {
        let (server, _acting) = with_nodes(1, KubeletOptions::new().stop_within(SECOND * 10));
        for name in ["can", "must", "short"] {
            server.insert(bound(name)).unwrap();
        }
        sleep(SECOND * 2).await;
        end(&server, "can", Value::Null).await;
        end(&server, "must", Value::Null).await;
        end(&server, "short", json!({ "gracePeriodSeconds": 3 })).await;
        sleep(SECOND * 4).await;
        assert_eq!(names_of(&server, &PODS_RESOURCE), ["can", "must"]);
        end(&server, "must", json!({ "gracePeriodSeconds": 6 })).await;
        sleep(SECOND * 3).await;
        assert_eq!(names_of(&server, &PODS_RESOURCE), ["can"]);
        sleep(SECOND * 4).await;
        assert_eq!(names_of(&server, &PODS_RESOURCE), Vec::<String>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_is_over_waits_for_its_finalizers() {
        let (server, _acting) = with_nodes(1, KubeletOptions::new());
        let mut held = bound("held");
        held["metadata"]["finalizers"] = json!(["x/y"]);
        server.insert(held).unwrap();
        end(&server, "held", json!({ "gracePeriodSeconds": 2 })).await;
        sleep(SECOND * 3).await;
        let held = server.get(&PODS_RESOURCE, "default", "held").unwrap();
        assert_eq!(held["metadata"]["deletionGracePeriodSeconds"], 0);
        let version = server.version();
        sleep(SECOND * 60).await;
        assert_eq!(server.version(), version);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_happens_on_a_node_that_is_missing() {
        let (server, _acting) = with_nodes(1, KubeletOptions::new());
        server
            .insert(pod("missing", json!({ "nodeName": "node-2" })))
            .unwrap();
        sleep(SECOND * 2).await;
        assert_eq!(phase(&server, "missing").unwrap(), "Pending");
        let node = json!({ "kind": "Node", "apiVersion": "v1", "metadata": { "name": "node-2" } });
        server.insert(node).unwrap();
        sleep(MOMENT).await;
        assert_eq!(phase(&server, "missing").unwrap(), "Running");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_of_the_same_name_starts_anew() {
        let (server, _acting) = with_nodes(1, KubeletOptions::new().start_after(SECOND * 10));
        server.insert(bound("p")).unwrap();
        sleep(SECOND * 9).await;
        server.delete(&PODS_RESOURCE, "default", "p").unwrap();
        server.insert(bound("p")).unwrap();
        sleep(SECOND * 9).await;
        assert_eq!(phase(&server, "p").unwrap(), "Pending");
        sleep(SECOND * 2).await;
        assert_eq!(phase(&server, "p").unwrap(), "Running");
    }
}

mod scheduling {
    use super::*;

    fn with_nodes(count: usize) -> (Server, testkit::embedded::Acting) {
        let server = server();
        server.seed_nodes(count);
        let acting = server.run(Actors::new().scheduler());
        (server, acting)
    }

    fn change(server: &Server, node: &str, change: impl FnOnce(&mut Value)) {
        server.edit(&NODES_RESOURCE, "", node, change).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn pods_are_spread_over_the_nodes() {
        let (server, _acting) = with_nodes(3);
        server
            .insert(pod("there", json!({ "nodeName": "node-2" })))
            .unwrap();
        for name in ["a", "b", "c", "d"] {
            server.insert(pod(name, json!({}))).unwrap();
        }
        sleep(MOMENT).await;
        let nodes: Vec<Value> = ["a", "b", "c", "d"]
            .iter()
            .map(|name| node_of(&server, name))
            .collect();
        assert_eq!(nodes, ["node-1", "node-3", "node-1", "node-2"]);
        let a = server.get(&PODS_RESOURCE, "default", "a").unwrap();
        assert_eq!(condition(&a, "PodScheduled")["status"], "True");
        let owners = a["metadata"]["managedFields"].to_string();
        assert!(!owners.contains("f:nodeName"), "{owners}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_fits_nowhere_says_so_until_it_does() {
        let (server, _acting) = with_nodes(1);
        change(&server, "node-1", |node| {
            node["spec"]["unschedulable"] = json!(true);
        });
        server.insert(pod("p", json!({}))).unwrap();
        sleep(SECOND).await;
        let p = server.get(&PODS_RESOURCE, "default", "p").unwrap();
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
        let version = server.version();
        sleep(SECOND * 60).await;
        assert_eq!(server.version(), version);
        change(&server, "node-1", |node| {
            node["spec"]["unschedulable"] = json!(false);
        });
        sleep(MOMENT).await;
        assert_eq!(node_of(&server, "p"), "node-1");
    }

    #[tokio::test(start_paused = true)]
    async fn taints_selectors_and_room_decide_where_a_pod_fits() {
        let (server, _acting) = with_nodes(4);
        change(&server, "node-1", |node| {
            node["spec"]["taints"] = json!([{ "key": "k", "value": "v", "effect": "NoSchedule" }]);
        });
        change(&server, "node-2", |node| {
            node["spec"]["taints"] = json!([{ "key": "soft", "effect": "PreferNoSchedule" }]);
            node["status"]["allocatable"]["pods"] = json!("1");
        });
        change(&server, "node-3", |node| {
            node["metadata"]["labels"]["disk"] = json!("fast");
            node["spec"]["taints"] = json!([{ "key": "gone", "effect": "NoExecute" }]);
        });
        change(&server, "node-4", |node| {
            node["spec"]["unschedulable"] = json!(true);
        });
        server.insert(pod("a-plain", json!({}))).unwrap();
        server.insert(pod("b-no-room", json!({}))).unwrap();
        let tolerations = json!([{ "key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule" }]);
        server
            .insert(pod("c-tolerates", json!({ "tolerations": tolerations })))
            .unwrap();
        let tolerations = json!([{ "key": "k", "value": "other" }]);
        server
            .insert(pod("d-other", json!({ "tolerations": tolerations })))
            .unwrap();
        let anything = json!([{ "operator": "Exists" }]);
        let picky = json!({ "tolerations": anything, "nodeSelector": { "disk": "fast" } });
        server.insert(pod("e-selects", picky)).unwrap();
        let picky = json!({ "tolerations": anything, "nodeSelector": { "disk": "slow" } });
        server.insert(pod("f-nowhere", picky)).unwrap();
        server
            .insert(pod("g-cordoned", json!({ "tolerations": anything })))
            .unwrap();
        sleep(MOMENT).await;
        let nodes: Vec<Value> = names_of(&server, &PODS_RESOURCE)
            .iter()
            .map(|name| node_of(&server, name))
            .collect();
        assert_eq!(
            nodes,
            [
                json!("node-2"),
                Value::Null,
                json!("node-1"),
                Value::Null,
                json!("node-3"),
                Value::Null,
                json!("node-4"),
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn pods_that_wait_for_something_else_are_left_alone() {
        let (server, _acting) = with_nodes(1);
        for (name, spec) in [
            ("other", json!({ "schedulerName": "other" })),
            ("gated", json!({ "schedulingGates": [{ "name": "g" }] })),
            (
                "claims",
                json!({ "resourceClaims": [{ "name": "c", "resourceClaimName": "c" }] }),
            ),
        ] {
            server.insert(pod(name, spec)).unwrap();
        }
        let version = server.version();
        sleep(SECOND).await;
        assert_eq!(server.version(), version);
        server
            .insert(pod("mine", json!({ "schedulerName": "default-scheduler" })))
            .unwrap();
        sleep(MOMENT).await;
        assert_eq!(node_of(&server, "mine"), "node-1");
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_has_room_again_when_a_pod_is_done() {
        let (server, _acting) = with_nodes(1);
        change(&server, "node-1", |node| {
            node["status"]["allocatable"]["pods"] = json!("1");
        });
        server.insert(pod("a", json!({}))).unwrap();
        server.insert(pod("b", json!({}))).unwrap();
        sleep(MOMENT).await;
        assert_eq!(node_of(&server, "b"), Value::Null);
        let finish = |pod: &mut Value| pod["status"]["phase"] = json!("Succeeded");
        server.edit(&PODS_RESOURCE, "default", "a", finish).unwrap();
        sleep(MOMENT).await;
        assert_eq!(node_of(&server, "b"), "node-1");
    }
}

mod together {
    use super::*;

    fn set(replicas: u64) -> Value {
        let mut set = object("ReplicaSet", "apps/v1", "web", json!({}));
        set["spec"] = json!({
            "replicas": replicas,
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": {
                    "terminationGracePeriodSeconds": 30,
                    "containers": [{ "name": "c", "image": "i" }],
                },
            },
        });
        set
    }

    fn scale(server: &Server, replicas: u64) {
        server
            .edit(&REPLICA_SETS, "default", "web", |set| {
                set["spec"]["replicas"] = json!(replicas);
            })
            .unwrap();
    }

    fn status(server: &Server) -> Value {
        server.get(&REPLICA_SETS, "default", "web").unwrap()["status"].clone()
    }

    fn everybody() -> Actors {
        Actors::new()
            .garbage_collector()
            .scheduler()
            .kubelet(KubeletOptions::new().stop_within(SECOND * 5))
            .replica_sets()
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_set_keeps_as_many_pods_as_it_asks_for() {
        let server = server();
        server.seed_nodes(2);
        let _acting = server.run(everybody());
        let owner = server.insert(set(3)).unwrap();
        sleep(MOMENT).await;
        assert_eq!(
            status(&server),
            json!({ "replicas": 3, "fullyLabeledReplicas": 3, "observedGeneration": 1 })
        );
        sleep(SECOND * 2).await;
        assert_eq!(
            status(&server),
            json!({
                "replicas": 3,
                "fullyLabeledReplicas": 3,
                "readyReplicas": 3,
                "availableReplicas": 3,
                "observedGeneration": 1,
            })
        );
        let pods = server.list(&PODS_RESOURCE);
        let mut reference = owned_by(&owner, true);
        reference["controller"] = json!(true);
        for pod in &pods {
            assert_eq!(pod["metadata"]["ownerReferences"], json!([reference]));
            assert_eq!(pod["metadata"]["labels"], json!({ "app": "web" }));
            let name = pod["metadata"]["name"].as_str().unwrap();
            assert!(name.starts_with("web-") && name.len() == 9, "{name}");
        }
        // One that is deleted is replaced at once, one that is done as well.
        let name = |at: usize| pods[at]["metadata"]["name"].as_str().unwrap();
        delete(&server.client(), format!("{PODS}/{}", name(0)), Value::Null).await;
        sleep(MOMENT).await;
        assert_eq!(names_of(&server, &PODS_RESOURCE).len(), 4);
        sleep(SECOND * 6).await;
        assert_eq!(names_of(&server, &PODS_RESOURCE).len(), 3);
        assert_eq!(phase(&server, name(0)), None);
        server
            .edit(&PODS_RESOURCE, "default", name(1), |pod| {
                pod["status"]["phase"] = json!("Failed");
            })
            .unwrap();
        sleep(SECOND * 2).await;
        assert_eq!(names_of(&server, &PODS_RESOURCE).len(), 4);
        assert_eq!(status(&server)["readyReplicas"], 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_set_gives_up_the_pods_that_are_the_least_loss() {
        let server = server();
        server.seed_nodes(1);
        server
            .edit(&NODES_RESOURCE, "", "node-1", |node| {
                node["status"]["allocatable"]["pods"] = json!("2");
            })
            .unwrap();
        let _acting = server.run(everybody());
        server.insert(set(2)).unwrap();
        sleep(SECOND * 2).await;
        let running = names_of(&server, &PODS_RESOURCE);
        scale(&server, 4);
        sleep(SECOND * 2).await;
        assert_eq!(names_of(&server, &PODS_RESOURCE).len(), 4);
        scale(&server, 2);
        sleep(SECOND * 2).await;
        assert_eq!(names_of(&server, &PODS_RESOURCE), running);
        scale(&server, 0);
        sleep(SECOND * 10).await;
        assert_eq!(names_of(&server, &PODS_RESOURCE), Vec::<String>::new());
        assert_eq!(status(&server), json!({ "replicas": 0, "observedGeneration": 4 }));
    }

    #[tokio::test(start_paused = true)]
    async fn pods_go_with_their_replica_set() {
        let server = server();
        server.seed_nodes(2);
        let _acting = server.run(everybody());
        server.insert(set(3)).unwrap();
        sleep(SECOND * 2).await;
        let uri = "/apis/apps/v1/namespaces/default/replicasets/web";
        delete(
            &server.client(),
            uri,
            json!({ "propagationPolicy": "Foreground" }),
        )
        .await;
        sleep(SECOND * 4).await;
        // It waits for its pods, which take five seconds.
        assert!(server.get(&REPLICA_SETS, "default", "web").is_some());
        sleep(SECOND * 2).await;
        assert_eq!(server.get(&REPLICA_SETS, "default", "web"), None);
        assert_eq!(names_of(&server, &PODS_RESOURCE), Vec::<String>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn a_drained_node_is_empty_and_its_pods_run_elsewhere() {
        let server = server();
        server.seed_nodes(2);
        let _acting = server.run(everybody());
        server.insert(set(4)).unwrap();
        sleep(SECOND * 2).await;
        let client = server.client_as("kubectl/v1");
        let cordon = json!({ "spec": { "unschedulable": true } });
        patch(&client, format!("{NODES}/node-1"), STRATEGIC, cordon).await;
        let on_it = format!("{PODS}?fieldSelector=spec.nodeName%3Dnode-1");
        let pods = get(&client, &on_it).await.body;
        assert_eq!(names(&pods).len(), 2);
        for name in names(&pods) {
            delete(&client, format!("{PODS}/{name}"), Value::Null).await;
        }
        sleep(SECOND * 7).await;
        assert_eq!(names(&get(&client, &on_it).await.body), Vec::<&str>::new());
        assert_eq!(status(&server)["readyReplicas"], 4);
    }

    #[tokio::test(start_paused = true)]
    async fn what_actors_write_is_no_request() {
        let server = server();
        server.seed_nodes(1);
        let _acting = server.run(everybody());
        server.down();
        server.insert(set(1)).unwrap();
        sleep(SECOND * 2).await;
        server.up();
        let client = server.client();
        assert_eq!(
            get(&client, PODS).await.body["items"][0]["status"]["phase"],
            "Running"
        );
        assert_eq!(server.requests().lines(), ["list default/pods"]);
        let pod = &server.list(&PODS_RESOURCE)[0];
        let managers: Vec<&Value> = pod["metadata"]["managedFields"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| &entry["manager"])
            .collect();
        assert_eq!(managers, ["kube-controller-manager", "kubelet"]);
    }

    #[tokio::test(start_paused = true)]
    async fn actors_at_rest_write_nothing() {
        let server = server();
        server.seed_nodes(3);
        let _acting = server.run(everybody());
        server.insert(set(5)).unwrap();
        sleep(SECOND * 10).await;
        let version = server.version();
        sleep(Duration::from_hours(24)).await;
        assert_eq!(server.version(), version);
    }

    async fn history() -> Vec<String> {
        let server = server();
        let client = server.client();
        server.seed_nodes(3);
        let _acting = server.run(everybody());
        let mut watch = watch(&client, PODS, &server).await;
        server.insert(set(6)).unwrap();
        sleep(SECOND * 2).await;
        scale(&server, 2);
        sleep(SECOND * 10).await;
        server.delete(&REPLICA_SETS, "default", "web").unwrap();
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
        let server = server();
        server.seed_nodes(1);
        let _acting = server.run(
            Actors::new()
                .scheduler()
                .kubelet(KubeletOptions::new().start_after(MOMENT)),
        );
        let door = server.listen(0).await.unwrap();
        let config = kube::Config::new(door.url().parse().unwrap());
        let client = Client::try_from(config).unwrap();
        let mut watch = watch(&client, PODS, &server).await;
        create(&client, PODS, pod("p", json!({}))).await;
        loop {
            let event = watch.event().await;
            if event["object"]["status"]["phase"] == "Running" {
                break;
            }
        }
    }
}
