//! The permissions that a controller's chart grants, and which of them it uses.

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::PostParams;
use local_control_plane::{ControlPlane, eventually};
use serde_json::{Value, json};

use crate::account::user;
use crate::audit::{Asked, requests_of};
use crate::replica::{SOON, soon};

/// Checked by the API server inside a request for another resource, so the audit log never shows them. What fails
/// without them shows that they are needed.
const INSIDE: [&str; 1] = ["resourceclaims/binding"];
/// Discovery, which every account may do.
const DISCOVERY: (&str, &str) = ("get", "");

/// One verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedPermission {
    /// Such as `patch`.
    pub verb: String,
    /// API group; `*` for all groups.
    pub group: String,
    /// Plural, with the subresource after a slash; `*/scale` is that subresource of any resource.
    pub resource: String,
    /// The only object that the permission covers, if limited to one.
    name: Option<String>,
    /// The only namespace that the permission covers, if limited to one.
    namespace: Option<String>,
}

impl GrantedPermission {
    /// The permissions that a role's rules grant, in `namespace` or else in the whole cluster.
    pub(crate) fn of_rules(rules: &Value, namespace: Option<&str>) -> Vec<Self> {
        let words = |list: &Value| -> Vec<String> { serde_json::from_value(list.clone()).unwrap() };
        let mut permissions = Vec::new();
        for rule in rules.as_array().unwrap() {
            let name = rule["resourceNames"][0].as_str();
            for group in words(&rule["apiGroups"]) {
                for resource in words(&rule["resources"]) {
                    for verb in words(&rule["verbs"]) {
                        permissions.push(Self {
                            verb,
                            group: group.clone(),
                            resource: resource.clone(),
                            name: name.map(str::to_owned),
                            namespace: namespace.map(str::to_owned),
                        });
                    }
                }
            }
        }
        permissions
    }

    /// True if the request needs this permission.
    pub fn is_used_by(&self, asked: &Asked) -> bool {
        let same = match self.resource.strip_prefix('*') {
            Some(subresource) => asked.resource.ends_with(subresource),
            None => asked.resource == self.resource,
        };
        // Lists are streams, which need only `watch`, if the API server serves streams.
        let is_streamed = self.verb == "list" && asked.verb == "watch";
        (asked.verb == self.verb || is_streamed) && same
    }

    /// The permission as `resourceAttributes` of a review.
    fn attributes(&self) -> Value {
        let Self {
            verb,
            group,
            resource,
            name,
            namespace,
        } = self;
        json!({"verb": verb, "group": group, "resource": resource, "name": name, "namespace": namespace})
    }
}

/// Replaces the cluster-wide permissions of the chart, and waits until that is in force.
pub(crate) async fn grant(control_plane: &ControlPlane, controller: &str, rules: Value) {
    let cluster_roles: Api<ClusterRole> = Api::all(control_plane.client());
    let mut role = cluster_roles.get(controller).await.unwrap();
    let before = GrantedPermission::of_rules(&json!(role.rules.unwrap_or_default()), None);
    let mut after = GrantedPermission::of_rules(&rules, None);
    role.rules = serde_json::from_value(rules).unwrap();
    cluster_roles
        .replace(controller, &PostParams::default(), &role)
        .await
        .unwrap();
    let taken: Vec<GrantedPermission> = before
        .iter()
        .filter(|permission| !after.contains(permission))
        .cloned()
        .collect();
    after.retain(|permission| !before.contains(permission));
    until_in_force(control_plane, controller, &taken, false).await;
    until_in_force(control_plane, controller, &after, true).await;
}

/// Waits until the API server's authorizer, which follows roles and bindings by watch, grants or refuses each of
/// `permissions`.
pub(crate) async fn until_in_force(
    control_plane: &ControlPlane,
    controller: &str,
    permissions: &[GrantedPermission],
    given: bool,
) {
    for permission in permissions {
        let what = format!(
            "the permission {permission:?} is {}",
            if given { "given" } else { "taken" }
        );
        let counts = async || (allowed(control_plane, controller, permission).await == given).then_some(());
        soon(&what, counts).await;
    }
}

async fn allowed(control_plane: &ControlPlane, controller: &str, permission: &GrantedPermission) -> bool {
    let reviews: Api<SubjectAccessReview> = Api::all(control_plane.client());
    let review = json!({"spec": {"user": user(controller), "resourceAttributes": permission.attributes()}});
    let review = serde_json::from_value(review).unwrap();
    let reviewed = reviews.create(&PostParams::default(), &review).await.unwrap();
    reviewed.status.is_some_and(|status| status.allowed)
}

/// Waits until the audit log shows that the controller has used each of `permissions`.
pub(crate) async fn until_used(
    control_plane: &ControlPlane,
    controller: &str,
    permissions: &[GrantedPermission],
) {
    let unused = || {
        let requests = requests_of(control_plane, controller);
        let logged = permissions
            .iter()
            .filter(|permission| !INSIDE.contains(&&*permission.resource));
        let is_used =
            |permission: &GrantedPermission| requests.iter().any(|asked| permission.is_used_by(asked));
        logged
            .filter(|permission| !is_used(permission))
            .collect::<Vec<_>>()
    };
    let all_used = async || unused().is_empty().then_some(());
    let in_time = eventually(SOON, "every permission is used", all_used).await;
    assert!(in_time.is_ok(), "not used: {:#?}", unused());
}

/// The controller's requests so far that were answered with 403, from the audit log.
pub fn refused(control_plane: &ControlPlane, controller: &str) -> Vec<Asked> {
    let mut refused = requests_of(control_plane, controller);
    refused.retain(|asked| asked.code == 403);
    refused
}

/// The controller's requests so far, without discovery, that only another role than `permissions` allows.
pub(crate) fn beyond(
    control_plane: &ControlPlane,
    controller: &str,
    permissions: &[GrantedPermission],
) -> Vec<Asked> {
    let mut requests = requests_of(control_plane, controller);
    requests.retain(|asked| !asked.is(DISCOVERY.0, DISCOVERY.1));
    requests.retain(|asked| !permissions.iter().any(|permission| permission.is_used_by(asked)));
    requests
}
