//! Pods: the claims and groups that they name, and the status of their claims.

use serde_json::{Value, json};

use super::{Causes, pod_groups};
use crate::object::{items, text};
use crate::syntax::{label, subdomain};

/// Checks the claims and the group in the spec of a new pod.
pub(super) fn check(spec: &Value, causes: &mut Causes) {
    check_claims(items(spec, "resourceClaims"), causes);
    if let Some(group) = spec.get("schedulingGroup") {
        let at = "spec.schedulingGroup.podGroupName";
        match group["podGroupName"].as_str() {
            None => causes.invalid(at, &Value::Null, "must specify one of: `podGroupName`"),
            Some(name) => causes.syntax(at, name, subdomain),
        }
    }
}

/// Checks the claims of a pod: unique names, and either a claim or a template each.
fn check_claims(claims: &[Value], causes: &mut Causes) {
    let mut names = Vec::new();
    for (number, claim) in claims.iter().enumerate() {
        let at = format!("spec.resourceClaims[{number}]");
        match text(claim, "name") {
            name if !name.is_empty() && names.contains(&name) => {
                causes.duplicate(&format!("{at}.name"), json!(name));
            }
            name => causes.name(&format!("{at}.name"), name, label),
        }
        names.push(text(claim, "name"));
        let why = match pod_groups::SOURCES.map(|source| claim.get(source).is_some()) {
            [true, true] => {
                Some("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
            }
            [false, false] => Some(pod_groups::NO_SOURCE),
            _ => None,
        };
        if let Some(why) = why {
            causes.invalid(&at, claim, why);
        }
        for source in pod_groups::SOURCES {
            causes.optional(&at, claim, source, subdomain);
        }
    }
}

/// Checks the status of a pod's claims.
pub(super) fn check_status(pod: &Value, causes: &mut Causes) {
    const FIELD: &str = "status.resourceClaimStatuses";
    let statuses = items(&pod["status"], "resourceClaimStatuses");
    let mut names = Vec::new();
    for (number, status) in statuses.iter().enumerate() {
        let name = text(status, "name");
        pod_groups::check_told(pod, &statuses[number..=number], FIELD, causes);
        if names.contains(&name) {
            causes.duplicate(&format!("{FIELD}[{number}].name"), json!(name));
        }
        names.push(name);
        let at = format!("{FIELD}[{number}]");
        causes.optional(&at, status, "resourceClaimName", subdomain);
    }
    if let Some(extended) = pod["status"].get("extendedResourceClaimStatus") {
        check_extended(&pod["spec"], extended, causes);
    }
}

/// Checks the status of the claim that a scheduler made for extended resources of containers.
fn check_extended(spec: &Value, status: &Value, causes: &mut Causes) {
    const FIELD: &str = "status.extendedResourceClaimStatus";
    let container = |name: &str| {
        ["containers", "initContainers"]
            .iter()
            .flat_map(|list| items(spec, list))
            .find(|container| text(container, "name") == name)
    };
    let mappings = items(status, "requestMappings");
    if mappings.is_empty() {
        let why = "at least one request mapping is required";
        causes.required(&format!("{FIELD}.requestMappings"), why);
    }
    for (number, mapping) in mappings.iter().enumerate() {
        let at = format!("{FIELD}.requestMappings[{number}]");
        let (name, resource) = (text(mapping, "containerName"), text(mapping, "resourceName"));
        match container(name) {
            None => {
                let why =
                    "must match the name of an entry in spec.initContainers.name or spec.containers.name";
                causes.invalid(&format!("{at}.containerName"), &json!(name), why);
            }
            Some(container) if container["resources"]["requests"].get(resource).is_none() => {
                let why = "must match the extended resource name of an entry in \
                           spec.initContainers.resources.requests or spec.containers.resources.requests";
                causes.invalid(&format!("{at}.resourceName"), &json!(resource), why);
            }
            Some(_) => {}
        }
        causes.syntax(
            &format!("{FIELD}.requestName"),
            text(mapping, "requestName"),
            label,
        );
        if mappings[..number].contains(mapping) {
            for part in ["containerName", "resourceName", "requestName"] {
                causes.duplicate(&format!("{at}.{part}"), &mapping[part]);
            }
        }
    }
    let claim = text(status, "resourceClaimName");
    causes.name(&format!("{FIELD}.resourceClaimName"), claim, subdomain);
}
