//! A release on a real API server: the commands that change it, and its objects.

use std::collections::BTreeMap;
use std::process::Output;

use controller_testing::soon;
use futures::future::join_all;
use http::Request;
use serde_json::Value;

use crate::support::{Cluster, chart, helm, root, said};

/// Group, version and resource of the objects of a release. Those of the cluster come first.
pub(crate) const OF_A_RELEASE: [&str; 10] = [
    "apis/rbac.authorization.k8s.io/v1/clusterroles",
    "apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
    "api/v1/configmaps",
    "apis/apps/v1/deployments",
    "apis/policy/v1/poddisruptionbudgets",
    "apis/rbac.authorization.k8s.io/v1/rolebindings",
    "apis/rbac.authorization.k8s.io/v1/roles",
    "api/v1/serviceaccounts",
    "api/v1/services",
];
pub(crate) const CLUSTER_WIDE: usize = 3;
/// What only an overlay adds.
pub(crate) const OF_OVERLAYS: [&str; 3] = [
    "apis/monitoring.coreos.com/v1/servicemonitors",
    "apis/monitoring.coreos.com/v1/prometheusrules",
    "apis/networking.k8s.io/v1/networkpolicies",
];
pub(crate) const NAMESPACE: &str = "kube-system";

impl Cluster {
    pub(crate) fn helm(&self, args: &[&str]) -> Output {
        let kubeconfig = format!("--kubeconfig={}", self.kubeconfig.display());
        let mut all = vec![kubeconfig.as_str(), "--namespace", NAMESPACE];
        all.extend(args);
        helm(&all)
    }

    /// Runs a command from a document and returns its output.
    pub(crate) fn typed(&self, command: &str) -> String {
        let charts = format!(" {}/charts/", root().display());
        let command = command.replace(" charts/", &charts);
        let words: Vec<_> = command.split(' ').skip(1).collect();
        said(self.helm(&words))
    }

    /// Installs or upgrades the chart under its own name and returns its notes.
    pub(crate) fn put(&self, verb: &str, name: &str, args: &[&str]) -> String {
        let chart = chart(name);
        let mut put = vec![verb, name, &chart];
        put.extend(args);
        said(self.helm(&put))
    }

    /// Objects of the release `name`, by kind and name.
    pub(crate) async fn objects(&self, name: &str) -> BTreeMap<String, Value> {
        let (cluster_wide, namespaced) = OF_A_RELEASE.split_at(CLUSTER_WIDE);
        let mut objects = self.listed(cluster_wide, None, name).await;
        objects.extend(self.listed(namespaced, Some(NAMESPACE), name).await);
        objects
    }

    /// Objects of these resources and of the release `name`, by kind and name.
    pub(crate) async fn listed(
        &self,
        resources: &[&str],
        namespace: Option<&str>,
        name: &str,
    ) -> BTreeMap<String, Value> {
        let client = self.control_plane.client();
        let lists = resources.iter().map(async |resource| {
            let (version, plural) = resource.rsplit_once('/').unwrap();
            let scope = namespace.map_or_else(String::new, |namespace| format!("/namespaces/{namespace}"));
            let label = format!("labelSelector=app.kubernetes.io/instance%3D{name}");
            let uri = format!("/{version}{scope}/{plural}?{label}");
            // A resource that has just been defined is not served yet.
            let read = async || {
                let request = Request::get(&uri).body(Vec::new()).unwrap();
                client.request::<Value>(request).await.ok()
            };
            let list = soon(&format!("{uri} is served"), read).await;
            let kind = list["kind"].as_str().unwrap().trim_end_matches("List").to_owned();
            let items = list["items"].as_array().unwrap().clone().into_iter();
            items.map(move |object| {
                (
                    format!("{kind} {}", object["metadata"]["name"].as_str().unwrap()),
                    object,
                )
            })
        });
        join_all(lists).await.into_iter().flatten().collect()
    }

    /// resourceVersions of these objects; equal ones mean that nothing was written in between.
    pub(crate) async fn versions(&self, name: &str) -> BTreeMap<String, String> {
        let version = |object: Value| object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let objects = self.objects(name).await;
        objects
            .into_iter()
            .map(|(id, object)| (id, version(object)))
            .collect()
    }

    /// Specs of these objects.
    pub(crate) async fn specs(&self, name: &str) -> BTreeMap<String, Value> {
        let objects = self.objects(name).await;
        objects
            .into_iter()
            .map(|(id, object)| (id, object["spec"].clone()))
            .collect()
    }

    /// Checksum annotation of the release's pods, and their config file.
    pub(crate) async fn config(&self, name: &str) -> (String, String) {
        let objects = self.objects(name).await;
        let pods = &objects[&format!("Deployment {name}")]["spec"]["template"];
        let checksum = pods["metadata"]["annotations"]["checksum/config"]
            .as_str()
            .unwrap();
        let file = objects[&format!("ConfigMap {name}")]["data"]["config.yaml"]
            .as_str()
            .unwrap();
        (checksum.to_owned(), file.to_owned())
    }
}
