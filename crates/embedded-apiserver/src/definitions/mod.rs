//! Custom resource definitions, and the resources that they define.
//!
//! kube-apiserver has controllers for this, which take a moment. Here the write of a definition does their work at
//! once: it accepts all names, and a deleted definition takes its objects with it.

mod resource;

use std::collections::BTreeMap;

use parking_lot::RwLock;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::clock::Clock;
use crate::conditions;
use crate::managed_fields::{Part, Writer};
use crate::object::{items, set_at, text};
use crate::resource::table::CUSTOM_RESOURCE_DEFINITIONS;
use crate::resource::{Resource, Source};
use crate::store::Store;
use crate::write::{SERVER_MANAGER, Write, served};

/// The definitions processed so far.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    /// Version of the store up to which definitions are processed.
    settled: u64,
    /// By name of the definition and name of the version.
    resources: BTreeMap<(String, String), resource::Defined>,
}

impl Definitions {
    /// Processes the definitions written since the last call.
    pub(super) fn settle(
        &mut self,
        store: &mut Store,
        shown: &RwLock<Vec<&'static Resource>>,
        clock: &Clock,
    ) {
        if store.last_written(&CUSTOM_RESOURCE_DEFINITIONS) <= self.settled {
            return;
        }
        let (now, at) = (clock.now(), clock.instant());
        for definition in definitions(store) {
            let is_established = conditions::is_true(&definition, "Established");
            if !is_established || definition["spec"]["names"] != definition["status"]["acceptedNames"] {
                update(store, established(definition, &now), &now, at);
            }
        }
        self.serve(store, shown, at);
        self.settled = store.version();
    }

    /// Serves the resources of the stored definitions, and removes the objects of deleted ones.
    fn serve(&mut self, store: &mut Store, shown: &RwLock<Vec<&'static Resource>>, at: Instant) {
        let mut before = std::mem::take(&mut self.resources);
        for definition in definitions(store) {
            let name = text(&definition["metadata"], "name");
            for version in items(&definition, "spec.versions") {
                let key = (name.to_owned(), text(version, "name").to_owned());
                let known = before.remove(&key);
                let defined = resource::Defined::of(&definition, version, known);
                self.resources.insert(key, defined);
            }
        }
        for ((name, _), gone) in before {
            if !self.resources.keys().any(|(known, _)| *known == name) {
                remove_all(store, gone.resource, at);
            }
        }
        let mut shown = shown.write();
        shown.retain(|resource| resource.source != Source::Definition);
        shown.extend(
            self.resources
                .values()
                .filter(|defined| defined.is_served)
                .map(|defined| defined.resource),
        );
    }
}

fn definitions(store: &Store) -> Vec<Value> {
    let all = store.all(&CUSTOM_RESOURCE_DEFINITIONS, "");
    all.map(|(_, stored)| served(&CUSTOM_RESOURCE_DEFINITIONS, stored))
        .collect()
}

/// The definition with its names accepted, established.
fn established(mut definition: Value, now: &str) -> Value {
    let names = definition["spec"]["names"].clone();
    set_at(&mut definition, "status.acceptedNames", names);
    let stored: Vec<Value> = items(&definition, "spec.versions")
        .iter()
        .filter(|version| version["storage"] == json!(true))
        .map(|version| version["name"].clone())
        .collect();
    set_at(&mut definition, "status.storedVersions", json!(stored));
    for (kind, reason, message) in [
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        (
            "Established",
            "InitialNamesAccepted",
            "the initial names have been accepted",
        ),
    ] {
        let condition = json!({ "type": kind, "status": "True", "reason": reason, "message": message });
        conditions::set(&mut definition, condition, now);
    }
    definition
}

fn update(store: &mut Store, definition: Value, now: &str, at: Instant) {
    let name = text(&definition["metadata"], "name").to_owned();
    let writer = Writer {
        manager: SERVER_MANAGER,
        now,
    };
    let written = Write {
        part: Part::Status,
        ..Write::new(store, &CUSTOM_RESOURCE_DEFINITIONS, "", &name, writer, at)
    }
    .update(definition);
    // Cannot fail: the definition was read under the same lock.
    debug_assert!(written.is_ok(), "{written:?}");
}

fn remove_all(store: &mut Store, resource: &'static Resource, at: Instant) {
    let all = store.all(resource, "");
    let all: Vec<_> = all
        .map(|(key, stored)| (key.clone(), stored.body.clone()))
        .collect();
    for (key, body) in all {
        store.remove(
            resource,
            &key,
            serde_json::from_slice(&body).unwrap_or_default(),
            at,
        );
    }
}
