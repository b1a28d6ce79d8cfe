//! Which permissions a controller needs: those that its chart gives.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::{Value, json};

use super::read::LeaseName;
use crate::config::MetricsAuthorization;
use crate::runtime::Failure;

/// That one verb on one resource is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permission {
    /// Such as `patch`.
    pub verb: String,
    /// The API group; `*` for all.
    pub group: String,
    /// Plural, with the subresource after a slash.
    pub resource: String,
    /// The only object that it is on, if there is one.
    pub name: Option<String>,
    /// The only namespace that it is in, if there is one.
    pub namespace: Option<String>,
}

/// A rule of a role, as far as the charts' rules go.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// API groups; empty for the core group.
    pub api_groups: Vec<String>,
    /// Plurals, with subresources after a slash.
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

/// Those of the rules in `yaml`.
pub(super) fn of_rules(yaml: &str) -> Result<Vec<Permission>, Failure> {
    let rules: Vec<Rule> = serde_saphyr::from_str(yaml)?;
    Ok(rules.iter().flat_map(Rule::permissions).collect())
}

/// Those of the rules in `yaml` that stand there for a gate that is on.
pub(super) fn of_gates(yaml: &str, is_on: impl Fn(&str) -> bool) -> Result<Vec<Permission>, Failure> {
    let gates: BTreeMap<String, Vec<Rule>> = serde_saphyr::from_str(yaml)?;
    let on = gates.iter().filter(|(gate, _)| is_on(gate));
    Ok(on
        .flat_map(|(_, rules)| rules.iter().flat_map(Rule::permissions))
        .collect())
}

/// Those on the Lease.
pub(super) fn on_lease(lease: &LeaseName) -> impl Iterator<Item = Permission> {
    ["create", "get", "update", "list", "watch"]
        .into_iter()
        .map(|verb| Permission {
            verb: verb.to_owned(),
            group: "coordination.k8s.io".to_owned(),
            resource: "leases".to_owned(),
            // The API server does not know the name of what is yet to be made.
            name: (verb != "create").then(|| lease.name.clone()),
            namespace: Some(lease.namespace.clone()),
        })
}

/// Those to ask who may read the metrics.
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
    /// Whether nothing can be changed with it.
    pub(super) fn only_reads(&self) -> bool {
        matches!(&*self.verb, "get" | "list" | "watch")
    }

    /// A `SelfSubjectAccessReview` that asks for it.
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

/// `patch pods/status`, `get leases.coordination.k8s.io ttl-controller in kube-system`.
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
