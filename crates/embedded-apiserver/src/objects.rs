//! Objects past the doors: what a test writes and reads without a request.

use serde_json::Value;

use super::failure::StatusError;
use super::managed_fields::Writer;
use super::resource::Resource;
use super::resource::table::{NODES, PODS};
use super::write::deletion::DeleteOptions;
use super::write::{self, Origin, Write};
use super::{Server, seed};

/// The field manager of writes that a test makes directly.
const TEST_MANAGER: &str = "test";

/// Objects, past the doors. Writes count as those of a client named `test`; they are not recorded.
impl Server {
    /// The version of the last write.
    pub fn version(&self) -> u64 {
        self.shared.store.lock().version()
    }

    /// Creates an object, status included. `object` has `kind` and `apiVersion`; the namespace is
    /// `default` unless it says otherwise, and created if it is missing.
    pub fn insert(&self, object: Value) -> Result<Value, StatusError> {
        let resource = self.resource_of(&object)?;
        let namespace = object["metadata"]["namespace"]
            .as_str()
            .unwrap_or("default")
            .to_owned();
        let stored = self.writing(resource, &namespace, "", |write| write.create(object))?;
        Ok(write::served(resource, &stored))
    }

    /// Reads an object; `namespace` is ignored where there is none.
    pub fn get(&self, resource: &'static Resource, namespace: &str, name: &str) -> Option<Value> {
        let store = self.shared.store.lock();
        let stored = store.get(resource, &write::key(resource, namespace, name))?;
        Some(write::served(resource, stored))
    }

    /// All objects of a resource, in order of namespace and name.
    pub fn list(&self, resource: &'static Resource) -> Vec<Value> {
        let store = self.shared.store.lock();
        let all = store.all(resource, "");
        all.map(|(_, stored)| write::served(resource, stored)).collect()
    }

    /// Changes an object, status included, whatever its version.
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

    /// Changes an object into what its type cannot hold, as only a defect of a server or of its storage could. In
    /// protobuf a field that does not fit is in a format that none of Kubernetes has: who reads it refuses the object.
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

    /// Deletes an object with grace 0 and without thought of its dependents; one with finalizers stays
    /// until they are gone.
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

    /// Adds the nodes `node-1` to `node-<count>`, ready, about 5 KB of JSON each.
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

    /// Adds `count` running pods, about 11 KB of JSON each, spread evenly over the nodes that
    /// [`Self::seed_nodes`] made and over the namespaces `seed-0` to `seed-49`, twenty to a ReplicaSet.
    /// 150,000 of them take 2 GB of memory and a few seconds.
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
