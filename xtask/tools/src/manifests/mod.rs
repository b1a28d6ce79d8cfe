//! `cargo xtask manifests`: the charts as plain manifests, for use without Helm.
//!
//! | file | what for |
//! |---|---|
//! | `<controller>.yaml` | `kubectl apply -f`: what the chart installs by default |
//! | `<controller>-kustomize/` | the same as a base for Kustomize |
//! | `<controller>-static-pod.yaml` | a kubelet's folder of static pods, next to kube-apiserver |
//! | `<controller>-static-pod-rbac.yaml` | `kubectl apply -f`: the permissions of that pod's user |
//! | `<controller>-static-pod-metrics.yaml`, `-static-pod-metrics-rbac.yaml` | the same where a Prometheus elsewhere reads its metrics |

mod kustomize;
mod static_pod;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::package::{self, Package};
use xtask::command::{self, root};

/// Namespace of the objects.
const NAMESPACE: &str = "kube-system";
/// Template of the admission policies, which name the user that they limit.
const POLICIES: &str = "admissionpolicy.yaml";
/// Separates YAML documents.
const END: &str = "\n---\n";
/// Prefix of the comment with the template's path, which Helm writes above each document.
const SOURCE: &str = "# Source: ";
/// Beginnings of lines that only apply to objects installed by Helm.
const OF_HELM: [&str; 3] = [SOURCE, "app.kubernetes.io/managed-by: ", "helm.sh/chart: "];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which controllers; all by default
    controllers: Vec<String>,
    /// Where to write
    #[arg(long, value_name = "DIR", default_value = "target/manifests")]
    output: PathBuf,
    /// Values of the charts that differ from their defaults, as Helm takes them; a static pod has flags instead of `config`
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let output = root().join(&args.output);
    for controller in package::select(&args.controllers)? {
        for (path, text) in files(&controller, &args.set)? {
            let path = output.join(path);
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
            }
            fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
            println!("wrote {}", path.display());
        }
    }
    Ok(())
}

/// Files of a controller, by path relative to the output folder.
fn files(controller: &Package, set: &[String]) -> Result<BTreeMap<PathBuf, String>> {
    let Package { name, version, .. } = controller;
    let set: Vec<_> = set.iter().map(String::as_str).collect();
    let documents = rendered(name, name, &set)?;
    let head = format!(
        "# {name} {version} without Helm, in {NAMESPACE}. Does the built-in loop still run? Then `dryRun: true` in the\n\
         # ConfigMap first: docs/operations.md. Pods read it when they start.\n"
    );
    let mut files = BTreeMap::from([(
        format!("{name}.yaml").into(),
        head + &joined(documents.iter().map(Document::text)),
    )]);
    files.extend(kustomize::base(controller, &documents)?);
    files.extend(static_pod::files(controller, &set)?);
    Ok(files)
}

/// An object as rendered by the chart, with its comments.
struct Document {
    /// Such as `deployment.yaml`.
    template: String,
    text: String,
}

impl Document {
    fn of(text: &str) -> Option<Self> {
        let source = text.lines().find_map(|line| line.strip_prefix(SOURCE))?;
        let template = source.rsplit('/').next().unwrap_or(source).to_owned();
        let is_ours = |line: &&str| !OF_HELM.iter().any(|start| line.trim_start().starts_with(start));
        let lines: Vec<_> = text.trim().lines().filter(is_ours).collect();
        Some(Self {
            template,
            text: lines.join("\n"),
        })
    }

    fn text(&self) -> &str {
        &self.text
    }

    fn read(&self) -> Result<serde_json::Value> {
        serde_saphyr::from_str(&self.text).with_context(|| format!("read what {} renders", self.template))
    }
}

/// Output of the chart `name` for a release with these values.
fn rendered(name: &str, release: &str, values: &[&str]) -> Result<Vec<Document>> {
    let helm = std::env::var_os("HELM").unwrap_or_else(|| OsString::from("helm"));
    let mut template = Command::new(helm);
    template
        .args(["template", release])
        .arg(root().join("charts").join(name))
        .args(["--namespace", NAMESPACE, "--skip-tests"]);
    for value in values {
        template.args(["--set", value]);
    }
    let text = command::output(&mut template)?;
    Ok(format!("\n{text}").split(END).filter_map(Document::of).collect())
}

fn joined<'a>(documents: impl Iterator<Item = &'a str>) -> String {
    let documents: Vec<_> = documents.collect();
    format!("{}\n", documents.join(END))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_says_nothing_of_helm() {
        let text = "# Source: a/templates/b.yaml\n# Why.\nkind: A\nmetadata:\n  labels:\n    team: a\n    \
                    app.kubernetes.io/managed-by: Helm\n    helm.sh/chart: a-1\nspec: {}\n\n";
        let document = Document::of(text).unwrap();
        assert_eq!(document.template, "b.yaml");
        assert_eq!(
            document.text,
            "# Why.\nkind: A\nmetadata:\n  labels:\n    team: a\nspec: {}"
        );
        assert!(Document::of("\n").is_none());
    }
}
