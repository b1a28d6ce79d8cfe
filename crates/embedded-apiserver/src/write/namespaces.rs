//! Namespaces: the initial ones, and the rule that new objects need one that is not being terminated. Namespaces are
//! deleted like any other object: no controller empties them, and only a test makes one `Terminating`.

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::failure::StatusError;
use crate::managed_fields::{Part, Writer};
use crate::resource::table::NAMESPACES;
use crate::store::{Store, Stored};
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

fn is_terminating(namespace: &Stored) -> bool {
    let namespace: Value = serde_json::from_slice(&namespace.body).unwrap_or_default();
    namespace["status"]["phase"] == "Terminating"
}

impl Write<'_> {
    /// Refuses objects in a namespace that does not exist, or that is being terminated. For a test's direct writes,
    /// creates the missing namespace instead.
    pub(crate) fn check_namespace_takes(&mut self, name: &str) -> Result<(), StatusError> {
        if !self.resource.is_namespaced() {
            return Ok(());
        }
        let namespace = self.store.get(&NAMESPACES, self.namespace);
        match (namespace, self.origin) {
            (Some(namespace), _) if is_terminating(namespace) => {
                Err(StatusError::terminating(self.resource, self.namespace, name))
            }
            (Some(_), _) => Ok(()),
            (None, Origin::Test) => create_missing(self.store, self.namespace, self.writer, self.at),
            (None, Origin::Client) => Err(StatusError::not_found(&NAMESPACES, self.namespace)),
        }
    }
}
