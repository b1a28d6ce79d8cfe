//! Direct access of a test to objects, without requests.

use serde_json::Value;

use super::failure::StatusError;
use super::managed_fields::Writer;
use super::object::remove;
use super::resource::Resource;
use super::resource::table::{NODES, PODS};
use super::store::{Store, Stored};
use super::write::deletion::DeleteOptions;
use super::write::{self, Origin, Write};
use super::{Server, seed};

/// Field manager of a test's direct writes.
const TEST_MANAGER: &str = "test";

/// Direct access to objects, bypassing the transports. The field manager of writes is `test`; they are not recorded.
impl Server {
    /// The resourceVersion of the last write.
    pub fn version(&self) -> u64 {
        self.shared.store.lock().version()
    }

    /// Creates an object, including its status. `object` needs `kind` and `apiVersion`; the default namespace is
    /// `default`, and a missing namespace is created.
    pub fn insert(&self, object: Value) -> Result<Value, StatusError> {
        let resource = self.resource_of(&object)?;
        let namespace = object["metadata"]["namespace"]
            .as_str()
            .unwrap_or("default")
            .to_owned();
        let stored = self.writing(resource, &namespace, "", |write| write.create(object))?;
        Ok(write::served(resource, &stored))
    }

    /// Replaces everything by `objects`, each with its own metadata (uid, version, times), as etcd after a restore; the
    /// last write was `version`. Missing namespaces are created. Watches from before do not notice.
    pub fn restore(&self, objects: Vec<Value>, version: u64) -> Result<(), StatusError> {
        self.shared.write(Store::clear);
        for mut object in objects {
            let (resource, given) = (self.resource_of(&object)?, object["metadata"].clone());
            remove(&mut object["metadata"], "resourceVersion");
            let mut object = self.insert(object)?;
            let given = given.as_object().into_iter().flatten();
            let given = given.filter(|(_, value)| !value.is_null());
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.extend(given.map(|(name, value)| (name.clone(), value.clone())));
            }
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            let key = write::key(resource, text("namespace"), text("name"));
            let version = text("resourceVersion").parse().unwrap_or(version);
            let body = write::to_stored(resource, object).to_string().into();
            self.shared
                .write(|store| store.restore(resource, &key, Stored { version, body }));
        }
        self.shared.write(|store| store.restart_at(version));
        Ok(())
    }

    /// Reads an object; `None` if it does not exist. `namespace` is ignored for cluster-scoped resources.
    pub fn get(&self, resource: &'static Resource, namespace: &str, name: &str) -> Option<Value> {
        let store = self.shared.store.lock();
        let stored = store.get(resource, &write::key(resource, namespace, name))?;
        Some(write::served(resource, stored))
    }

    /// All objects of a resource, sorted by namespace and name.
    pub fn list(&self, resource: &'static Resource) -> Vec<Value> {
        let store = self.shared.store.lock();
        let all = store.all(resource, "");
        all.map(|(_, stored)| write::served(resource, stored)).collect()
    }

    /// Changes an object, including its status, whatever its version.
    pub fn edit(
        &self,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
        edit: impl FnOnce(&mut Value),
    ) -> Result<Value, StatusError> {
        let mut object = self
            .get(resource, namespace, name)
            .ok_or_else(|| StatusError::not_found(resource, name))?;
        edit(&mut object);
        let stored = self.writing(resource, namespace, name, |write| write.update(object))?;
        Ok(write::served(resource, &stored))
    }

    /// Changes an object without validation, so that its type cannot hold it, as after a bug in a server or its
    /// storage. In protobuf, such a field has a wire format that no field of Kubernetes has, so readers refuse the
    /// object.
    pub fn spoil(
        &self,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
        spoil: impl FnOnce(&mut Value),
    ) -> Result<(), StatusError> {
        let mut object = self
            .get(resource, namespace, name)
            .ok_or_else(|| StatusError::not_found(resource, name))?;
        if let Some(fields) = object.as_object_mut() {
            fields.remove("kind");
            fields.remove("apiVersion");
        }
        spoil(&mut object);
        let at = self.shared.clock.instant();
        let key = write::key(resource, namespace, name);
        self.shared.write(|store| store.put(resource, &key, object, at));
        Ok(())
    }

    /// Deletes an object with grace period 0 and without its dependents; an object with finalizers stays until they are
    /// removed.
    pub fn delete(
        &self,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
    ) -> Result<(), StatusError> {
        self.writing(resource, namespace, name, |write| {
            write.delete(&DeleteOptions::at_once())
        })?;
        Ok(())
    }

    /// Adds the ready nodes `node-1` to `node-<count>`, about 5 KB of JSON each.
    pub fn seed_nodes(&self, count: usize) {
        let (now, at) = (self.shared.clock.now(), self.shared.clock.instant());
        let nodes = seed::Nodes::new();
        self.shared.write(|store| {
            for number in 1..=count {
                let identity = store.next_identity();
                let key = format!("node-{number}");
                store.put_rendered(&NODES, &key, at, |version| {
                    nodes.node(number, identity, version, &now)
                });
            }
        });
    }

    /// Adds `count` running pods, about 11 KB of JSON each, spread evenly over the existing nodes and over the
    /// namespaces `seed-0` to `seed-49`, twenty per ReplicaSet. 150,000 pods take 2 GB of memory and a few seconds.
    pub fn seed_pods(&self, count: usize) {
        let (now, at) = (self.shared.clock.now(), self.shared.clock.instant());
        self.shared.write(|store| {
            let pods = seed::Pods::new(store.count(&NODES));
            let first = store.count(&PODS) + 1;
            for number in first..first + count {
                let (namespace, name) = seed::Pods::place(number);
                let writer = Writer {
                    manager: TEST_MANAGER,
                    now: &now,
                };
                let created = write::namespaces::create_missing(store, &namespace, writer, at);
                debug_assert_eq!(created, Ok(()));
                let identity = store.next_identity();
                let key = write::key(&PODS, &namespace, &name);
                store.put_rendered(&PODS, &key, at, |version| {
                    pods.pod(number, identity, version, &now)
                });
            }
        });
    }

    fn resource_of(&self, object: &Value) -> Result<&'static Resource, StatusError> {
        self.shared
            .served
            .read()
            .iter()
            .copied()
            .find(|resource| {
                object["kind"] == resource.kind && object["apiVersion"] == resource.api_version()
            })
            .ok_or_else(StatusError::no_such_resource)
    }

    fn writing<T>(
        &self,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
        write: impl FnOnce(Write<'_>) -> Result<T, StatusError>,
    ) -> Result<T, StatusError> {
        let (now, at) = (self.shared.clock.now(), self.shared.clock.instant());
        self.shared.write(|store| {
            let writer = Writer {
                manager: TEST_MANAGER,
                now: &now,
            };
            write(Write {
                origin: Origin::Test,
                ..Write::new(store, resource, namespace, name, writer, at)
            })
        })
    }
}
