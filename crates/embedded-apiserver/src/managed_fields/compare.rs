//! Sets of fields: the fields of an object, and the differences between two objects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::fields::Fields;
use crate::schema::{Parts, Schema};

#[derive(Debug, Default)]
pub(super) struct Difference {
    pub(super) changed: Fields,
    pub(super) removed: Fields,
}

impl Difference {
    pub(super) fn between(schema: Schema, old: &Value, new: &Value) -> Self {
        let mut difference = Self::default();
        difference.compare(schema, Some(old), Some(new), &mut Vec::new());
        difference
    }

    fn compare(&mut self, schema: Schema, old: Option<&Value>, new: Option<&Value>, path: &mut Vec<String>) {
        if old == new {
            return;
        }
        let is_divided = match (parts(schema, old), parts(schema, new)) {
            (Some(old), Some(new)) if !(old.is_empty() && new.is_empty()) => {
                let elements: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
                for element in elements {
                    let below = below(schema, element);
                    path.push(element.clone());
                    self.compare(below, old.get(element).copied(), new.get(element).copied(), path);
                    path.pop();
                }
                true
            }
            _ => false,
        };
        match (old, new) {
            (_, None) => self.removed.insert(path),
            (None, _) => self.changed.insert(path),
            _ if !is_divided => self.changed.insert(path),
            _ => {}
        }
    }
}

/// The fields that an applied object sets.
pub(super) fn fields_of(schema: Schema, object: &Value) -> Fields {
    let mut fields = Fields::default();
    collect(schema, object, &mut fields);
    fields
}

fn collect(schema: Schema, value: &Value, fields: &mut Fields) {
    let is_map = schema.parts(value) == Parts::Fields;
    let Some(parts) = parts(schema, Some(value)) else {
        fields.member = true;
        return;
    };
    for (element, value) in parts {
        let schema_below = below(schema, &element);
        let is_declared = is_map
            && element
                .strip_prefix("f:")
                .is_some_and(|name| schema.declares(name));
        let mut part = Fields::default();
        collect(schema_below, value, &mut part);
        let is_empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
        part.member |= is_empty || !is_declared;
        if !part.is_empty() {
            fields.below.insert(element, part);
        }
    }
}

/// The schema of a part, by path element.
pub(super) fn below(schema: Schema, element: &str) -> Schema {
    match element.strip_prefix("f:") {
        Some(name) => schema.field(name).unwrap_or_else(Schema::any),
        None => schema.items(),
    }
}

/// The parts of a value by path element; `None` if the value is owned as a whole. Null and an absent value have no
/// parts.
pub(super) fn parts(schema: Schema, value: Option<&Value>) -> Option<BTreeMap<String, &Value>> {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return match schema.parts(&Value::Null) {
            Parts::Whole if !schema.is_any() => None,
            _ => Some(BTreeMap::new()),
        };
    };
    let parts = match schema.parts(value) {
        Parts::Whole => return None,
        Parts::Fields => value
            .as_object()?
            .iter()
            .map(|(field, value)| (format!("f:{field}"), value))
            .collect(),
        _ => value
            .as_array()?
            .iter()
            .map(|item| (element(schema, item).unwrap_or_default(), item))
            .collect(),
    };
    Some(parts)
}

/// The path element of a list item; `None` if the list is owned as a whole.
pub(super) fn element(schema: Schema, item: &Value) -> Option<String> {
    match schema.parts(&Value::Array(Vec::new())) {
        Parts::Values => Some(format!("v:{item}")),
        Parts::Keyed(keys) => {
            let keys = schema.items().key_of(item, keys);
            Some(format!("k:{}", Value::Object(keys)))
        }
        Parts::Whole | Parts::Fields => None,
    }
}
