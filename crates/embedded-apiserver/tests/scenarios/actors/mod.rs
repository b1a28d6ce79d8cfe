//! Actors: other components of a cluster, run by the embedded server on request.

mod garbage_collection;
mod kubelets;
mod together;

use std::time::Duration;

use embedded_apiserver::{
    Acting, Actors, CONFIG_MAPS as MAPS, KubeletOptions, LEASES as LEASES_RESOURCE,
    NAMESPACES as NAMESPACES_RESOURCE, NODES as NODES_RESOURCE, PODS as PODS_RESOURCE, REPLICA_SETS,
    Resource, Server,
};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::http::*;
use crate::{objects, rows, server};

const SECOND: Duration = Duration::from_secs(1);
/// Shorter than any delay of an actor.
const MOMENT: Duration = Duration::from_millis(1);

/// A server with running actors.
struct Cluster {
    server: Server,
    _acting: Acting,
}

impl Cluster {
    /// A cluster with the nodes `node-1` to `node-<nodes>`.
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

    async fn delete(&self, uri: &str, options: Value) -> Value {
        delete(&self.server.client(), uri, options).await.body
    }

    /// A watch that starts now.
    async fn watch(&self, uri: &str) -> Watch {
        watch(&self.server.client(), uri, &self.server).await
    }

    /// Fails if anything is written during `time`.
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
