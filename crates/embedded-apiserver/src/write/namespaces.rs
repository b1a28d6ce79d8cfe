//! Namespaces: which there are from the start, and that objects are created in those that exist. They are deleted
//! like any other object: no controller empties them.

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::failure::StatusError;
use crate::managed_fields::{Part, Writer};
use crate::resource::table::NAMESPACES;
use crate::store::Store;
use crate::write::{Origin, SERVER_MANAGER, Write};

/// Those that every server starts with.
const INITIAL: &[&str] = &["kube-system", "kube-public", "default", "kube-node-lease"];
/// The label with the name of the namespace.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// What a namespace says that it waits for until it is empty.
const CONTENT: &str = "kubernetes";

/// Creates the namespaces that a server starts with, as kube-apiserver does.
pub(crate) fn create_initial(store: &mut Store, now: &str, at: Instant) {
    let writer = Writer {
        manager: SERVER_MANAGER,
        now,
    };
    for name in INITIAL {
        let created = create_missing(store, name, writer, at);
        debug_assert_eq!(created, Ok(()));
    }
}

/// Creates a namespace unless there is one of this name.
pub(crate) fn create_missing(
    store: &mut Store,
    name: &str,
    writer: Writer<'_>,
    at: Instant,
) -> Result<(), StatusError> {
    if store.get(&NAMESPACES, name).is_some() {
        return Ok(());
    }
    Write {
        part: Part::WithoutStatus,
        ..Write::new(store, &NAMESPACES, "", "", writer, at)
    }
    .create(json!({ "metadata": { "name": name } }))?;
    Ok(())
}

/// What is done to every written namespace before its owners are known: it is labelled with its name.
pub(crate) fn label(namespace: &mut Value) {
    let name = namespace["metadata"]["name"].clone();
    namespace["metadata"]["labels"][NAME_LABEL] = name;
}

/// What a new namespace gets that nobody owns.
pub(crate) fn activate(namespace: &mut Value) {
    let finalizers = namespace["spec"]["finalizers"].as_array();
    let mut finalizers = finalizers.cloned().unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == CONTENT) {
        finalizers.push(json!(CONTENT));
    }
    namespace["spec"]["finalizers"] = Value::Array(finalizers);
    if namespace["status"].get("phase").is_none() {
        namespace["status"]["phase"] = json!("Active");
    }
}

impl Write<'_> {
    /// Objects are created in namespaces that exist. A test that inserts past the rules gets a missing namespace
    /// with the object.
    pub(crate) fn check_namespace_exists(&mut self) -> Result<(), StatusError> {
        let is_there = || self.store.get(&NAMESPACES, self.namespace).is_some();
        match self.origin {
            _ if !self.resource.is_namespaced() || is_there() => Ok(()),
            Origin::Test => create_missing(self.store, self.namespace, self.writer, self.at),
            Origin::Client => Err(StatusError::not_found(&NAMESPACES, self.namespace)),
        }
    }
}
