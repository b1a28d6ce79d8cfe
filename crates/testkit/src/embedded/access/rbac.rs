//! Role-based access control: what the roles and bindings in the store grant.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use serde::de::DeserializeOwned;

use super::{Attributes, User, Verdict};
use crate::embedded::resource::Resource;
use crate::embedded::resource::table::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES};
use crate::embedded::store::{Store, Stored};

const ALL: &str = "*";
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// A role that every cluster has and binds from the start, as far as it concerns ordinary users.
struct Bootstrap {
    /// Of the role and of its binding.
    name: &'static str,
    groups: &'static [&'static str],
    verb: &'static str,
    /// API group and resources.
    resources: &'static [(&'static str, &'static [&'static str])],
    paths: &'static [&'static str],
}

const BOOTSTRAP: &[Bootstrap] = &[
    Bootstrap {
        name: "system:basic-user",
        groups: &["system:authenticated"],
        verb: "create",
        resources: &[
            (
                "authorization.k8s.io",
                &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
            ),
            ("authentication.k8s.io", &["selfsubjectreviews"]),
        ],
        paths: &[],
    },
    Bootstrap {
        name: "system:discovery",
        groups: &["system:authenticated"],
        verb: "get",
        resources: &[],
        paths: &[
            "/api",
            "/api/*",
            "/apis",
            "/apis/*",
            "/healthz",
            "/livez",
            "/openapi",
            "/openapi/*",
            "/readyz",
            "/version",
            "/version/",
        ],
    },
    Bootstrap {
        name: "system:public-info-viewer",
        groups: &["system:authenticated", "system:unauthenticated"],
        verb: "get",
        resources: &[],
        paths: &["/healthz", "/livez", "/readyz", "/version", "/version/"],
    },
];

/// What one binding gives to a user.
struct Grant {
    /// Which binding, in the words of an audit log.
    source: String,
    /// Where; empty for everywhere.
    namespace: String,
    /// The rules of its role, or that there is no such role.
    rules: Result<Vec<PolicyRule>, String>,
}

/// Whether `user` may do what is asked for.
pub(super) fn judge(store: &Store, user: &User, asked: &Attributes) -> Verdict {
    let mut missing = BTreeSet::new();
    for grant in bootstrap(user).chain(grants(store, user, Some(asked.namespace()))) {
        match grant.rules {
            Ok(rules) if rules.iter().any(|rule| allows(rule, asked)) => {
                return Verdict {
                    is_allowed: true,
                    reason: format!("RBAC: allowed by {}", grant.source),
                };
            }
            Ok(_) => {}
            Err(why) => {
                missing.insert(why);
            }
        }
    }
    let missing: Vec<String> = missing.into_iter().collect();
    let reason = match missing.as_slice() {
        [] => String::new(),
        [one] => format!("RBAC: {one}"),
        more => format!("RBAC: [{}]", more.join(", ")),
    };
    Verdict {
        is_allowed: false,
        reason,
    }
}

/// Everything that the store grants to `user`, one line a right.
pub(super) fn all_rights(store: &Store, user: &User) -> BTreeSet<String> {
    rights_that(grants(store, user, None), |_| true)
}

/// The rights among them that allow what is asked for.
pub(super) fn rights_to(store: &Store, user: &User, asked: &Attributes) -> BTreeSet<String> {
    rights_that(grants(store, user, Some(asked.namespace())), |rule| {
        allows(rule, asked)
    })
}

fn rights_that(
    grants: impl Iterator<Item = Grant>,
    wanted: impl Fn(&PolicyRule) -> bool,
) -> BTreeSet<String> {
    let mut rights = BTreeSet::new();
    for grant in grants {
        for rule in grant.rules.iter().flatten().flat_map(single_rights) {
            if wanted(&rule) {
                rights.insert(describe(&rule, &grant.namespace));
            }
        }
    }
    rights
}

fn bootstrap(user: &User) -> impl Iterator<Item = Grant> {
    BOOTSTRAP.iter().filter_map(|role| {
        let name = role.name;
        let group = role.groups.iter().find(|group| user.is_in(group))?;
        let texts = |texts: &[&str]| Some(texts.iter().map(ToString::to_string).collect());
        let verbs = vec![role.verb.to_owned()];
        let mut rules: Vec<PolicyRule> = role
            .resources
            .iter()
            .map(|(group, resources)| PolicyRule {
                verbs: verbs.clone(),
                api_groups: texts(&[group]),
                resources: texts(resources),
                ..PolicyRule::default()
            })
            .collect();
        rules.push(PolicyRule {
            verbs,
            non_resource_urls: texts(role.paths),
            ..PolicyRule::default()
        });
        Some(Grant {
            source: format!("ClusterRoleBinding \"{name}\" of ClusterRole \"{name}\" to Group \"{group}\""),
            namespace: String::new(),
            rules: Ok(rules),
        })
    })
}

/// What bindings give to `user`: those of the cluster, and those of one namespace or, without one, of all.
fn grants(store: &Store, user: &User, namespace: Option<&str>) -> impl Iterator<Item = Grant> {
    let mut grants = Vec::new();
    for binding in objects::<ClusterRoleBinding>(store, &CLUSTER_ROLE_BINDINGS, "") {
        let subjects = binding.subjects.iter().flatten();
        let Some(subject) = subjects.into_iter().find(|subject| is(user, subject, "")) else {
            continue;
        };
        let name = binding.metadata.name.unwrap_or_default();
        grants.push(Grant {
            source: source("ClusterRoleBinding", &name, &binding.role_ref, subject, ""),
            namespace: String::new(),
            rules: rules_of(store, &binding.role_ref, ""),
        });
    }
    let prefix = match namespace {
        Some("") => return grants.into_iter(),
        Some(namespace) => format!("{namespace}/"),
        None => String::new(),
    };
    for binding in objects::<RoleBinding>(store, &ROLE_BINDINGS, &prefix) {
        let at = binding.metadata.namespace.unwrap_or_default();
        let subjects = binding.subjects.iter().flatten();
        let Some(subject) = subjects.into_iter().find(|subject| is(user, subject, &at)) else {
            continue;
        };
        let name = format!("{}/{at}", binding.metadata.name.unwrap_or_default());
        grants.push(Grant {
            source: source("RoleBinding", &name, &binding.role_ref, subject, &at),
            rules: rules_of(store, &binding.role_ref, &at),
            namespace: at,
        });
    }
    grants.into_iter()
}

fn rules_of(store: &Store, role: &RoleRef, namespace: &str) -> Result<Vec<PolicyRule>, String> {
    let name = &role.name;
    let (found, plural) = match role.kind.as_str() {
        "ClusterRole" => {
            let found = store.get(&CLUSTER_ROLES, name).and_then(parse::<ClusterRole>);
            (found.map(|role| role.rules), CLUSTER_ROLES.plural)
        }
        "Role" => {
            let key = format!("{namespace}/{name}");
            let found = store.get(&ROLES, &key).and_then(parse::<Role>);
            (found.map(|role| role.rules), ROLES.plural)
        }
        kind => return Err(format!("unsupported role reference kind: \"{kind}\"")),
    };
    let kind = plural.trim_end_matches('s');
    found
        .map(Option::unwrap_or_default)
        .ok_or_else(|| format!("{kind}.{RBAC_GROUP} \"{name}\" not found"))
}

fn source(kind: &str, name: &str, role: &RoleRef, subject: &Subject, namespace: &str) -> String {
    let mut who = subject.name.clone();
    if subject.kind == "ServiceAccount" {
        let namespace = subject.namespace.as_deref().unwrap_or(namespace);
        who = format!("{who}/{namespace}");
    }
    format!(
        "{kind} \"{name}\" of {} \"{}\" to {} \"{who}\"",
        role.kind, role.name, subject.kind
    )
}

/// Whether a binding in `namespace` means this user by this subject.
fn is(user: &User, subject: &Subject, namespace: &str) -> bool {
    match subject.kind.as_str() {
        "User" => user.name == subject.name,
        "Group" => user.is_in(&subject.name),
        "ServiceAccount" => {
            let given = subject.namespace.as_deref().filter(|given| !given.is_empty());
            let namespace = given.unwrap_or(namespace);
            !namespace.is_empty()
                && user.name == format!("system:serviceaccount:{namespace}:{}", subject.name)
        }
        _ => false,
    }
}

/// Whether one rule allows what is asked for (upstream `RuleAllows`).
fn allows(rule: &PolicyRule, asked: &Attributes) -> bool {
    let has = |list: &Option<Vec<String>>, wanted: &str| {
        list.iter().flatten().any(|entry| entry == ALL || entry == wanted)
    };
    let has_verb = |verb: &str| rule.verbs.iter().any(|entry| entry == ALL || entry == verb);
    match asked {
        Attributes::Path { verb, path } => {
            has_verb(verb)
                && rule.non_resource_urls.iter().flatten().any(|url| {
                    url == path || url.strip_suffix('*').is_some_and(|start| path.starts_with(start))
                })
        }
        Attributes::Resource {
            verb,
            group,
            resource,
            name,
            ..
        } => {
            let of_any = resource.split_once('/').map(|(_, part)| format!("*/{part}"));
            has_verb(verb)
                && has(&rule.api_groups, group)
                && (has(&rule.resources, resource)
                    || of_any.is_some_and(|part| rule.resources.iter().flatten().any(|entry| *entry == part)))
                && rule
                    .resource_names
                    .as_ref()
                    .is_none_or(|names| names.is_empty() || names.contains(name))
        }
    }
}

/// A rule taken apart into rules of one verb and one thing each.
fn single_rights(rule: &PolicyRule) -> Vec<PolicyRule> {
    let none = vec![None];
    let each = |list: &Option<Vec<String>>| -> Vec<Option<Vec<String>>> {
        match list.as_deref() {
            None | Some([]) => none.clone(),
            Some(entries) => entries.iter().map(|entry| Some(vec![entry.clone()])).collect(),
        }
    };
    let mut rights = Vec::new();
    for verb in &rule.verbs {
        let verbs = vec![verb.clone()];
        for url in rule.non_resource_urls.iter().flatten() {
            rights.push(PolicyRule {
                verbs: verbs.clone(),
                non_resource_urls: Some(vec![url.clone()]),
                ..PolicyRule::default()
            });
        }
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                for name in each(&rule.resource_names) {
                    rights.push(PolicyRule {
                        verbs: verbs.clone(),
                        api_groups: Some(vec![group.clone()]),
                        resources: Some(vec![resource.clone()]),
                        resource_names: name,
                        non_resource_urls: None,
                    });
                }
            }
        }
    }
    rights
}

/// A single right as a line, e.g. `patch nodes/status`.
fn describe(right: &PolicyRule, namespace: &str) -> String {
    let first = |list: &Option<Vec<String>>| list.iter().flatten().next().cloned().unwrap_or_default();
    let verb = right.verbs.first().map_or("", String::as_str);
    if right.non_resource_urls.is_some() {
        return format!("{verb} {}", first(&right.non_resource_urls));
    }
    let (resource, group) = (first(&right.resources), first(&right.api_groups));
    let mut line = match (group.as_str(), resource.split_once('/')) {
        ("", _) => format!("{verb} {resource}"),
        (group, None) => format!("{verb} {resource}.{group}"),
        (group, Some((plural, part))) => format!("{verb} {plural}.{group}/{part}"),
    };
    if right.resource_names.is_some() {
        line = format!("{line} \"{}\"", first(&right.resource_names));
    }
    if namespace.is_empty() {
        line
    } else {
        format!("{line} in {namespace}")
    }
}

/// The objects whose keys start with `prefix`; those that are not of their type grant nothing.
fn objects<T: DeserializeOwned>(store: &Store, resource: &'static Resource, prefix: &str) -> Vec<T> {
    let mut objects = Vec::new();
    let visited = store.visit(resource, prefix, None, store.version(), |_, stored| {
        objects.extend(parse(stored));
        ControlFlow::Continue(())
    });
    // The present is never compacted.
    debug_assert_eq!(visited, Ok(()));
    objects
}

fn parse<T: DeserializeOwned>(stored: &Stored) -> Option<T> {
    serde_json::from_slice(&stored.body).ok()
}
