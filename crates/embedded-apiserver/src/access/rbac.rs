//! Role-based access control: what the roles and bindings in the store grant.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use serde::de::DeserializeOwned;

use super::user::AUTHENTICATED;
use super::{Attributes, SELF_REVIEWS, User};
use crate::resource::Resource;
use crate::resource::table::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES};
use crate::store::{Store, Stored};

const ALL: &str = "*";
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// Paths that every cluster lets these groups read from the start.
const BOOTSTRAP: &[(&[&str], &[&str])] = &[
    (
        &["system:authenticated"],
        &["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"],
    ),
    (
        &["system:authenticated", "system:unauthenticated"],
        &["/healthz", "/livez", "/readyz", "/version", "/version/"],
    ),
];

/// The permissions that one binding gives to a user.
struct Grant {
    /// Namespace of the binding; empty for the whole cluster.
    namespace: String,
    /// The rules of its role; the error says that the role does not exist.
    rules: Result<Vec<PolicyRule>, String>,
}

/// Succeeds if `user` may do what `asked` says; the error names what is wrong with the user's bindings, if anything.
pub(super) fn judge(store: &Store, user: &User, asked: &Attributes) -> Result<(), String> {
    let mut missing = BTreeSet::new();
    for grant in bootstrap(user).chain(grants(store, user, Some(asked.namespace()))) {
        match grant.rules {
            Ok(rules) if rules.iter().any(|rule| allows(rule, asked)) => return Ok(()),
            Ok(_) => {}
            Err(why) => {
                missing.insert(why);
            }
        }
    }
    let missing: Vec<String> = missing.into_iter().collect();
    Err(match missing.as_slice() {
        [] => String::new(),
        [one] => format!("rbac: RBAC: {one}"),
        more => format!("rbac: RBAC: [{}]", more.join(", ")),
    })
}

/// Everything that the store grants to `user`, one line per permission.
pub(super) fn all_permissions(store: &Store, user: &User) -> BTreeSet<String> {
    permissions_that(grants(store, user, None), |_| true)
}

/// Those permissions that allow what `asked` says.
pub(super) fn permissions_to(store: &Store, user: &User, asked: &Attributes) -> BTreeSet<String> {
    permissions_that(grants(store, user, Some(asked.namespace())), |rule| {
        allows(rule, asked)
    })
}

fn permissions_that(
    grants: impl Iterator<Item = Grant>,
    wanted: impl Fn(&PolicyRule) -> bool,
) -> BTreeSet<String> {
    let mut permissions = BTreeSet::new();
    for grant in grants {
        for rule in grant.rules.iter().flatten().flat_map(single_permissions) {
            if wanted(&rule) {
                permissions.insert(describe(&rule, &grant.namespace));
            }
        }
    }
    permissions
}

fn bootstrap(user: &User) -> impl Iterator<Item = Grant> {
    let reviews = PolicyRule {
        verbs: vec!["create".to_owned()],
        api_groups: Some(vec![SELF_REVIEWS.0.to_owned()]),
        resources: Some(vec![SELF_REVIEWS.1.to_owned()]),
        ..PolicyRule::default()
    };
    let reviews = user.is_in(AUTHENTICATED).then(|| Grant {
        namespace: String::new(),
        rules: Ok(vec![reviews]),
    });
    let paths = BOOTSTRAP
        .iter()
        .filter(|(groups, _)| groups.iter().any(|group| user.is_in(group)))
        .map(|(_, paths)| Grant {
            namespace: String::new(),
            rules: Ok(vec![PolicyRule {
                verbs: vec!["get".to_owned()],
                non_resource_urls: Some(paths.iter().map(ToString::to_string).collect()),
                ..PolicyRule::default()
            }]),
        });
    paths.chain(reviews)
}

/// The grants of `user` in the cluster and in `namespace`; `None`: in all namespaces.
fn grants(store: &Store, user: &User, namespace: Option<&str>) -> impl Iterator<Item = Grant> {
    let means = |subjects: &Option<Vec<Subject>>, at: &str| {
        let mut subjects = subjects.iter().flatten();
        subjects.any(|subject| is(user, subject, at))
    };
    let grant = |role: &RoleRef, namespace: String| Grant {
        rules: rules_of(store, role, &namespace),
        namespace,
    };
    let mut grants = Vec::new();
    for binding in objects::<ClusterRoleBinding>(store, &CLUSTER_ROLE_BINDINGS, "") {
        if means(&binding.subjects, "") {
            grants.push(grant(&binding.role_ref, String::new()));
        }
    }
    let prefix = match namespace {
        Some("") => return grants.into_iter(),
        Some(namespace) => format!("{namespace}/"),
        None => String::new(),
    };
    for binding in objects::<RoleBinding>(store, &ROLE_BINDINGS, &prefix) {
        let at = binding.metadata.namespace.unwrap_or_default();
        if means(&binding.subjects, &at) {
            grants.push(grant(&binding.role_ref, at));
        }
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

/// True if `subject` of a binding in `namespace` means this user.
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

/// True if the rule allows what `asked` says (upstream `RuleAllows`).
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

/// Splits a rule into rules of one verb and one resource or path each.
fn single_permissions(rule: &PolicyRule) -> Vec<PolicyRule> {
    let none = vec![None];
    let each = |list: &Option<Vec<String>>| -> Vec<Option<Vec<String>>> {
        match list.as_deref() {
            None | Some([]) => none.clone(),
            Some(entries) => entries.iter().map(|entry| Some(vec![entry.clone()])).collect(),
        }
    };
    let mut permissions = Vec::new();
    for verb in &rule.verbs {
        let verbs = vec![verb.clone()];
        for url in rule.non_resource_urls.iter().flatten() {
            permissions.push(PolicyRule {
                verbs: verbs.clone(),
                non_resource_urls: Some(vec![url.clone()]),
                ..PolicyRule::default()
            });
        }
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                for name in each(&rule.resource_names) {
                    permissions.push(PolicyRule {
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
    permissions
}

/// Prints a single permission, e.g. `patch nodes/status`.
fn describe(permission: &PolicyRule, namespace: &str) -> String {
    let first = |list: &Option<Vec<String>>| list.iter().flatten().next().cloned().unwrap_or_default();
    let verb = permission.verbs.first().map_or("", String::as_str);
    if permission.non_resource_urls.is_some() {
        return format!("{verb} {}", first(&permission.non_resource_urls));
    }
    let (resource, group) = (first(&permission.resources), first(&permission.api_groups));
    let mut line = match (group.as_str(), resource.split_once('/')) {
        ("", _) => format!("{verb} {resource}"),
        (group, None) => format!("{verb} {resource}.{group}"),
        (group, Some((plural, part))) => format!("{verb} {plural}.{group}/{part}"),
    };
    if permission.resource_names.is_some() {
        line = format!("{line} \"{}\"", first(&permission.resource_names));
    }
    if namespace.is_empty() {
        line
    } else {
        format!("{line} in {namespace}")
    }
}

/// The objects whose keys start with `prefix`. Objects that their type cannot hold grant nothing.
fn objects<T: DeserializeOwned>(store: &Store, resource: &'static Resource, prefix: &str) -> Vec<T> {
    let all = store.all(resource, prefix);
    all.filter_map(|(_, stored)| parse(stored)).collect()
}

fn parse<T: DeserializeOwned>(stored: &Stored) -> Option<T> {
    serde_json::from_slice(&stored.body).ok()
}
