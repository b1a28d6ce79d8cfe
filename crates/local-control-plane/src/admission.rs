//! When the admission of the API server has caught up with the policies that there are.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Error, eventually};

/// Name of the policy, of its binding, and of the only object that it refuses.
const PROBE: &str = "admission-has-caught-up";
/// Longest time; usually it is a second.
const WITHIN: Duration = Duration::from_secs(20);

/// Waits until earlier changes of validating policies are in force: a later policy is.
pub(super) async fn until_caught_up(client: &Client) -> Result<(), Error> {
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    let rule = json!({
        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"],
    });
    let policy = json!({
        "metadata": {"name": PROBE},
        "spec": {
            "matchConstraints": {"objectSelector": {"matchLabels": {PROBE: ""}}, "resourceRules": [rule]},
            "validations": [{"expression": "false", "message": PROBE}],
        },
    });
    create(&policies, policy).await?;
    let binding = json!({
        "metadata": {"name": PROBE},
        "spec": {"policyName": PROBE, "validationActions": ["Deny"]},
    });
    create(&bindings, binding).await?;
    let config_maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let refused = async || {
        let trial = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let metadata = json!({"name": PROBE, "labels": {PROBE: ""}});
        let config_map = serde_json::from_value(json!({ "metadata": metadata })).ok()?;
        let refused = config_maps.create(&trial, &config_map).await.err()?;
        let by_probe = format!("ValidatingAdmissionPolicy '{PROBE}'");
        refused.to_string().contains(&by_probe).then_some(())
    };
    eventually(WITHIN, "a new admission policy is in force", refused).await?;
    delete(&bindings).await?;
    delete(&policies).await
}

async fn create<K>(api: &Api<K>, object: Value) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    let object = serde_json::from_value(object).map_err(kube::Error::SerdeError);
    let created = match object {
        Ok(object) => api.create(&PostParams::default(), &object).await,
        Err(error) => Err(error),
    };
    let created = created.map_err(|source| Error::request("create an admission policy", source));
    created.map(drop)
}

async fn delete<K>(api: &Api<K>) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let deleted = api.delete(PROBE, &DeleteParams::default()).await;
    let deleted = deleted.map_err(|source| Error::request("delete an admission policy", source));
    deleted.map(drop)
}
