//! `metadata.managedFields`: which client wrote which field last.
//!
//! Covers writes by `Update` (create, update, patch, the tests' own edits): the leaves that a write added
//! or changed move to its manager, those that it removed leave every manager.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::object::remove;
use super::resource::{Resource, Shape};

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
    /// What the `finalize` subresource writes: all but `status`.
    Finalize,
    /// What the `scale` subresource writes: the number of replicas.
    Scale,
}

impl Part {
    /// Whether writes of this part leave `status` alone.
    pub(super) fn is_without_status(self) -> bool {
        !matches!(self, Self::Whole | Self::Status)
    }

    /// The subresource that writes of this part name in their entries.
    fn subresource(self) -> Option<&'static str> {
        match self {
            Self::Whole | Self::WithoutStatus => None,
            Self::Status => Some("status"),
            Self::Finalize => Some("finalize"),
            Self::Scale => Some("scale"),
        }
    }
}

/// Fields that belong to the server.
const UNOWNED: &[&str] = &[
    "apiVersion",
    "kind",
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

/// Rewrites the managed fields of `new`, an object about to replace `old`.
pub(super) fn track(
    resource: &Resource,
    old: Option<&Value>,
    new: &mut Value,
    part: Part,
    writer: Writer<'_>,
) {
    let mut difference = Difference {
        resource,
        part,
        changed: Fields::default(),
        removed: Fields::default(),
    };
    difference.compare(old, Some(new), "", &mut Vec::new());
    let entries = new["metadata"]
        .as_object_mut()
        .and_then(|metadata| metadata.remove("managedFields"));
    let mut entries = match entries {
        Some(Value::Array(entries)) => entries,
        _ => Vec::new(),
    };
    let api_version = resource.api_version();
    give_to_writer(&mut entries, &api_version, &difference, writer);
    if !entries.is_empty() {
        new["metadata"]["managedFields"] = Value::Array(entries);
    }
}

fn give_to_writer(
    entries: &mut Vec<Value>,
    api_version: &str,
    difference: &Difference<'_>,
    writer: Writer<'_>,
) {
    let mut own = difference.changed.clone();
    let subresource = difference.part.subresource();
    entries.retain_mut(|entry| {
        // The versions of a custom resource have the same fields.
        if entry["apiVersion"] != api_version && !difference.resource.is_custom() {
            return true;
        }
        let mut fields = Fields::from_json(&entry["fieldsV1"]);
        fields.disown(&difference.changed);
        fields.remove(&difference.removed);
        let is_writers = entry["manager"] == writer.manager
            && entry["apiVersion"] == api_version
            && entry["operation"] == "Update"
            && entry.get("subresource").and_then(Value::as_str) == subresource;
        if is_writers && !difference.changed.is_empty() {
            own.extend(fields);
            return false;
        }
        if fields.is_empty() {
            return false;
        }
        entry["fieldsV1"] = fields.to_json();
        true
    });
    if !own.is_empty() {
        let mut entry = json!({
            "manager": writer.manager,
            "operation": "Update",
            "apiVersion": api_version,
            "time": writer.now,
            "fieldsType": "FieldsV1",
            "fieldsV1": own.to_json(),
        });
        if let Some(subresource) = subresource {
            entry["subresource"] = json!(subresource);
        }
        // The API server loses the time on the way from the scale to its object.
        if difference.part == Part::Scale {
            remove(&mut entry, "time");
        }
        entries.push(entry);
    }
    // "Apply" before "Update", then the oldest first.
    entries.sort_by_cached_key(|entry| {
        ["operation", "time", "manager", "apiVersion", "subresource"]
            .map(|key| entry[key].as_str().unwrap_or_default().to_owned())
    });
}

/// A set of field paths, in the form of `FieldsV1`.
#[derive(Clone, Debug, Default, PartialEq)]
struct Fields {
    /// Whether the path that leads here is in the set.
    member: bool,
    /// Paths below, by element: `f:<field>`, `k:<keys>`, `v:<value>`.
    below: BTreeMap<String, Fields>,
}

impl Fields {
    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }

    fn insert(&mut self, path: &[String]) {
        let mut at = self;
        for element in path {
            at = at.below.entry(element.clone()).or_default();
        }
        at.member = true;
    }

    fn extend(&mut self, other: Self) {
        self.member |= other.member;
        for (element, below) in other.below {
            self.below.entry(element).or_default().extend(below);
        }
    }

    /// Takes exactly the paths of `other` out.
    fn disown(&mut self, other: &Self) {
        self.member &= !other.member;
        self.descend(other, Self::disown);
    }

    /// Takes the paths of `other` out, and all that lies below them.
    fn remove(&mut self, other: &Self) {
        if other.member {
            *self = Self::default();
        } else {
            self.descend(other, Self::remove);
        }
    }

    fn descend(&mut self, other: &Self, each: fn(&mut Self, &Self)) {
        for (element, theirs) in &other.below {
            if let Some(ours) = self.below.get_mut(element) {
                each(ours, theirs);
                if ours.is_empty() {
                    self.below.remove(element);
                }
            }
        }
    }

    fn from_json(value: &Value) -> Self {
        let empty = Map::new();
        let object = value.as_object().unwrap_or(&empty);
        Self {
            member: object.is_empty() || object.contains_key("."),
            below: object
                .iter()
                .filter(|(element, _)| *element != ".")
                .map(|(element, below)| (element.clone(), Self::from_json(below)))
                .collect(),
        }
    }

    fn to_json(&self) -> Value {
        let mut object: Map<String, Value> = self
            .below
            .iter()
            .map(|(element, below)| (element.clone(), below.to_json()))
            .collect();
        if self.member && !object.is_empty() {
            object.insert(".".to_owned(), json!({}));
        }
        Value::Object(object)
    }
}

/// Finds what a write added or changed, and what it removed.
struct Difference<'a> {
    resource: &'a Resource,
    part: Part,
    changed: Fields,
    removed: Fields,
}

impl Difference<'_> {
    /// `at` is the path in the object, as [`Resource::shape`] wants it, `path` the same as `FieldsV1`
    /// elements.
    fn compare(&mut self, old: Option<&Value>, new: Option<&Value>, at: &str, path: &mut Vec<String>) {
        let is_elsewhere = at == "status" && self.part.is_without_status();
        if old == new || UNOWNED.contains(&at) || is_elsewhere {
            return;
        }
        let shape = self.resource.shape(at);
        let always_there = at.is_empty() || shape == Some(Shape::Struct);
        match (old, new) {
            (_, None) if !always_there => self.removed.insert(path),
            (None, Some(_)) if !always_there => {
                self.changed.insert(path);
                self.descend(None, new, shape, at, path);
            }
            _ => {
                if !self.descend(old, new, shape, at, path) {
                    self.changed.insert(path);
                }
            }
        }
    }

    /// Compares the parts of a value; false if it is owned as a whole.
    fn descend(
        &mut self,
        old: Option<&Value>,
        new: Option<&Value>,
        shape: Option<Shape>,
        at: &str,
        path: &mut Vec<String>,
    ) -> bool {
        let (Some(old), Some(new)) = (parts(old, shape), parts(new, shape)) else {
            return false;
        };
        let is_list = matches!(shape, Some(Shape::Set | Shape::Keyed(_)));
        let elements: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for element in elements {
            let below = match element.strip_prefix("f:").unwrap_or(element) {
                _ if is_list => format!("{at}[]"),
                field if at.is_empty() => field.to_owned(),
                field => format!("{at}.{field}"),
            };
            path.push(element.clone());
            self.compare(old.get(element).copied(), new.get(element).copied(), &below, path);
            path.pop();
        }
        true
    }
}

/// The parts of a value by path element; none if it is owned as a whole.
fn parts(value: Option<&Value>, shape: Option<Shape>) -> Option<BTreeMap<String, &Value>> {
    let Some(value) = value else {
        return Some(BTreeMap::new());
    };
    let parts = match shape {
        Some(Shape::Atomic) => return None,
        Some(Shape::Set) => value
            .as_array()?
            .iter()
            .map(|item| (format!("v:{item}"), item))
            .collect(),
        Some(Shape::Keyed(keys)) => value
            .as_array()?
            .iter()
            .map(|item| (format!("k:{}", key_of(item, keys)), item))
            .collect(),
        Some(Shape::Struct) | None => value
            .as_object()?
            .iter()
            .map(|(field, value)| (format!("f:{field}"), value))
            .collect(),
    };
    Some(parts)
}

fn key_of(item: &Value, keys: &[&str]) -> Value {
    keys.iter()
        .filter_map(|key| Some(((*key).to_owned(), item.get(key)?.clone())))
        .collect::<Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::NODES;

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

    // The same requests gave these fields on kube-apiserver v1.36.3.
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
