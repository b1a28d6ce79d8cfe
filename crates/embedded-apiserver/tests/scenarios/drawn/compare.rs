//! Brings what a server said into a form that both servers share.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

/// An answer or an event: what it is, and its body.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    what: String,
    body: Value,
}

/// Names uids in the order in which they come, versions by their rank; takes out times, and what is opaque.
pub(super) fn plain(lines: Vec<(String, Value)>) -> Vec<Line> {
    let mut uids = BTreeMap::new();
    let mut versions = BTreeSet::new();
    for (_, body) in &lines {
        each_metadata(body, &mut |metadata| {
            let count = uids.len();
            if let Some(uid) = metadata["uid"].as_str() {
                uids.entry(uid.to_owned())
                    .or_insert_with(|| format!("uid-{count}"));
            }
            versions.extend(
                metadata["resourceVersion"]
                    .as_str()
                    .and_then(|version| version.parse::<u64>().ok()),
            );
        });
    }
    let ranks = versions.into_iter().enumerate();
    let ranks: BTreeMap<String, String> = ranks
        .map(|(rank, version)| (version.to_string(), format!("v{rank}")))
        .collect();
    let line = |(what, mut body): (String, Value)| {
        if body["items"].is_array() {
            body["metadata"]["resourceVersion"] = json!(null);
            if body["metadata"]["continue"].is_string() {
                body["metadata"]["continue"] = json!("…");
            }
        }
        rewrite(&mut body, &|text| rename(text, &uids, &ranks));
        Line {
            what,
            body: only_what_is_kept(body),
        }
    };
    lines.into_iter().map(line).collect()
}

/// Calls back with the metadata of an object, or of each object of a list.
fn each_metadata(body: &Value, visit: &mut impl FnMut(&Value)) {
    match body["items"].as_array() {
        Some(items) => items.iter().for_each(|item| visit(&item["metadata"])),
        None => visit(&body["metadata"]),
    }
}

fn rewrite(value: &mut Value, renamed: &impl Fn(&str) -> String) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| rewrite(item, renamed)),
        Value::Object(fields) => fields.values_mut().for_each(|field| rewrite(field, renamed)),
        Value::String(text) => *text = renamed(text),
        _ => {}
    }
}

/// Drawn times are of the year 2020.
fn rename(text: &str, uids: &BTreeMap<String, String>, ranks: &BTreeMap<String, String>) -> String {
    if let Some(rank) = ranks.get(text) {
        return rank.clone();
    }
    if !text.starts_with("2020") && text.parse::<Timestamp>().is_ok() {
        return "a time".to_owned();
    }
    let mut text = text.to_owned();
    for (uid, name) in uids {
        text = text.replace(uid, name);
    }
    // The key in etcd, which a dry run shortens.
    let mut text = text.replace("Key: /registry/", "Key: /");
    // Prints of whole values.
    if let (Some(begins), Some(ends)) = (text.find("Invalid value: "), text.rfind(": field is immutable")) {
        text.replace_range(begins..ends, "Invalid value: …");
    }
    // As preconditions are refused.
    for (version, rank) in ranks {
        text = text.replace(&format!("({version})"), &format!("({rank})"));
        text = text.replace(&format!(": {version},"), &format!(": {rank},"));
    }
    text
}

/// Without what the embedded server leaves out on purpose: see `fidelity.md`.
fn only_what_is_kept(mut body: Value) -> Value {
    if let Some(items) = body.pointer_mut("/items").and_then(Value::as_array_mut) {
        items.iter_mut().for_each(keep);
    } else {
        keep(&mut body);
    }
    body
}

fn keep(object: &mut Value) {
    let is_pod = object["spec"]["containers"].is_array();
    if is_pod {
        let spec = &object["spec"];
        object["spec"] = json!([spec["nodeName"], spec["containers"][0]["image"]]);
    }
    let Some(managers) = object
        .pointer_mut("/metadata/managedFields")
        .and_then(Value::as_array_mut)
    else {
        return;
    };
    // In the order of their times, which the servers need not share.
    let name = |entry: &Value| ["manager", "operation", "subresource"].map(|field| entry[field].to_string());
    managers.sort_by_key(name);
    for entry in managers.iter_mut().filter(|_| is_pod) {
        entry["fieldsV1"]["f:spec"] = json!({});
    }
}

/// Where two servers first differ, field by field; a line that one of them lacks is empty there.
pub(super) fn first_difference(ours: Vec<Line>, real: Vec<Line>) -> Option<String> {
    let none = || Line {
        what: "nothing".to_owned(),
        body: Value::Null,
    };
    let lines = ours.len().max(real.len());
    let (mut ours, mut real) = (ours.into_iter(), real.into_iter());
    (0..lines).find_map(|_| {
        let our = ours.next().unwrap_or_else(none);
        let its = real.next().unwrap_or_else(none);
        if our == its || is_explained(&our, &its) {
            return None;
        }
        let mut fields = Vec::new();
        fields_that_differ(&mut fields, "", &our.body, &its.body);
        Some(format!(
            "{} (embedded) and {} (real)\n{}",
            our.what,
            its.what,
            fields.join("\n")
        ))
    })
}

fn fields_that_differ(found: &mut Vec<String>, path: &str, ours: &Value, real: &Value) {
    match (ours, real) {
        (Value::Object(our), Value::Object(its)) => {
            let names: BTreeSet<_> = our.keys().chain(its.keys()).collect();
            for name in names {
                let path = format!("{path}.{name}");
                match (our.get(name), its.get(name)) {
                    (Some(our), Some(its)) => fields_that_differ(found, &path, our, its),
                    (our, its) => found.push(format!("  {path}: {our:?} and {its:?}")),
                }
            }
        }
        (Value::Array(our), Value::Array(its)) if our.len() == its.len() => {
            for (at, (our, its)) in our.iter().zip(its).enumerate() {
                fields_that_differ(found, &format!("{path}[{at}]"), our, its);
            }
        }
        _ if ours != real => found.push(format!("  {path}: {ours} and {real}")),
        _ => {}
    }
}

/// What `fidelity.md` names.
fn is_explained(our: &Line, its: &Line) -> bool {
    let without_text = |line: &Line| {
        let mut line = line.clone();
        if line.body["kind"] == "Status" {
            line.body["message"] = Value::Null;
            line.body["details"]["causes"] = Value::Null;
        }
        line
    };
    // Texts of decoding errors.
    let text = its.body["message"].as_str().unwrap_or_default();
    let is_undecoded = its.body["reason"] == "BadRequest" || text.contains("cannot parse");
    is_undecoded && without_text(our) == without_text(its)
}
