//! The permissions that a controller needs: those its chart grants.

use std::collections::BTreeMap;
use std::fmt;

use controller_core::app::Failure;
use controller_core::config::MetricsAuthorization;
use serde::Deserialize;
use serde_json::{Value, json};

use super::read::LeaseName;

/// One verb on one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permission {
    /// Such as `patch`.
    pub verb: String,
    /// The API group; `*` for all groups.
    pub group: String,
    /// Plural name, with the subresource after a slash.
    pub resource: String,
    /// The only object that the permission covers, if limited to one.
    pub name: Option<String>,
    /// The only namespace that the permission covers, if limited to one.
    pub namespace: Option<String>,
}

/// A rule of a role, with the fields that the charts use.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// API groups; empty string for the core group.
    pub api_groups: Vec<String>,
    /// Plural names, with subresources after a slash.
    pub resources: Vec<String>,
    /// Verbs of the API server.
    pub verbs: Vec<String>,
}

impl Rule {
    fn permissions(&self) -> impl Iterator<Item = Permission> {
        self.api_groups.iter().flat_map(move |group| {
            self.resources.iter().flat_map(move |resource| {
                self.verbs.iter().map(move |verb| Permission {
                    verb: verb.clone(),
                    group: group.clone(),
                    resource: resource.clone(),
                    ..Permission::default()
                })
            })
        })
    }
}

/// The permissions of the rules in `yaml`.
pub(super) fn of_rules(yaml: &str) -> Result<Vec<Permission>, Failure> {
    let rules: Vec<Rule> = serde_saphyr::from_str(yaml)?;
    Ok(rules.iter().flat_map(Rule::permissions).collect())
}

/// The permissions in `yaml` of the gates that are on.
pub(super) fn of_gates(yaml: &str, is_on: impl Fn(&str) -> bool) -> Result<Vec<Permission>, Failure> {
    let gates: BTreeMap<String, Vec<Rule>> = serde_saphyr::from_str(yaml)?;
    let on = gates.iter().filter(|(gate, _)| is_on(gate));
    Ok(on
        .flat_map(|(_, rules)| rules.iter().flat_map(Rule::permissions))
        .collect())
}

/// The permissions on the Lease.
pub(super) fn on_lease(lease: &LeaseName) -> impl Iterator<Item = Permission> {
    ["create", "get", "update", "list", "watch"]
        .into_iter()
        .map(|verb| Permission {
            verb: verb.to_owned(),
            group: "coordination.k8s.io".to_owned(),
            resource: "leases".to_owned(),
            // On create, the API server does not know the object's name.
            name: (verb != "create").then(|| lease.name.clone()),
            namespace: Some(lease.namespace.clone()),
        })
}

/// The permissions for the reviews of who may read the metrics.
pub(super) fn of_metrics(authorization: MetricsAuthorization) -> impl Iterator<Item = Permission> {
    let reviews = [
        ("authentication", "tokenreviews"),
        ("authorization", "subjectaccessreviews"),
    ];
    let asks = authorization == MetricsAuthorization::Kubernetes;
    reviews
        .into_iter()
        .filter(move |_| asks)
        .map(|(group, resource)| Permission {
            verb: "create".to_owned(),
            group: format!("{group}.k8s.io"),
            resource: resource.to_owned(),
            ..Permission::default()
        })
}

impl Permission {
    /// True if the permission changes nothing.
    pub(super) fn only_reads(&self) -> bool {
        matches!(&*self.verb, "get" | "list" | "watch")
    }

    /// A `SelfSubjectAccessReview` for this permission.
    pub(super) fn review(&self) -> Value {
        let (resource, subresource) = self.resource.split_once('/').unwrap_or((&*self.resource, ""));
        json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": { "resourceAttributes": {
                "verb": self.verb,
                "group": self.group,
                "resource": resource,
                "subresource": subresource,
                "name": self.name.as_deref().unwrap_or_default(),
                "namespace": self.namespace.as_deref().unwrap_or_default(),
            } },
        })
    }
}

/// Prints `patch pods/status`, `get leases.coordination.k8s.io ttl-controller in kube-system`.
impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (resource, subresource) = self.resource.split_once('/').unwrap_or((&*self.resource, ""));
        write!(f, "{} {resource}", self.verb)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if !subresource.is_empty() {
            write!(f, "/{subresource}")?;
        }
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        if let Some(namespace) = &self.namespace {
            write!(f, " in {namespace}")?;
        }
        Ok(())
    }
}
