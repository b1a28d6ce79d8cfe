//! `PodGroups`, and the claims that their pods share.

use serde_json::{Value, json};

use super::{Causes, at};
use crate::object::{items, text};
use crate::syntax::{label, subdomain};

/// Most claims that a group can name.
const CLAIMS_LIMIT: usize = 4;
/// Fields that name the source of a claim, in pods and groups.
pub(super) const SOURCES: [&str; 2] = ["resourceClaimName", "resourceClaimTemplateName"];
pub(super) const NO_SOURCE: &str = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";

/// Checks a group that a client writes, except its status.
pub(super) fn check(old: Option<&Value>, new: &Value, causes: &mut Causes) {
    check_policy(old, new, causes);
    let Some(old) = old else {
        check_claims(items(new, "spec.resourceClaims"), causes);
        return;
    };
    for field in ["spec.workloadRef", "spec.resourceClaims", "spec.disruptionMode"] {
        causes.immutable(old, new, field);
    }
}

/// A group cannot change between its two policies; the size of a gang can change.
fn check_policy(old: Option<&Value>, new: &Value, causes: &mut Causes) {
    const POLICY: &str = "spec.schedulingPolicy";
    const BASIC: &str = "spec.schedulingPolicy.basic";
    const GANG: &str = "spec.schedulingPolicy.gang";
    const MIN_COUNT: &str = "spec.schedulingPolicy.gang.minCount";
    let given = |group| [BASIC, GANG].map(|field| !at(group, field).is_null());
    if old.map(given) != Some(given(new)) {
        match given(new) {
            [true, true] => {
                let why = "must specify exactly one of: `basic`, `gang`";
                causes.invalid(POLICY, &json!("{basic, gang}"), why);
            }
            [false, false] => causes.invalid(POLICY, &json!(""), "must specify one of: `basic`, `gang`"),
            _ => {}
        }
    }
    if let Some(old) = old {
        causes.immutable(old, new, BASIC);
        let why = match [old, new].map(|group| at(group, GANG).is_null()) {
            [true, false] => "field cannot be set once created",
            [false, true] => "field cannot be cleared once set",
            _ => "",
        };
        if !why.is_empty() {
            causes.invalid(GANG, &Value::Null, why);
            return;
        }
    }
    match at(new, MIN_COUNT).as_i64() {
        _ if at(new, GANG).is_null() => {}
        None | Some(0) => causes.required(MIN_COUNT, ""),
        Some(count) if count < 1 => {
            causes.invalid(MIN_COUNT, &json!(count), "must be greater than or equal to 1");
        }
        Some(_) => {}
    }
}

fn check_claims(claims: &[Value], causes: &mut Causes) {
    const FIELD: &str = "spec.resourceClaims";
    if claims.len() > CLAIMS_LIMIT {
        causes.too_many(FIELD, claims.len(), CLAIMS_LIMIT);
        return;
    }
    check_unique(claims, FIELD, causes);
    for (number, claim) in claims.iter().enumerate() {
        let at = format!("{FIELD}[{number}]");
        check_source(claim, &at, causes);
        causes.name(&format!("{at}.name"), text(claim, "name"), label);
        for source in SOURCES {
            causes.optional(&at, claim, source, subdomain);
        }
    }
}

/// Checks the status of a group.
pub(super) fn check_status(new: &Value, causes: &mut Causes) {
    const FIELD: &str = "status.resourceClaimStatuses";
    let statuses = items(new, FIELD);
    check_told(new, statuses, FIELD, causes);
    if statuses.len() > CLAIMS_LIMIT {
        causes.too_many(FIELD, statuses.len(), CLAIMS_LIMIT);
        return;
    }
    check_unique(statuses, FIELD, causes);
    for (number, status) in statuses.iter().enumerate() {
        let at = format!("{FIELD}[{number}]");
        causes.optional(&at, status, "resourceClaimName", subdomain);
    }
}

/// A status may only name claims of the spec, in groups and in pods.
pub(super) fn check_told(object: &Value, statuses: &[Value], field: &str, causes: &mut Causes) {
    let claims = items(object, "spec.resourceClaims");
    for (number, status) in statuses.iter().enumerate() {
        let name = text(status, "name");
        if !claims.iter().any(|claim| text(claim, "name") == name) {
            let why = "must match the name of an entry in `spec.resourceClaims`";
            causes.invalid(&format!("{field}[{number}].name"), &json!(name), why);
        }
    }
}

/// An entry must name either a claim or a template.
fn check_source(claim: &Value, field: &str, causes: &mut Causes) {
    match SOURCES.map(|source| claim.get(source).is_some()) {
        [true, true] => {
            let why = "must specify exactly one of: `resourceClaimName`, `resourceClaimTemplateName`";
            causes.invalid(field, claim, why);
        }
        [false, false] => causes.invalid(field, &Value::Null, NO_SOURCE),
        _ => {}
    }
}

fn check_unique(entries: &[Value], field: &str, causes: &mut Causes) {
    let names: Vec<&str> = entries.iter().map(|entry| text(entry, "name")).collect();
    for (number, name) in names.iter().enumerate() {
        if names[..number].contains(name) {
            causes.duplicate(&format!("{field}[{number}]"), &entries[number]);
        }
    }
}
