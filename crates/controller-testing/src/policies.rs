//! The admission policies of a chart, which limit the writes of its account.

use http::Request;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::Api;
use kube::api::PostParams;
use local_control_plane::ControlPlane;
use serde_json::{Value, json};

use crate::account::NAMESPACE;
use crate::replica::soon;

/// Creates policies and bindings as rendered.
pub(crate) async fn create(control_plane: &ControlPlane, objects: Vec<Value>) {
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(control_plane.client());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(control_plane.client());
    let params = PostParams::default();
    for object in objects {
        if object["kind"] == "ValidatingAdmissionPolicy" {
            let policy = serde_json::from_value(object).unwrap();
            policies.create(&params, &policy).await.unwrap();
        } else {
            let binding = serde_json::from_value(object).unwrap();
            bindings.create(&params, &binding).await.unwrap();
        }
    }
}

/// Waits until the policies limit `user`: the last of them refuses a Lease of another name. The audit log lists the
/// tries under the administrator.
pub async fn until_limited(control_plane: &ControlPlane, user: &str) {
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases?dryRun=All");
    let lease = json!({"metadata": {"name": "probe"}}).to_string();
    let refused = async || {
        let request = Request::post(&leases)
            .header("Content-Type", "application/json")
            .header("Impersonate-User", user)
            .body(lease.clone().into_bytes())
            .unwrap();
        let answer = control_plane.client().request_text(request).await;
        let error = answer.err()?.to_string();
        error.contains("ValidatingAdmissionPolicy").then_some(())
    };
    soon(&format!("policies limit {user}"), refused).await;
}
