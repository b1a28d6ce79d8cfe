//! `metadata.managedFields`: which client wrote which field last.
//!
//! An update moves the leaves that it added or changed to its manager; those that it removed leave every
//! manager. An apply says what its manager wants from now on, see [`apply`].

pub(super) mod apply;
mod compare;
mod fields;

use serde_json::{Value, json};

use crate::object::{keep, text};
use crate::resource::Resource;
use crate::schema::Schema;
use compare::Difference;
use fields::Fields;

/// Who wrote, and when, as RFC 3339 in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writer<'a> {
    pub(super) manager: &'a str,
    pub(super) now: &'a str,
}

/// Which part of the object a write owns fields in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it.
    Whole,
    /// All but `status`, which the main resource does not write.
    WithoutStatus,
    /// What the `status` subresource writes: `status` and metadata.
    Status,
}

impl Part {
    /// What the main resource writes.
    pub(super) fn main(resource: &Resource) -> Self {
        if resource.has_status() {
            Self::WithoutStatus
        } else {
            Self::Whole
        }
    }

    /// The subresource that writes of this part name in their entries.
    fn subresource(self) -> Option<&'static str> {
        match self {
            Self::Whole | Self::WithoutStatus => None,
            Self::Status => Some("status"),
        }
    }

    /// Leaves out the fields that writes of this part do not change.
    fn restrict(self, fields: &mut Fields) {
        match self {
            Self::Whole => {}
            Self::WithoutStatus => {
                fields.below.remove("f:status");
            }
            Self::Status => fields
                .below
                .retain(|element, _| matches!(element.as_str(), "f:metadata" | "f:status")),
        }
    }
}

/// Fields that belong to the server.
const UNOWNED: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata",
    "metadata.creationTimestamp",
    "metadata.deletionGracePeriodSeconds",
    "metadata.deletionTimestamp",
    "metadata.generation",
    "metadata.managedFields",
    "metadata.name",
    "metadata.namespace",
    "metadata.resourceVersion",
    "metadata.selfLink",
    "metadata.uid",
];

/// The fields of one manager.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    manager: String,
    operation: Operation,
    api_version: String,
    subresource: Option<String>,
    time: Option<String>,
    fields: Fields,
}

/// How a manager came by its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Operation {
    Apply,
    Update,
}

/// Rewrites the managed fields of `new`, an object about to replace `old`, or nothing.
pub(super) fn track(
    resource: &Resource,
    old: Option<&Value>,
    new: &mut Value,
    part: Part,
    writer: Writer<'_>,
) {
    let schema = resource.schema();
    let mut entries = take_entries(new);
    // What was not tracked from the start is not tracked at all, until somebody applies.
    if old.is_some() && entries.is_empty() {
        return;
    }
    let difference = match old {
        Some(old) => difference(schema, old, new, part),
        None => difference(schema, &schema.zero(), new, part),
    };
    give_to_writer(&mut entries, resource, &difference, part, writer);
    put_entries(new, entries);
}

/// Decides whose managed fields `new` starts from: its own, where a client sends some that can be read, or
/// those of `old`, the object that it replaces. A single empty entry asks for none.
pub(super) fn choose(old: &Value, new: &mut Value, part: Part) {
    let sent = new["metadata"].get("managedFields").and_then(Value::as_array);
    let is_reset = sent.is_some_and(|entries| entries.iter().all(|entry| *entry == json!({})));
    let is_usable = sent.is_some_and(|entries| entries.iter().all(is_readable));
    let Some(metadata) = new["metadata"].as_object_mut() else {
        return;
    };
    if part == Part::Status || !(is_reset || is_usable) {
        keep(metadata, &old["metadata"], "managedFields");
    } else if is_reset {
        metadata.remove("managedFields");
    }
}

fn is_readable(entry: &Value) -> bool {
    (entry["operation"] == "Apply" || entry["operation"] == "Update")
        && !text(entry, "apiVersion").is_empty()
        && entry["fieldsType"] == "FieldsV1"
}

/// What a write of `part` changed.
fn difference(schema: Schema, old: &Value, new: &Value, part: Part) -> Difference {
    let mut difference = Difference::between(schema, old, new);
    let unowned = Fields::of(UNOWNED);
    for fields in [&mut difference.changed, &mut difference.removed] {
        part.restrict(fields);
        fields.disown(&unowned);
    }
    difference
}

fn give_to_writer(
    entries: &mut Vec<Entry>,
    resource: &Resource,
    difference: &Difference,
    part: Part,
    writer: Writer<'_>,
) {
    let api_version = resource.api_version();
    // The versions of a custom resource have the same fields.
    let concerned = |entry: &&mut Entry| entry.api_version == api_version || resource.is_custom();
    for entry in entries.iter_mut().filter(concerned) {
        entry.fields.disown(&difference.changed);
        entry.fields.disown(&difference.removed);
    }
    if !difference.changed.is_empty() {
        let subresource = part.subresource().map(str::to_owned);
        let own = entries.iter_mut().find(|entry| {
            entry.operation == Operation::Update
                && entry.manager == writer.manager
                && entry.api_version == api_version
                && entry.subresource == subresource
        });
        let time = Some(writer.now.to_owned());
        let fields = difference.changed.clone();
        match own {
            Some(own) => {
                own.fields.extend(fields);
                own.time = time;
            }
            None => entries.push(Entry {
                manager: writer.manager.to_owned(),
                operation: Operation::Update,
                api_version,
                subresource,
                time,
                fields,
            }),
        }
    }
}

/// Takes the entries out of an object.
fn take_entries(object: &mut Value) -> Vec<Entry> {
    let entries = object["metadata"]
        .as_object_mut()
        .and_then(|metadata| metadata.remove("managedFields"));
    match entries {
        Some(Value::Array(entries)) => entries.iter().map(Entry::from_json).collect(),
        _ => Vec::new(),
    }
}

/// Puts the entries that own something into an object, in their order: what was applied first, then by time.
fn put_entries(object: &mut Value, mut entries: Vec<Entry>) {
    entries.retain(|entry| !entry.fields.is_empty());
    entries.sort_by(|a, b| a.rank().cmp(&b.rank()));
    if !entries.is_empty() {
        object["metadata"]["managedFields"] = entries.iter().map(Entry::to_json).collect();
    }
}

impl Entry {
    fn rank(&self) -> (Operation, &Option<String>, &str, &str, &Option<String>) {
        (
            self.operation,
            &self.time,
            &self.manager,
            &self.api_version,
            &self.subresource,
        )
    }

    fn from_json(entry: &Value) -> Self {
        let text = |field: &str| entry.get(field).and_then(Value::as_str).map(str::to_owned);
        Self {
            manager: text("manager").unwrap_or_default(),
            operation: if entry["operation"] == "Apply" {
                Operation::Apply
            } else {
                Operation::Update
            },
            api_version: text("apiVersion").unwrap_or_default(),
            subresource: text("subresource"),
            time: text("time"),
            fields: Fields::from_json(&entry["fieldsV1"]),
        }
    }

    fn to_json(&self) -> Value {
        let mut entry = json!({
            "manager": self.manager,
            "operation": match self.operation {
                Operation::Apply => "Apply",
                Operation::Update => "Update",
            },
            "apiVersion": self.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.to_json(),
        });
        if let Some(time) = &self.time {
            entry["time"] = json!(time);
        }
        if let Some(subresource) = &self.subresource {
            entry["subresource"] = json!(subresource);
        }
        entry
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::NODES;

    fn owned(object: &Value) -> Value {
        object["metadata"]["managedFields"]
            .as_array()
            .map(|entries| {
                entries
                    .iter()
                    .map(|entry| {
                        (
                            entry["manager"].as_str().unwrap().to_owned(),
                            entry["fieldsV1"].clone(),
                        )
                    })
                    .collect::<Map<_, _>>()
            })
            .unwrap_or_default()
            .into()
    }

    fn write(old: Option<&Value>, mut new: Value, manager: &str) -> Value {
        if let Some(old) = old {
            new["metadata"]["managedFields"] = old["metadata"]["managedFields"].clone();
        }
        let writer = Writer {
            manager,
            now: "2026-01-01T00:00:00Z",
        };
        track(&NODES, old, &mut new, Part::WithoutStatus, writer);
        new
    }

    // The same requests gave these fields on kube-apiserver v1.37.2.
    #[test]
    fn a_create_owns_all_that_it_set() {
        let node = json!({
            "metadata": {
                "name": "n1",
                "labels": { "a": "b" },
                "finalizers": ["x/y", "z/w"],
                "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": "o", "uid": "u1" }],
            },
            "spec": {
                "podCIDR": "10.1.0.0/24",
                "podCIDRs": ["10.1.0.0/24"],
                "taints": [{ "key": "a", "effect": "NoSchedule" }],
            },
            "status": { "capacity": { "cpu": "4" } },
        });
        assert_eq!(
            owned(&write(None, node, "t")),
            json!({ "t": {
                "f:metadata": {
                    "f:finalizers": { ".": {}, "v:\"x/y\"": {}, "v:\"z/w\"": {} },
                    "f:labels": { ".": {}, "f:a": {} },
                    "f:ownerReferences": { ".": {}, "k:{\"uid\":\"u1\"}": {} },
                },
                "f:spec": {
                    "f:podCIDR": {},
                    "f:podCIDRs": { ".": {}, "v:\"10.1.0.0/24\"": {} },
                    "f:taints": {},
                },
            } })
        );
    }

    #[test]
    fn a_changed_leaf_moves_to_the_last_writer_and_an_emptied_entry_vanishes() {
        let first = write(
            None,
            json!({ "metadata": { "annotations": { "x": "1", "y": "1" } } }),
            "ttl",
        );
        let second = write(
            Some(&first),
            json!({ "metadata": { "annotations": { "x": "2", "y": "1" } } }),
            "other",
        );
        assert_eq!(
            owned(&second),
            json!({
                "other": { "f:metadata": { "f:annotations": { "f:x": {} } } },
                "ttl": { "f:metadata": { "f:annotations": { ".": {}, "f:y": {} } } },
            })
        );
        let third = write(Some(&second), json!({ "metadata": {} }), "third");
        assert_eq!(owned(&third), json!({}));
        assert_eq!(third["metadata"], json!({}));
    }
}
