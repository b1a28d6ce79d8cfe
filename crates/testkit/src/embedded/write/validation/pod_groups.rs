//! Groups of pods, and the claims that they share.

use serde_json::{Value, json};

use super::Causes;
use crate::embedded::object::{items, text};
use crate::embedded::syntax::{label, subdomain};

/// How many claims a group may name.
const CLAIMS_LIMIT: usize = 4;
/// Where the claims of a pod or of a group come from.
pub(super) const SOURCES: [&str; 2] = ["resourceClaimName", "resourceClaimTemplateName"];
pub(super) const NO_SOURCE: &str = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";

/// A group as a client writes it.
pub(super) fn check(old: Option<&Value>, new: &Value, causes: &mut Causes) {
    if let Some(old) = old {
        for field in [
            "spec.schedulingPolicy",
            "spec.resourceClaims",
            "spec.podGroupTemplateRef",
        ] {
            causes.immutable(old, new, field);
        }
        return;
    }
    let policy = &new["spec"]["schedulingPolicy"];
    let given: Vec<&str> = ["basic", "gang"]
        .into_iter()
        .filter(|name| policy.get(name).is_some())
        .collect();
    if given.len() != 1 {
        let why = "must specify one of: `basic`, `gang`";
        causes.invalid("spec.schedulingPolicy", policy, why);
    }
    check_claims(items(new, "spec.resourceClaims"), causes);
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

/// A group whose status is written.
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

/// Only claims that the spec names have a status, in a group as in a pod.
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

/// An entry names a claim or a template.
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
