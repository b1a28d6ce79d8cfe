//! Server-side apply: the applied object says all that its manager wants; the manager owns exactly these fields
//! afterwards.
//!
//! A field that the manager applied before and no longer applies is removed, unless somebody else owns it. A different
//! value for a field of another manager is a conflict, unless the apply forces it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::compare::{below, element, fields_of};
use super::fields::{Fields, shown};
use super::{Entry, Operation, Part, UNOWNED, Writer, difference, put_entries, take_entries};
use crate::failure::{Cause, StatusError};
use crate::resource::Resource;
use crate::schema::{Parts, Schema};

/// Manager of the fields that existed before managed fields were tracked.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// An apply request.
#[derive(Debug)]
pub(crate) struct Application<'a> {
    pub(crate) resource: &'static Resource,
    pub(crate) part: Part,
    pub(crate) writer: Writer<'a>,
    /// True if the apply takes fields from other managers.
    pub(crate) force: bool,
}

impl Application<'_> {
    /// Applies `wanted` to `live`, or creates it. Returns the object with its managed fields, not yet decoded into its
    /// type.
    pub(crate) fn apply(&self, live: Option<&Value>, wanted: &Value) -> Result<Value, StatusError> {
        let schema = self.resource.schema();
        self.check(schema, wanted)?;
        let mut live_object = live.cloned().unwrap_or_else(|| schema.zero());
        let mut entries = take_entries(&mut live_object);
        if entries.is_empty() {
            let unseen = difference(schema, &schema.zero(), &live_object, self.part).changed;
            let time = Some(self.writer.now.to_owned());
            entries.push(self.entry(BEFORE_FIRST_APPLY, Operation::Update, unseen, time));
        }
        let before = entries
            .iter()
            .position(|entry| self.is_own(entry))
            .map(|own| entries.remove(own));
        let mut owned = fields_of(schema, wanted);
        self.part.restrict(&mut owned);
        let mut wants = owned.clone();
        wants.disown(&Fields::of(UNOWNED));

        let mut object = merge(schema, Some(&live_object), wanted);
        if let Some(before) = &before {
            for entry in &entries {
                owned.extend(entry.fields.clone());
            }
            prune(schema, &mut object, &before.fields, &owned);
        }
        let difference = difference(schema, &live_object, &object, self.part);
        let api_version = self.resource.api_version();
        let mut conflicts = Vec::new();
        for entry in entries
            .iter_mut()
            .filter(|entry| entry.api_version == api_version)
        {
            let lost = entry.fields.shared_with(&difference.changed);
            conflicts.extend(lost.paths().into_iter().map(|path| (describe(entry), path)));
            entry.fields.disown(&difference.changed);
            entry.fields.disown(&difference.removed);
        }
        if !self.force && !conflicts.is_empty() {
            return Err(StatusError::apply_conflict(&conflicts));
        }
        let time = if object == live_object {
            before.and_then(|before| before.time)
        } else {
            Some(self.writer.now.to_owned())
        };
        entries.push(self.entry(self.writer.manager, Operation::Apply, wants, time));
        put_entries(&mut object, entries);
        Ok(object)
    }

    fn is_own(&self, entry: &Entry) -> bool {
        entry.operation == Operation::Apply
            && entry.manager == self.writer.manager
            && entry.subresource.as_deref() == self.part.subresource()
    }

    fn entry(&self, manager: &str, operation: Operation, fields: Fields, time: Option<String>) -> Entry {
        Entry {
            manager: manager.to_owned(),
            operation,
            api_version: self.resource.api_version(),
            subresource: self.part.subresource().map(str::to_owned),
            time,
            fields,
        }
    }

    /// Refuses values that the schema does not allow.
    fn check(&self, schema: Schema, wanted: &Value) -> Result<(), StatusError> {
        let mut errors = Vec::new();
        misfits(schema, wanted, "", &mut errors);
        let error = match errors.as_slice() {
            [] => return Ok(()),
            [one] => one.clone(),
            many => format!("errors:\n  {}", many.join("\n  ")),
        };
        let text = |field: &str| wanted["metadata"][field].as_str().unwrap_or_default();
        let version = self.resource.api_version();
        let version = if self.resource.group.is_empty() {
            format!("/{version}")
        } else {
            version
        };
        let message = format!(
            "failed to create typed patch object ({}/{}; {version}, Kind={}): {error}",
            text("namespace"),
            text("name"),
            self.resource.kind
        );
        Err(StatusError::new(500, "", message))
    }
}

/// The manager as conflicts print it.
fn describe(entry: &Entry) -> String {
    let subresource = entry
        .subresource
        .as_ref()
        .map_or_else(String::new, |subresource| {
            format!(" with subresource {subresource:?}")
        });
    let version = match entry.operation {
        Operation::Apply => String::new(),
        Operation::Update => format!(" using {}", entry.api_version),
    };
    format!("{:?}{subresource}{version}", entry.manager)
}

/// Merges `wanted` into `live`.
fn merge(schema: Schema, live: Option<&Value>, wanted: &Value) -> Value {
    match (schema.parts(wanted), live, wanted) {
        (Parts::Fields, _, Value::Object(wanted)) => {
            let mut merged = live.and_then(Value::as_object).cloned().unwrap_or_default();
            for (name, value) in wanted {
                let below = schema.field(name).unwrap_or_else(Schema::any);
                let value = merge(below, merged.get(name), value);
                merged.insert(name.clone(), value);
            }
            Value::Object(merged)
        }
        (Parts::Values | Parts::Keyed(_), Some(Value::Array(live)), Value::Array(wanted)) => {
            Value::Array(merge_lists(schema, live, wanted))
        }
        _ => wanted.clone(),
    }
}

/// Merges lists. Items of `wanted` keep its order; each other item stays in front of the shared item that it preceded.
fn merge_lists(schema: Schema, live: &[Value], wanted: &[Value]) -> Vec<Value> {
    let name = |item: &Value| element(schema, item).unwrap_or_default();
    let live: Vec<(String, &Value)> = live.iter().map(|item| (name(item), item)).collect();
    let wanted: Vec<(String, &Value)> = wanted.iter().map(|item| (name(item), item)).collect();
    let find = |items: &[(String, &Value)], name: &str| items.iter().position(|(other, _)| other == name);
    let mut merged = Vec::new();
    let mut others = live.iter().peekable();
    for (number, (name, item)) in wanted.iter().enumerate() {
        let next_shared = wanted
            .iter()
            .skip(number)
            .map(|(name, _)| name)
            .find(|name| find(&live, name).is_some());
        while let Some((other, item)) = others.next_if(|(other, _)| Some(other) != next_shared) {
            if find(&wanted, other).is_none() {
                merged.push((*item).clone());
            }
        }
        let found = find(&live, name)
            .and_then(|at| live.get(at))
            .map(|(_, item)| *item);
        merged.push(merge(schema.items(), found, item));
        if Some(name) == next_shared {
            others.next();
        }
    }
    merged.extend(others.map(|(_, item)| (*item).clone()));
    merged
}

/// Removes the fields that the manager applied `before` and that nobody in `owned` owns now.
fn prune(schema: Schema, object: &mut Value, before: &Fields, owned: &Fields) {
    let nobody = Fields::default();
    let is_kept = |schema: Schema, element: &str, is_declared: bool, value: &mut Value| {
        let Some(before) = before.below.get(element) else {
            return true;
        };
        let owned = owned.below.get(element);
        if owned.is_none() && (before.member || is_declared) {
            return false;
        }
        let was_empty = is_empty(value);
        prune(below(schema, element), value, before, owned.unwrap_or(&nobody));
        was_empty || owned.is_some_and(|owned| owned.member) || !is_empty(value)
    };
    match (schema.parts(object), object) {
        (Parts::Fields, Value::Object(fields)) => {
            fields.retain(|name, value| is_kept(schema, &format!("f:{name}"), schema.declares(name), value));
        }
        (Parts::Values | Parts::Keyed(_), Value::Array(items)) => items.retain_mut(|item| {
            let element = element(schema, item).unwrap_or_default();
            is_kept(schema, &element, false, item)
        }),
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Collects the parts of `value` that the schema does not allow, in the words of structured-merge-diff.
fn misfits(schema: Schema, value: &Value, path: &str, errors: &mut Vec<String>) {
    match (value, schema.expected(value)) {
        (Value::Null, _) => {}
        (_, Some(expected)) => {
            let found = match value {
                Value::String(_) => "string",
                Value::Bool(_) => "boolean",
                Value::Number(_) => "number",
                Value::Array(_) => "list",
                _ => "map",
            };
            errors.push(format!("{path}: expected {expected}, got {found}"));
        }
        (Value::Object(fields), None) => {
            for (name, value) in fields {
                match schema.field(name) {
                    Some(below) => misfits(below, value, &format!("{path}.{name}"), errors),
                    None => errors.push(format!("{path}.{name}: field not declared in schema")),
                }
            }
        }
        (Value::Array(items), None) => {
            let mut seen = BTreeSet::new();
            for (number, item) in items.iter().enumerate() {
                let name =
                    element(schema, item).map_or_else(|| format!("[{number}]"), |element| shown(&element));
                if !seen.insert(name.clone()) {
                    errors.push(format!("{path}: duplicate entries for key {name}"));
                }
                misfits(schema.items(), item, &format!("{path}{name}"), errors);
            }
        }
        _ => {}
    }
}

impl StatusError {
    /// Other managers own fields that the apply would change; `conflicts` holds manager and path.
    fn apply_conflict(conflicts: &[(String, String)]) -> Self {
        let message = match conflicts {
            [(who, path)] => format!("Apply failed with 1 conflict: conflict with {who}: {path}"),
            many => {
                let mut lines = Vec::new();
                let mut last = "";
                for (who, path) in many {
                    if last != who {
                        lines.push(format!("conflicts with {who}:"));
                        last = who;
                    }
                    lines.push(format!("- {path}"));
                }
                format!("Apply failed with {} conflicts: {}", many.len(), lines.join("\n"))
            }
        };
        let causes = conflicts.iter().map(|(who, path)| {
            Cause::new("FieldManagerConflict", path, format!("conflict with {who}")).to_json()
        });
        Self::new(409, "Conflict", message).with(json!({ "causes": causes.collect::<Vec<_>>() }))
    }
}
