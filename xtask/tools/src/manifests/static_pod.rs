//! A static pod next to kube-apiserver. A kubelet runs it without an API server, so it refers to no API objects:
//! neither
//! `ServiceAccount` nor `ConfigMap`. A kubeconfig in a folder of the node has its identity.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{NAMESPACE, POLICIES, joined, rendered};
use crate::package::Package;

/// Parent of the controllers' folders.
const FOLDERS: &str = "/etc/kubernetes";
/// Keys of a pod's spec about the choice of a node and the identity in a cluster.
const OF_A_CLUSTER: [&str; 6] = [
    "affinity",
    "automountServiceAccountToken",
    "enableServiceLinks",
    "serviceAccountName",
    "tolerations",
    "topologySpreadConstraints",
];
/// Templates with the permissions.
const PERMISSIONS: [&str; 3] = ["rbac.yaml", "flowschema.yaml", POLICIES];

/// Readers of the metrics.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Readers {
    /// Anybody on the node.
    OfTheNode,
    /// Accounts that the API server allows, from everywhere.
    Allowed,
}

pub(super) fn files(controller: &Package, set: &[&str]) -> Result<BTreeMap<PathBuf, String>> {
    let mut files = files_for(controller, set, Readers::OfTheNode)?;
    files.extend(files_for(controller, set, Readers::Allowed)?);
    Ok(files)
}

fn files_for(controller: &Package, set: &[&str], readers: Readers) -> Result<BTreeMap<PathBuf, String>> {
    let Package { name, version, .. } = controller;
    let (file, authorization) = match readers {
        Readers::OfTheNode => ("static-pod", "config.metricsAuthorization=none"),
        Readers::Allowed => ("static-pod-metrics", "config.metricsAuthorization=kubernetes"),
    };
    // The image's user, by number; the node decides who may read the kubeconfig.
    let values = [
        "hostNetwork=true",
        "priorityClassName=system-node-critical",
        "podSecurityContext.runAsUser=65532",
        "podSecurityContext.runAsGroup=65532",
        authorization,
    ];
    // Under another name, so that an installed chart keeps its objects and its Service does not select these pods.
    let documents = rendered(name, &format!("{name}-static-pod"), &[&values[..], set].concat())?;
    let deployment = documents
        .iter()
        .find(|document| document.template == "deployment.yaml")
        .context("the chart has no Deployment")?;
    let pod = pod(name, deployment.read()?, readers)?;
    let pod = format!(
        "# {name} {version} as a static pod of a control plane node: docs/static-pod.md says what else it needs.\n{}",
        yaml(&pod)?
    );
    let permissions: Vec<_> = documents
        .iter()
        .filter(|document| PERMISSIONS.contains(&document.template.as_str()))
        .map(|document| yaml(&of_user(name, document.read()?)))
        .collect::<Result<_>>()?;
    let permissions = format!(
        "# What the user {name} may do, who runs {name} {version} as a static pod.\n{}",
        joined(permissions.iter().map(|text| text.trim_end()))
    );
    Ok(BTreeMap::from([
        (format!("{name}-{file}.yaml").into(), pod),
        (format!("{name}-{file}-rbac.yaml").into(), permissions),
    ]))
}

/// Turns the pod of a Deployment into a static one.
fn pod(name: &str, mut deployment: Value, readers: Readers) -> Result<Value> {
    let folder = format!("{FOLDERS}/{name}");
    let mut template = deployment["spec"]["template"].take();
    let mut spec = template["spec"].take();
    let keys = spec.as_object_mut().context("the pods have no spec")?;
    keys.retain(|key, _| !OF_A_CLUSTER.contains(&key.as_str()));
    keys.insert(
        "volumes".to_owned(),
        json!([{"name": "kubeconfig", "hostPath": {"path": folder, "type": "Directory"}}]),
    );
    let container = spec
        .pointer_mut("/containers/0")
        .context("the pods have no container")?;
    let port = container
        .pointer("/ports/0/containerPort")
        .and_then(Value::as_u64)
        .context("the container has no port")?;
    let address = match readers {
        Readers::OfTheNode => "127.0.0.1",
        Readers::Allowed => "[::]",
    };
    let mut args = vec![
        format!("--kubeconfig={folder}/kubeconfig"),
        format!("--leader-elect-resource-namespace={NAMESPACE}"),
        format!("--http-bind-address={address}:{port}"),
    ];
    if readers == Readers::Allowed {
        args.push("--metrics-authorization=kubernetes".to_owned());
    }
    container["args"] = json!(args);
    container["volumeMounts"] = json!([{"name": "kubeconfig", "mountPath": folder, "readOnly": true}]);
    for probe in ["livenessProbe", "readinessProbe"] {
        container[probe]["httpGet"]["host"] = json!("127.0.0.1");
    }
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": template["metadata"]["labels"],
        },
        "spec": spec,
    }))
}

/// Replaces the `ServiceAccount` in an object by the kubeconfig's user.
fn of_user(name: &str, mut object: Value) -> Value {
    if let Some(subjects) = object.get_mut("subjects") {
        *subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}]);
    }
    let rules = object.pointer_mut("/spec/rules").and_then(Value::as_array_mut);
    for rule in rules.into_iter().flatten() {
        rule["subjects"] = json!([{"kind": "User", "user": {"name": name}}]);
    }
    if let Some(condition) = object.pointer_mut("/spec/matchConditions/0/expression") {
        *condition = json!(format!("request.userInfo.username == '{name}'"));
    }
    object
}

fn yaml(object: &Value) -> Result<String> {
    serde_saphyr::to_string(object).context("write an object")
}
