//! Namespaces: the initial ones, and the rule that objects need an existing one. Namespaces are deleted like any other
//! object: no controller empties them.

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::failure::StatusError;
use crate::managed_fields::{Part, Writer};
use crate::resource::table::NAMESPACES;
use crate::store::Store;
use crate::write::{Origin, SERVER_MANAGER, Write};

/// Namespaces of a new server.
const INITIAL: &[&str] = &["kube-system", "kube-public", "default", "kube-node-lease"];
/// Label with the namespace's own name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// The entry in `spec.finalizers` that holds a namespace until it is empty.
const CONTENT: &str = "kubernetes";

/// Creates the initial namespaces, as kube-apiserver does.
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

/// Creates a namespace unless it exists.
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

/// Labels a namespace with its name. Happens on each write, before fields get owners.
pub(crate) fn label(namespace: &mut Value) {
    let name = namespace["metadata"]["name"].clone();
    namespace["metadata"]["labels"][NAME_LABEL] = name;
}

/// Sets the fields of a new namespace that nobody owns.
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
    /// Refuses objects in a namespace that does not exist. For a test's direct writes, creates the namespace instead.
    pub(crate) fn check_namespace_exists(&mut self) -> Result<(), StatusError> {
        let is_there = || self.store.get(&NAMESPACES, self.namespace).is_some();
        match self.origin {
            _ if !self.resource.is_namespaced() || is_there() => Ok(()),
            Origin::Test => create_missing(self.store, self.namespace, self.writer, self.at),
            Origin::Client => Err(StatusError::not_found(&NAMESPACES, self.namespace)),
        }
    }
}
