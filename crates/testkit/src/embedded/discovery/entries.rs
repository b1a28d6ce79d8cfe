//! What discovery says of a resource: its verbs, categories and subresources.

use crate::embedded::access::review::REVIEWS;
use crate::embedded::resource::table::{
    CUSTOM_RESOURCE_DEFINITIONS, DAEMON_SETS, DEPLOYMENTS, JOBS, NAMESPACES, PODS, REPLICA_SETS,
    REPLICATION_CONTROLLERS, STATEFUL_SETS,
};
use crate::embedded::resource::{Action, Resource, Target};

/// What can be done with a stored resource.
const ALL_VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
/// Namespaces are deleted one by one.
const NAMESPACE_VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
/// What can be done with a part of an object.
const PART_VERBS: &[&str] = &["get", "patch", "update"];

/// Resources that `kubectl get` knows under a common name.
const CATEGORIES: &[(&str, &[&Resource])] = &[
    (
        "all",
        &[
            &PODS,
            &REPLICATION_CONTROLLERS,
            &DAEMON_SETS,
            &DEPLOYMENTS,
            &REPLICA_SETS,
            &STATEFUL_SETS,
            &JOBS,
        ],
    ),
    ("api-extensions", &[&CUSTOM_RESOURCE_DEFINITIONS]),
];

/// A resource with all that discovery says of it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) resource: &'static Resource,
    pub(super) verbs: &'static [&'static str],
    pub(super) categories: Vec<&'static str>,
    /// In order of their names.
    pub(super) subresources: Vec<Subresource>,
}

/// A part of an object, or something to do with it, with a path of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subresource {
    pub(super) name: &'static str,
    /// Group and version of its kind where they are not those of the resource.
    pub(super) of: Option<(&'static str, &'static str)>,
    pub(super) kind: &'static str,
    pub(super) verbs: &'static [&'static str],
}

/// What is known of the served resources and the reviews, in order of plural names within a group.
pub(super) fn of(served: &[&'static Resource]) -> Vec<Entry> {
    let stored = served.iter().map(|resource| Entry {
        resource,
        verbs: if resource.is(&NAMESPACES) {
            NAMESPACE_VERBS
        } else {
            ALL_VERBS
        },
        categories: categories(resource),
        subresources: subresources(resource),
    });
    let reviews = REVIEWS.iter().map(|resource| Entry {
        resource,
        verbs: &["create"],
        categories: Vec::new(),
        subresources: Vec::new(),
    });
    let mut entries: Vec<Entry> = stored.chain(reviews).collect();
    entries.sort_by_key(|entry| entry.resource.plural);
    entries
}

fn categories(resource: &Resource) -> Vec<&'static str> {
    CATEGORIES
        .iter()
        .filter(|(_, members)| members.iter().any(|member| resource.is(member)))
        .map(|(category, _)| *category)
        .collect()
}

fn subresources(resource: &'static Resource) -> Vec<Subresource> {
    let parts = resource.subresources().into_iter();
    let mut found: Vec<Subresource> = parts
        .filter_map(|name| Some(describe(resource, name, resource.target(name)?)))
        .collect();
    found.sort_by_key(|part| part.name);
    found
}

fn describe(resource: &'static Resource, name: &'static str, target: Target) -> Subresource {
    let (of, kind, verbs): (Option<(&str, &str)>, &str, &[&str]) = match target {
        Target::Object | Target::Status => (None, resource.kind, PART_VERBS),
        Target::Scale(_) => (Some(("autoscaling", "v1")), "Scale", PART_VERBS),
        Target::Action(Action::Bind) => (None, "Binding", &["create"]),
        Target::Action(Action::Evict) => (Some(("policy", "v1")), "Eviction", &["create"]),
        Target::Action(Action::Finalize) => (None, resource.kind, &["update"]),
        Target::Action(Action::RequestToken) => {
            (Some(("authentication.k8s.io", "v1")), "TokenRequest", &["create"])
        }
    };
    Subresource {
        name,
        of,
        kind,
        verbs,
    }
}
