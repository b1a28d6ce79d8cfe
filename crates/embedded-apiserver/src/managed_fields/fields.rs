//! Sets of field paths, in the form of `FieldsV1`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// A set of field paths.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Fields {
    /// True if the path to this node is in the set.
    pub(super) member: bool,
    /// Paths below, by element: `f:<field>`, `k:<keys>`, `v:<value>`.
    pub(super) below: BTreeMap<String, Fields>,
}

impl Fields {
    /// A set of paths through fields, each joined by dots.
    pub(super) fn of(paths: &[&str]) -> Self {
        let mut fields = Self::default();
        for path in paths {
            let path: Vec<String> = path.split('.').map(|field| format!("f:{field}")).collect();
            fields.insert(&path);
        }
        fields
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }

    pub(super) fn insert(&mut self, path: &[String]) {
        let mut at = self;
        for element in path {
            at = at.below.entry(element.clone()).or_default();
        }
        at.member = true;
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.member |= other.member;
        for (element, below) in other.below {
            self.below.entry(element).or_default().extend(below);
        }
    }

    /// Removes exactly the paths of `other`.
    pub(super) fn disown(&mut self, other: &Self) {
        self.member &= !other.member;
        for (element, theirs) in &other.below {
            if let Some(ours) = self.below.get_mut(element) {
                ours.disown(theirs);
                if ours.is_empty() {
                    self.below.remove(element);
                }
            }
        }
    }

    /// The paths in both sets.
    pub(super) fn shared_with(&self, other: &Self) -> Self {
        let below = self.below.iter().filter_map(|(element, ours)| {
            let shared = ours.shared_with(other.below.get(element)?);
            (!shared.is_empty()).then(|| (element.clone(), shared))
        });
        Self {
            member: self.member && other.member,
            below: below.collect(),
        }
    }

    /// The paths as conflicts print them, e.g. `.spec.containers[name="c"].image`; shorter paths first within each
    /// branch.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.collect_paths("", &mut found);
        found
    }

    fn collect_paths(&self, path: &str, found: &mut Vec<String>) {
        let below: Vec<(String, &Self)> = self
            .below
            .iter()
            .map(|(element, below)| (format!("{path}{}", shown(element)), below))
            .collect();
        found.extend(
            below
                .iter()
                .filter(|(_, below)| below.member)
                .map(|(path, _)| path.clone()),
        );
        for (path, below) in below {
            below.collect_paths(&path, found);
        }
    }

    pub(super) fn from_json(value: &Value) -> Self {
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

    pub(super) fn to_json(&self) -> Value {
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

/// Prints an element: `.image` for `f:image`, `[name="c"]` for `k:{"name":"c"}`, `[="x"]` for `v:"x"`.
pub(super) fn shown(element: &str) -> String {
    match element.split_once(':') {
        Some(("k", keys)) => {
            let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
            let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("[{}]", keys.join(","))
        }
        Some(("v", value)) => format!("[={value}]"),
        Some((_, field)) => format!(".{field}"),
        None => element.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_shown_as_conflicts_name_them() {
        let fields = Fields::from_json(&json!({
            "f:metadata": { "f:finalizers": { "v:\"x/y\"": {} }, "f:labels": { ".": {}, "f:a": {} } },
            "f:spec": { "f:ports": { "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": { ".": {}, "f:name": {} } } },
        }));
        assert_eq!(
            fields.paths(),
            [
                ".metadata.labels",
                ".metadata.finalizers[=\"x/y\"]",
                ".metadata.labels.a",
                ".spec.ports[containerPort=80,protocol=\"TCP\"]",
                ".spec.ports[containerPort=80,protocol=\"TCP\"].name",
            ]
        );
    }

    #[test]
    fn sets_differ_and_meet_path_by_path() {
        let mut ours = Fields::of(&["a", "a.b", "c.d"]);
        let theirs = Fields::of(&["a.b", "c", "c.d"]);
        assert_eq!(ours.shared_with(&theirs), Fields::of(&["a.b", "c.d"]));
        ours.disown(&theirs);
        assert_eq!(ours, Fields::of(&["a"]));
    }
}
