//! A Kustomize base. Its generator makes the `ConfigMap`, so that an overlay that changes the config replaces the pods.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Document, NAMESPACE, POLICIES, joined};
use crate::package::Package;

/// Template of the `ConfigMap`, and the key of the config file.
const CONFIG_MAP: &str = "configmap.yaml";
const CONFIG: &str = "config.yaml";
/// Comment and checksum in the pods' annotations, which the name of a generated `ConfigMap` replaces.
const CHECKSUM: [&str; 2] = ["# The config is read at the start only.", "checksum/config: "];

/// Fields with namespaces that Kustomize does not know.
const NAMESPACES: &str = "\
namespace:
  - kind: FlowSchema
    group: flowcontrol.apiserver.k8s.io
    path: spec/rules/subjects/serviceAccount/namespace
";

pub(super) fn base(controller: &Package, documents: &[Document]) -> Result<BTreeMap<PathBuf, String>> {
    let Package { name, version, .. } = controller;
    let (config_map, others): (Vec<_>, Vec<_>) = documents
        .iter()
        .partition(|document| document.template == CONFIG_MAP);
    let config_map = config_map.first().context("the chart has no ConfigMap")?.read()?;
    let config = config_map["data"][CONFIG]
        .as_str()
        .context("the ConfigMap has no config")?;
    let labels = serde_json::to_string(&config_map["metadata"]["labels"])?;
    // Kustomize takes this name in a role's resourceNames for a reference, and the Lease has the name of the
    // controller.
    let generated = format!("{name}-config");
    // Policies name the user in CEL, so an overlay with another namespace would leave policies that limit nobody.
    let others: Vec<_> = others
        .iter()
        .filter(|document| document.template != POLICIES)
        .map(|document| without_checksum(document).replace(&mount(name), &mount(&generated)))
        .collect();
    let kustomization = format!(
        "# A base of {name} {version}. An overlay says what differs: `namespace`, `images`, `replicas`, `patches`, and\n\
         # `configMapGenerator` with `behavior: replace` and the same name and namespace for the config. It has no admission\n\
         # policies: they name the account and its namespace in CEL, where Kustomize finds neither.\n\
         apiVersion: kustomize.config.k8s.io/v1beta1\n\
         kind: Kustomization\n\
         resources: [resources.yaml]\n\
         configurations: [namespaces.yaml]\n\
         configMapGenerator:\n\
         \x20 - name: {generated}\n\
         \x20   namespace: {NAMESPACE}\n\
         \x20   files: [{CONFIG}]\n\
         \x20   options:\n\
         \x20     labels: {labels}\n"
    );
    let folder = format!("{name}-kustomize");
    let files = [
        ("kustomization.yaml", kustomization),
        ("namespaces.yaml", NAMESPACES.to_owned()),
        ("resources.yaml", joined(others.iter().map(String::as_str))),
        (CONFIG, config.to_owned()),
    ];
    Ok(files
        .map(|(file, text)| (Path::new(&folder).join(file), text))
        .into())
}

/// Reference of the pods to their `ConfigMap`.
fn mount(config_map: &str) -> String {
    format!("configMap:\n            name: {config_map}\n")
}

fn without_checksum(document: &Document) -> String {
    let lines = document.text.lines();
    let kept = lines.filter(|line| !CHECKSUM.iter().any(|start| line.trim_start().starts_with(start)));
    kept.collect::<Vec<_>>().join("\n")
}
