//! Which names a definition gets: those that no other of its group has.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::conditions;
use super::super::object::{remove, set_at};

/// The names that count as one kind of name: no two definitions have the same among them.
#[derive(Clone, Copy, PartialEq)]
enum Among {
    Resources,
    Kinds,
}

/// A field of the names, what it counts as, and the reason of a conflict about it.
const NAMES: &[(&str, Among, &str)] = &[
    ("plural", Among::Resources, "PluralConflict"),
    ("singular", Among::Resources, "SingularConflict"),
    ("shortNames", Among::Resources, "ShortNamesConflict"),
    ("kind", Among::Kinds, "KindConflict"),
    ("listKind", Among::Kinds, "ListKindConflict"),
];

/// Accepts the names of a definition that are free, and says whether that was all.
pub(super) fn accept(definition: &Value, all: &[Value], now: &str) -> Value {
    let wanted = &definition["spec"]["names"];
    let before = &definition["status"]["acceptedNames"];
    let mut accepted = before.clone();
    let mut conflict = None;
    for (field, among, reason) in NAMES {
        let own = texts(before, field);
        let taken = taken(&definition["spec"]["group"], *among, all);
        let in_use: Vec<String> = texts(wanted, field)
            .iter()
            .filter(|name| !own.contains(name) && taken.contains(**name))
            .map(|name| format!("\"{name}\" is already in use"))
            .collect();
        match in_use.as_slice() {
            [] => take(&mut accepted, wanted, field),
            [one] => conflict = Some((*reason, one.clone())),
            several => conflict = Some((*reason, format!("[{}]", several.join(", ")))),
        }
    }
    take(&mut accepted, wanted, "categories");
    let mut next = definition.clone();
    set_at(&mut next, "status.acceptedNames", accepted);
    let is_accepted = conflict.is_none();
    let names_accepted = match conflict {
        None => condition("NamesAccepted", true, "NoConflicts", "no conflicts found"),
        Some((reason, message)) => condition("NamesAccepted", false, reason, &message),
    };
    conditions::set(&mut next, names_accepted, now);
    if is_accepted && !conditions::is_true(&next, "Established") {
        let installing = "the initial names have been accepted";
        conditions::set(
            &mut next,
            condition("Established", false, "Installing", installing),
            now,
        );
    } else if conditions::find(&next, "Established").is_none() {
        let not_all = "not all names are accepted";
        conditions::set(
            &mut next,
            condition("Established", false, "NotAccepted", not_all),
            now,
        );
    }
    next
}

fn condition(kind: &str, is_true: bool, reason: &str, message: &str) -> Value {
    let status = if is_true { "True" } else { "False" };
    json!({ "type": kind, "status": status, "reason": reason, "message": message })
}

/// The names in a field, be it text or a list.
fn texts<'a>(names: &'a Value, field: &str) -> Vec<&'a str> {
    match names.get(field) {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn take(accepted: &mut Value, wanted: &Value, field: &str) {
    match wanted.get(field) {
        Some(value) => {
            set_at(accepted, field, value.clone());
        }
        None => remove(accepted, field),
    }
}

/// The names that the definitions of a group have been given.
fn taken<'a>(group: &Value, among: Among, all: &'a [Value]) -> BTreeSet<&'a str> {
    all.iter()
        .filter(|definition| definition["spec"]["group"] == *group)
        .flat_map(|definition| {
            let accepted = &definition["status"]["acceptedNames"];
            NAMES
                .iter()
                .filter(move |(_, of, _)| *of == among)
                .flat_map(move |(field, _, _)| texts(accepted, field))
        })
        .collect()
}
