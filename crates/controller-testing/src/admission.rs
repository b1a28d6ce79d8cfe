//! Admission that refuses requests for a test.

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::Api;
use kube::api::{ApiResource, DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::kinds::resource;
use crate::replica::soon;

impl Cluster {
    /// Makes admission refuse every delete of a kind in a namespace, with the given `validation`. Waits until deletes
    /// of `probe`, an object of that kind, are refused.
    pub async fn refuse_deletes(&self, namespace: &str, kind: &str, validation: Value, probe: &str) {
        let ApiResource {
            group,
            version,
            plural,
            ..
        } = resource(kind);
        let policy = json!({
            "metadata": {"name": namespace},
            "spec": {
                "matchConstraints": {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                    "resourceRules": [{
                        "apiGroups": [group], "apiVersions": [version], "resources": [plural],
                        "operations": ["DELETE"],
                    }],
                },
                "validations": [validation],
            },
        });
        let policies: Api<ValidatingAdmissionPolicy> = Api::all(self.control_plane.client());
        let policy = serde_json::from_value(policy).unwrap();
        policies.create(&PostParams::default(), &policy).await.unwrap();
        let binding = json!({
            "metadata": {"name": namespace},
            "spec": {"policyName": namespace, "validationActions": ["Deny"]},
        });
        let binding = serde_json::from_value(binding).unwrap();
        self.bindings()
            .create(&PostParams::default(), &binding)
            .await
            .unwrap();
        self.until_refused(namespace, kind, probe, true).await;
    }

    pub async fn allow_deletes(&self, namespace: &str, kind: &str, probe: &str) {
        let params = DeleteParams::default();
        self.bindings().delete(namespace, &params).await.unwrap();
        self.until_refused(namespace, kind, probe, false).await;
    }

    fn bindings(&self) -> Api<ValidatingAdmissionPolicyBinding> {
        Api::all(self.control_plane.client())
    }

    async fn until_refused(&self, namespace: &str, kind: &str, probe: &str, refused: bool) {
        let (api, trial) = (self.api_in(namespace, kind), DeleteParams::default().dry_run());
        let counts = async || (api.delete(probe, &trial).await.is_err() == refused).then_some(());
        soon("the change of policy counts", counts).await;
    }
}
