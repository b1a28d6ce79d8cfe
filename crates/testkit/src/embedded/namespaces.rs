//! Namespaces: which there are from the start, what may be created in them, and how they end
//! (kubernetes `registry/core/namespace`, apiserver `admission/plugin/namespace/lifecycle`).

use serde_json::{Value, json};
use tokio::time::Instant;

use super::body::UNCHECKED;
use super::deletion::{DeleteOptions, Deleted, FOREGROUND, ORPHAN, Propagation, set_finalizers};
use super::failure::{Cause, Failure};
use super::managed_fields::{Part, Writer};
use super::object::{finalizers, keep, text};
use super::resource::table::NAMESPACES;
use super::store::Store;
use super::write::{Current, Origin, Write, key, served};

/// Those that every server starts with.
const INITIAL: &[&str] = &["kube-system", "kube-public", "default", "kube-node-lease"];
/// Those that cannot be deleted.
const IMMORTAL: &[&str] = &["default", "kube-system", "kube-public"];
/// The label with the name of the namespace.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// What a namespace waits for until it is empty.
const CONTENT: &str = "kubernetes";

/// Creates the namespaces that a server starts with, as kube-apiserver does.
pub(super) fn create_initial(store: &mut Store, now: &str, at: Instant) {
    let writer = Writer {
        manager: "kube-apiserver",
        now,
    };
    for name in INITIAL {
        let created = create_missing(store, name, writer, at);
        debug_assert_eq!(created, Ok(()));
    }
}

/// Creates a namespace unless there is one of this name.
pub(super) fn create_missing(
    store: &mut Store,
    name: &str,
    writer: Writer<'_>,
    at: Instant,
) -> Result<(), Failure> {
    if store.get(&NAMESPACES, name).is_some() {
        return Ok(());
    }
    Write {
        store,
        resource: &NAMESPACES,
        namespace: "",
        name: "",
        writer,
        at,
        origin: Origin::Client,
        part: Part::WithoutStatus,
        dry_run: false,
        reading: &UNCHECKED,
        requester: None,
    }
    .create(json!({ "metadata": { "name": name } }).into())?;
    Ok(())
}

/// What is done to every written namespace before its owners are known: it is labelled with its name.
pub(super) fn label(namespace: &mut Value) {
    let name = namespace["metadata"]["name"].clone();
    namespace["metadata"]["labels"][NAME_LABEL] = name;
}

/// What a new namespace gets that nobody owns.
pub(super) fn activate(namespace: &mut Value, part: Part) {
    let mut waits_for: Vec<Value> = namespace["spec"]["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    if !waits_for.iter().any(|finalizer| finalizer == CONTENT) {
        waits_for.push(json!(CONTENT));
    }
    namespace["spec"]["finalizers"] = Value::Array(waits_for);
    if part != Part::Whole || namespace["status"].get("phase").is_none() {
        namespace["status"]["phase"] = json!("Active");
    }
}

/// What an update of a namespace cannot change: only `finalize` changes what it waits for.
pub(super) fn keep_spec(namespace: &mut Value, old: &Value, part: Part) {
    if let Some(namespace) = namespace.as_object_mut() {
        match part {
            Part::WithoutStatus => keep(namespace, old, "spec"),
            Part::Finalize => {
                keep(namespace, old, "status");
                namespace.entry("spec").or_insert_with(|| json!({}));
            }
            Part::Whole | Part::Status | Part::Scale => {}
        }
    }
}

/// What the subresources of a namespace may write.
pub(super) fn check(namespace: &Value, name: &str, part: Part) -> Result<(), Failure> {
    match part {
        Part::Whole | Part::WithoutStatus | Part::Scale => Ok(()),
        Part::Status => check_phase(namespace, name),
        Part::Finalize => check_spec_finalizers(namespace, name),
    }
}

/// The phase must agree with `deletionTimestamp`.
fn check_phase(namespace: &Value, name: &str) -> Result<(), Failure> {
    let phase = text(&namespace["status"], "phase");
    let (wanted, filled) = if namespace["metadata"].get("deletionTimestamp").is_some() {
        ("Terminating", "is not empty")
    } else {
        ("Active", "is empty")
    };
    if phase == wanted {
        return Ok(());
    }
    Err(Failure::invalid(
        &NAMESPACES,
        name,
        "FieldValueInvalid",
        "status.Phase",
        &format!("Invalid value: \"{phase}\": may only be '{wanted}' if `deletionTimestamp` {filled}"),
    ))
}

/// The names in `spec.finalizers` are `kubernetes` or have a domain.
fn check_spec_finalizers(namespace: &Value, name: &str) -> Result<(), Failure> {
    let waits_for = namespace["spec"]["finalizers"].as_array().into_iter().flatten();
    for (at, finalizer) in waits_for.enumerate() {
        let finalizer = finalizer.as_str().unwrap_or_default();
        if !finalizer.contains('/') && ![CONTENT, ORPHAN, FOREGROUND].contains(&finalizer) {
            return Err(Failure::invalid(
                &NAMESPACES,
                name,
                "FieldValueInvalid",
                &format!("spec.finalizers[{at}]"),
                &format!(
                    "Invalid value: \"{finalizer}\": name is neither a standard finalizer name nor is it fully \
                     qualified"
                ),
            ));
        }
    }
    Ok(())
}

impl Write<'_> {
    /// Objects are created in namespaces that exist and are to stay. A test that inserts past the rules
    /// gets a missing namespace with the object.
    pub(super) fn check_lifecycle(&mut self, metadata: &Value) -> Result<(), Failure> {
        if !self.resource.is_namespaced() {
            return Ok(());
        }
        let found = self.store.get(&NAMESPACES, self.namespace);
        let is_terminating =
            found.map(|stored| served(&NAMESPACES, stored)["status"]["phase"] == "Terminating");
        match (is_terminating, self.origin) {
            (None, Origin::Test) => create_missing(self.store, self.namespace, self.writer, self.at),
            (None, Origin::Client) => Err(Failure::not_found(&NAMESPACES, self.namespace)),
            (Some(true), Origin::Client) => Err(self.is_terminating(metadata)),
            _ => Ok(()),
        }
    }

    fn is_terminating(&self, metadata: &Value) -> Failure {
        let names = [text(metadata, "name"), text(metadata, "generateName"), "Unknown"];
        let name = names
            .into_iter()
            .find(|name| !name.is_empty())
            .unwrap_or_default();
        let namespace = self.namespace;
        Failure::forbidden(
            self.resource,
            name,
            &format!("unable to create new content in namespace {namespace} because it is being terminated"),
        )
        .because(&Cause {
            reason: "NamespaceTerminating",
            field: "metadata.namespace".to_owned(),
            message: format!("namespace {namespace} is being terminated"),
        })
    }

    /// The first delete starts the end of a namespace, a later one completes it once nothing is waited for.
    pub(super) fn delete_namespace(
        mut self,
        current: Current,
        options: &DeleteOptions,
    ) -> Result<Deleted, Failure> {
        self.check_namespace_preconditions(&current, options)?;
        let mut namespace = current.object.clone();
        if namespace["metadata"].get("deletionTimestamp").is_some() {
            let waits = namespace["spec"]["finalizers"]
                .as_array()
                .is_some_and(|left| !left.is_empty());
            return if waits {
                Ok(Deleted::Waiting(current.stored))
            } else {
                self.delete_object(current, options)
            };
        }
        if IMMORTAL.contains(&self.name) {
            let why = "this namespace may not be deleted";
            return Err(Failure::forbidden(self.resource, self.name, why));
        }
        namespace["metadata"]["deletionTimestamp"] = json!(self.writer.now);
        namespace["status"]["phase"] = json!("Terminating");
        let after = finalizers_after(finalizers(&namespace), options);
        set_finalizers(&mut namespace, after);
        let key = key(self.resource, self.namespace, self.name);
        Ok(Deleted::Waiting(self.put(&key, namespace)))
    }

    fn check_namespace_preconditions(
        &self,
        current: &Current,
        options: &DeleteOptions,
    ) -> Result<(), Failure> {
        let found = [
            (
                "UID",
                &options.preconditions.uid,
                text(&current.object["metadata"], "uid").to_owned(),
            ),
            (
                "ResourceVersion",
                &options.preconditions.version,
                current.stored.version.to_string(),
            ),
        ];
        for (field, wanted, found) in found {
            if let Some(wanted) = wanted.as_ref().filter(|wanted| **wanted != found) {
                return Err(Failure::storage_precondition(
                    self.resource,
                    self.name,
                    &format!(
                        "Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}"
                    ),
                ));
            }
        }
        Ok(())
    }
}

/// The finalizers of a namespace that starts to end; those that the options do not name stay.
fn finalizers_after(own: &[Value], options: &DeleteOptions) -> Vec<Value> {
    let wanted = |finalizer: &str| {
        let asked = match (options.orphan_dependents, options.propagation) {
            (Some(orphan), _) => Some(if orphan { ORPHAN } else { FOREGROUND }),
            (None, Some(Propagation::Orphan)) => Some(ORPHAN),
            (None, Some(Propagation::Foreground)) => Some(FOREGROUND),
            (None, Some(Propagation::Background)) => Some(""),
            (None, None) => None,
        };
        asked.map_or_else(
            || own.iter().any(|name| name == finalizer),
            |asked| asked == finalizer,
        )
    };
    let others = own.iter().filter(|name| *name != ORPHAN && *name != FOREGROUND);
    let collectors = [ORPHAN, FOREGROUND]
        .into_iter()
        .filter(|finalizer| wanted(finalizer));
    others.cloned().chain(collectors.map(Value::from)).collect()
}
