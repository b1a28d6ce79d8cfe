//! The rights of a controller's service account on a real API server.

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use testkit::real::ControlPlane;

use crate::audit::{Asked, requests_of};
use crate::replica::user;

/// Replaces the rights in the whole cluster of what [`service_account`](crate::service_account) made.
pub async fn grant(control_plane: &ControlPlane, controller: &str, rules: Value) {
    let cluster_roles: Api<ClusterRole> = Api::all(control_plane.client());
    let mut role = cluster_roles.get(controller).await.unwrap();
    role.rules = serde_json::from_value(rules).unwrap();
    cluster_roles
        .replace(controller, &PostParams::default(), &role)
        .await
        .unwrap();
}

/// Whether the API server lets the controller do so, by now: it takes a moment to see new rights.
pub async fn may(
    control_plane: &ControlPlane,
    controller: &str,
    verb: &str,
    group: &str,
    resource: &str,
) -> bool {
    let attributes = json!({"verb": verb, "group": group, "resource": resource});
    allowed(control_plane, controller, &attributes).await
}

/// The same of a request with these `resourceAttributes`.
pub(crate) async fn allowed(control_plane: &ControlPlane, controller: &str, attributes: &Value) -> bool {
    let reviews: Api<SubjectAccessReview> = Api::all(control_plane.client());
    let review = json!({"spec": {"user": user(controller), "resourceAttributes": attributes}});
    let review = serde_json::from_value(review).unwrap();
    let reviewed = reviews.create(&PostParams::default(), &review).await.unwrap();
    reviewed.status.is_some_and(|status| status.allowed)
}

/// Those of `rights`, each a verb and a resource, that the controller has not used so far, by the audit log.
pub fn unused<'a>(
    control_plane: &ControlPlane,
    controller: &str,
    rights: &[(&'a str, &'a str)],
) -> Vec<(&'a str, &'a str)> {
    let requests = requests_of(control_plane, controller);
    let used = |(verb, resource): &(&str, &str)| requests.iter().any(|asked| asked.is(verb, resource));
    rights.iter().filter(|right| !used(right)).copied().collect()
}

/// The requests of the controller that were answered with 403 so far, by the audit log.
pub fn refused(control_plane: &ControlPlane, controller: &str) -> Vec<Asked> {
    let mut refused = requests_of(control_plane, controller);
    refused.retain(|asked| asked.code == 403);
    refused
}
