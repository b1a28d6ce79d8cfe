//! Custom resource definitions: what becomes of them, and the resources that they stand for.
//!
//! The API server has controllers for this, which take a moment. Here all that they would do is done within
//! the write that gives them work, one write after the other, so that watches see the same steps.

mod names;
mod resource;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use parking_lot::RwLock;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::body::UNCHECKED;
use super::clock::Clock;
use super::conditions;
use super::deletion::DeleteOptions;
use super::managed_fields::{Part, Writer};
use super::object::{at, finalizers, items, set_at, text};
use super::resource::table::CUSTOM_RESOURCE_DEFINITIONS;
use super::resource::{Resource, Source};
use super::store::Store;
use super::write::{Origin, SERVER_MANAGER, Write, served};

/// The finalizer under which the objects of a deleted definition go first.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The definitions as far as they have been dealt with.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    /// The version of the store up to which they have.
    settled: u64,
    /// Whether a deleted one waits for its objects.
    waiting: bool,
    /// By name of the definition and version.
    resources: BTreeMap<(String, String), resource::Defined>,
}

impl Definitions {
    /// Deals with what was written since the last time.
    pub(super) fn settle(
        &mut self,
        store: &mut Store,
        shown: &RwLock<Vec<&'static Resource>>,
        clock: &Clock,
    ) {
        if !self.waiting && store.last_written(&CUSTOM_RESOURCE_DEFINITIONS) <= self.settled {
            return;
        }
        let mut server = ServersOwn {
            store,
            now: clock.now(),
            at: clock.instant(),
        };
        loop {
            let definitions = server.definitions();
            self.serve(&definitions, shown);
            let before = server.store.version();
            for definition in &definitions {
                if let Some(next) = self.next(definition, &definitions, &mut server) {
                    server.update(next);
                }
            }
            if server.store.version() == before {
                self.waiting = definitions.iter().any(is_deleted);
                break;
            }
        }
        self.settled = server.store.version();
    }

    /// What the controllers make of a definition; none if they leave it.
    fn next(&self, definition: &Value, all: &[Value], server: &mut ServersOwn<'_>) -> Option<Value> {
        let next = if is_deleted(definition) {
            self.clean_up(definition, server)?
        } else if definition["spec"]["names"] != definition["status"]["acceptedNames"] {
            names::accept(definition, all, &server.now)
        } else if conditions::is_true(definition, "NamesAccepted") {
            establish(definition, &server.now)
        } else {
            return None;
        };
        (next != *definition).then_some(next)
    }

    /// The steps from the deletion of a definition to its end; none while objects are left.
    fn clean_up(&self, definition: &Value, server: &mut ServersOwn<'_>) -> Option<Value> {
        if !finalizers(definition).contains(&json!(CLEANUP)) {
            return None;
        }
        let progress = conditions::find(definition, "Terminating").map(|condition| text(condition, "reason"));
        let mut next = definition.clone();
        if progress != Some("InstanceDeletionInProgress") {
            let message = "CustomResource deletion is in progress";
            let in_progress = terminating("True", "InstanceDeletionInProgress", message);
            conditions::set(&mut next, in_progress, &server.now);
            return Some(next);
        }
        let done = if conditions::is_true(definition, "Established") {
            let resource = self.any_version(definition)?;
            if server.delete_all(resource) > 0 {
                return None;
            }
            terminating("False", "InstanceDeletionCompleted", "removed all instances")
        } else {
            terminating("False", "NeverEstablished", "resource was never established")
        };
        conditions::set(&mut next, done, &server.now);
        let rest: Vec<Value> = finalizers(definition)
            .iter()
            .filter(|finalizer| **finalizer != json!(CLEANUP))
            .cloned()
            .collect();
        set_at(&mut next, "metadata.finalizers", json!(rest));
        Some(next)
    }

    fn any_version(&self, definition: &Value) -> Option<&'static Resource> {
        let name = text(&definition["metadata"], "name");
        self.resources
            .iter()
            .find(|((of, _), _)| of == name)
            .map(|(_, defined)| defined.resource)
    }

    /// Has the established definitions served, and no others.
    fn serve(&mut self, definitions: &[Value], shown: &RwLock<Vec<&'static Resource>>) {
        let mut before = std::mem::take(&mut self.resources);
        for definition in definitions {
            if !conditions::is_true(definition, "Established") {
                continue;
            }
            let name = text(&definition["metadata"], "name");
            for version in items(definition, "spec.versions") {
                let key = (name.to_owned(), text(version, "name").to_owned());
                let known = before.remove(&key);
                let defined = resource::Defined::of(definition, version, known);
                self.resources.insert(key, defined);
            }
        }
        let mut shown = shown.write();
        shown.retain(|resource| !matches!(resource.source, Source::Definition { .. }));
        shown.extend(
            self.resources
                .values()
                .filter(|defined| defined.is_served)
                .map(|defined| defined.resource),
        );
    }
}

/// The store, for writes that the server makes of its own accord.
struct ServersOwn<'a> {
    store: &'a mut Store,
    now: String,
    at: Instant,
}

impl ServersOwn<'_> {
    fn definitions(&self) -> Vec<Value> {
        let mut definitions = Vec::new();
        self.visit(&CUSTOM_RESOURCE_DEFINITIONS, |_, definition| {
            definitions.push(definition);
        });
        definitions
    }

    fn visit(&self, resource: &'static Resource, mut visit: impl FnMut(&str, Value)) {
        let version = self.store.version();
        let visited = self.store.visit(resource, "", None, version, |key, stored| {
            visit(key, served(resource, stored));
            ControlFlow::Continue(())
        });
        // The present is never compacted.
        debug_assert_eq!(visited, Ok(()));
    }

    /// Deletes all objects of a resource; returns how many are left because of finalizers.
    fn delete_all(&mut self, resource: &'static Resource) -> usize {
        let mut doomed = Vec::new();
        self.visit(resource, |key, object| {
            if !is_deleted(&object) {
                doomed.push(key.to_owned());
            }
        });
        for key in doomed {
            let (namespace, name) = key.split_once('/').unwrap_or(("", &key));
            let deleted = self
                .write(resource, namespace, name, Part::Whole)
                .delete(&DeleteOptions::at_once());
            debug_assert!(deleted.is_ok(), "{deleted:?}");
        }
        let mut left = 0;
        self.visit(resource, |_, _| left += 1);
        left
    }

    /// Writes the status of a definition.
    fn update(&mut self, definition: Value) {
        let name = text(&definition["metadata"], "name").to_owned();
        let written = self
            .write(&CUSTOM_RESOURCE_DEFINITIONS, "", &name, Part::Status)
            .update(definition.into());
        // It was read under the same lock.
        debug_assert!(written.is_ok(), "{written:?}");
    }

    fn write<'b>(
        &'b mut self,
        resource: &'static Resource,
        namespace: &'b str,
        name: &'b str,
        part: Part,
    ) -> Write<'b> {
        Write {
            store: &mut *self.store,
            resource,
            namespace,
            name,
            writer: Writer {
                manager: SERVER_MANAGER,
                now: &self.now,
            },
            at: self.at,
            origin: Origin::Client,
            part,
            dry_run: false,
            reading: &UNCHECKED,
            requester: None,
        }
    }
}

/// What the server adds to a definition when a client creates it.
pub(super) fn complete(definition: &mut Value) {
    let kind = at(definition, "spec.names.kind")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    for (path, value) in [
        ("spec.names.singular", json!(kind.to_lowercase())),
        ("spec.names.listKind", json!(format!("{kind}List"))),
        ("spec.conversion", json!({ "strategy": "None" })),
    ] {
        if at(definition, path).is_none() {
            set_at(definition, path, value);
        }
    }
    let stored: Vec<Value> = items(definition, "spec.versions")
        .iter()
        .filter(|version| version["storage"] == json!(true))
        .map(|version| version["name"].clone())
        .collect();
    definition["status"] = json!({
        "conditions": null,
        "acceptedNames": { "plural": "", "kind": "" },
        "storedVersions": stored,
    });
}

/// What the first delete of a definition makes of it.
pub(super) fn terminate(definition: &mut Value, now: &str) {
    let mut finalizers = finalizers(definition).to_vec();
    if !finalizers.contains(&json!(CLEANUP)) {
        finalizers.push(json!(CLEANUP));
    }
    set_at(definition, "metadata.finalizers", json!(finalizers));
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    let pending = terminating("True", "InstanceDeletionPending", message);
    conditions::set(definition, pending, now);
}

fn establish(definition: &Value, now: &str) -> Value {
    let mut next = definition.clone();
    conditions::set(
        &mut next,
        json!({
            "type": "Established",
            "status": "True",
            "reason": "InitialNamesAccepted",
            "message": "the initial names have been accepted",
        }),
        now,
    );
    next
}

fn terminating(status: &str, reason: &str, message: &str) -> Value {
    json!({ "type": "Terminating", "status": status, "reason": reason, "message": message })
}

fn is_deleted(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}
