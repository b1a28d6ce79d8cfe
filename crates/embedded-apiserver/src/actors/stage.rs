//! An actor's access to the server.

use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;

use super::follower::Follower;
use crate::failure::StatusError;
use crate::managed_fields::{Part, Writer};
use crate::resource::Resource;
use crate::shared::Shared;
use crate::store::Stored;
use crate::write::Write;
use crate::write::deletion::DeleteOptions;

/// The server, for one actor.
pub(super) struct Stage {
    shared: Arc<Shared>,
    manager: &'static str,
}

/// One incarnation of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) resource: &'static Resource,
    /// `namespace/name`, or `name` if the resource is cluster-scoped.
    pub(super) key: &'a str,
    pub(super) uid: &'a str,
}

impl Stage {
    pub(super) fn new(shared: Arc<Shared>, manager: &'static str) -> Self {
        Self { shared, manager }
    }

    pub(super) fn instant(&self) -> Instant {
        self.shared.clock.instant()
    }

    /// Wall time in the form of `metav1.Time`.
    pub(super) fn now(&self) -> String {
        self.shared.clock.now()
    }

    /// The served resources, without those that show another one's objects.
    pub(super) fn stored_resources(&self) -> Vec<&'static Resource> {
        let served = self.shared.served.read();
        served
            .iter()
            .copied()
            .filter(|resource| resource.alias.is_none())
            .collect()
    }

    /// The keys written since the last call for `follower`, with their current values; `None` for deleted objects.
    pub(super) fn look(&self, follower: &mut Follower) -> Vec<(Arc<str>, Option<Stored>)> {
        follower.look(&self.shared.store.lock())
    }

    /// Changes an object except for its status.
    pub(super) fn edit(
        &self,
        target: Target<'_>,
        change: impl FnOnce(&mut Value),
    ) -> Result<(), StatusError> {
        self.update(target, Part::main(target.resource), change)
    }

    pub(super) fn edit_status(
        &self,
        target: Target<'_>,
        change: impl FnOnce(&mut Value),
    ) -> Result<(), StatusError> {
        self.update(target, Part::Status, change)
    }

    pub(super) fn delete(&self, target: Target<'_>, options: DeleteOptions) -> Result<(), StatusError> {
        let options = options.of_uid(target.uid);
        self.write_to(target, Part::main(target.resource), |write| {
            write.delete(&options)
        })?;
        Ok(())
    }

    fn update(
        &self,
        target: Target<'_>,
        part: Part,
        change: impl FnOnce(&mut Value),
    ) -> Result<(), StatusError> {
        self.write_to(target, part, |write| {
            let mut object = incarnation(&write, target.uid)?;
            change(&mut object);
            write.update(object)
        })?;
        Ok(())
    }

    fn write_to<T>(
        &self,
        target: Target<'_>,
        part: Part,
        write: impl FnOnce(Write<'_>) -> Result<T, StatusError>,
    ) -> Result<T, StatusError> {
        let (namespace, name) = split(target.key);
        self.write(target.resource, namespace, name, part, write)
    }

    fn write<T>(
        &self,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
        part: Part,
        write: impl FnOnce(Write<'_>) -> Result<T, StatusError>,
    ) -> Result<T, StatusError> {
        let now = self.now();
        let at = self.instant();
        self.shared.write(|store| {
            let writer = Writer {
                manager: self.manager,
                now: &now,
            };
            write(Write {
                part,
                ..Write::new(store, resource, namespace, name, writer, at)
            })
        })
    }
}

/// Namespace and name of a key; the namespace is empty if the resource is cluster-scoped.
pub(super) fn split(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

/// The object, unless it was replaced by another of the same name.
fn incarnation(write: &Write<'_>, uid: &str) -> Result<Value, StatusError> {
    let object = write.current()?.object;
    if object["metadata"]["uid"] == uid {
        Ok(object)
    } else {
        Err(StatusError::not_found(write.resource, write.name))
    }
}
