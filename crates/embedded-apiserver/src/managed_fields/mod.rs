//! `metadata.managedFields`: which client wrote which field last.
//!
//! An update gives its manager the leaves that it added or changed, and takes removed leaves from every manager. For an
//! apply see [`apply`].

pub(super) mod apply;
mod compare;
mod fields;

use serde_json::{Value, json};

use crate::object::{keep, text};
use crate::resource::Resource;
use crate::schema::Schema;
use compare::Difference;
use fields::Fields;

/// Manager and time of a write; the time is RFC 3339, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writer<'a> {
    pub(super) manager: &'a str,
    pub(super) now: &'a str,
}

/// The part of the object in which a write can own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The whole object.
    Whole,
    /// All but `status`, which writes to the main resource do not change.
    WithoutStatus,
    /// `status` and metadata: the fields that the `status` subresource writes.
    Status,
}

impl Part {
    /// The part that the main resource writes.
    pub(super) fn main(resource: &Resource) -> Self {
        if resource.has_status() {
            Self::WithoutStatus
        } else {
            Self::Whole
        }
    }

    /// The `subresource` in the entries of writes to this part.
    fn subresource(self) -> Option<&'static str> {
        match self {
            Self::Whole | Self::WithoutStatus => None,
            Self::Status => Some("status"),
        }
    }

    /// Removes the fields that writes to this part do not change.
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

/// Fields of the server, which no manager owns.
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

/// An entry of `managedFields`.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    manager: String,
    operation: Operation,
    api_version: String,
    subresource: Option<String>,
    time: Option<String>,
    fields: Fields,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Operation {
    Apply,
    Update,
}

/// Updates the managed fields of `new`, which will replace `old` or be created.
pub(super) fn track(
    resource: &Resource,
    old: Option<&Value>,
    new: &mut Value,
    part: Part,
    writer: Writer<'_>,
) {
    let schema = resource.schema();
    let mut entries = take_entries(new);
    // An object that was not tracked from its creation is not tracked until the first apply.
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

/// Chooses the managed fields that `new` starts from: those that the client sent, if valid, else those of `old`. A list
/// with one empty entry resets them.
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

/// The fields that a write of `part` changed.
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
    // All versions of a custom resource have the same fields.
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

/// Removes the entries from an object and returns them.
fn take_entries(object: &mut Value) -> Vec<Entry> {
    let entries = object["metadata"]
        .as_object_mut()
        .and_then(|metadata| metadata.remove("managedFields"));
    match entries {
        Some(Value::Array(entries)) => entries.iter().map(Entry::from_json).collect(),
        _ => Vec::new(),
    }
}

/// Puts the entries with fields into an object: applies first, then by time.
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

    // Expected fields are from the same requests to kube-apiserver v1.37.2.
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
