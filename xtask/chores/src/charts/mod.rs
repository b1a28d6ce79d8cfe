//! `cargo xtask charts`: writes `charts/`, a Helm chart for each controller.
//!
//! | in a chart | written from |
//! |---|---|
//! | `templates/` | `xtask/charts/templates/`, the same in every chart |
//! | `values.yaml`, `values.schema.json`, `README.md` | `xtask/charts/values.yaml` and the config type of the controller |
//! | `files/rules.yaml` | `xtask/charts/<controller>/rules.yaml`: its permissions in the whole cluster |
//! | `files/rules-of-gates.yaml` | the file of that name beside it, if there is one: what a feature gate needs beside them |
//! | `files/alerts.yaml`, `files/dashboard.json` | `xtask/charts/` and `xtask/charts/<controller>/`, what all have and its own |
//! | `Chart.yaml` | name, description and version of the crate |
//!
//! `charts/kube-controllers` has them all as its dependencies ([`umbrella`]).
//!
//! With `--check` nothing is written: a chart that differs from what would be written is an error.

mod alerts;
mod dashboard;
mod readme;
mod umbrella;
mod values;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use controller_core::args::SUPPORTED_KUBERNETES;
use controller_core::config::config_schema;
use controller_core::runtime::App;
use disruption_controller::DisruptionController;
use resourceclaim_controller::ResourceClaimController;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use taint_eviction_controller::TaintEvictionController;
use ttl_after_finished_controller::TtlAfterFinishedController;
use ttl_controller::TtlController;

use xtask::command::root;

pub(crate) use umbrella::NAME as UMBRELLA;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if charts/ is not what would be written
    #[arg(long)]
    check: bool,
    /// Where the images are found, such as ghcr.io/somebody: for charts that are released
    #[arg(long, conflicts_with = "check")]
    registry: Option<String>,
}

/// What differs between the charts, but for the files in `xtask/charts/<name>/`.
struct Chart {
    name: &'static str,
    about: &'static str,
    version: &'static str,
    /// Where its image and itself are found, once they are released.
    registry: Option<String>,
    /// JSON Schema of the config file.
    config: fn() -> Value,
    memory: Memory,
    /// Taints that its pods tolerate.
    tolerations: fn() -> Value,
    /// Of its admin server on a node's network, where 8080 is often taken.
    host_port: u16,
}

/// Request and limit; docs/operations.md says for which size of cluster.
struct Memory {
    request: &'static str,
    limit: &'static str,
}

impl Chart {
    fn of<A: App>(memory: Memory, tolerations: fn() -> Value, host_port: u16) -> Self {
        Self {
            name: A::ABOUT.name,
            about: A::ABOUT.about,
            version: A::ABOUT.version,
            registry: None,
            config: config_schema::<A::Config>,
            memory,
            tolerations,
            host_port,
        }
    }

    /// The image, without tag.
    fn image(&self) -> String {
        match &self.registry {
            Some(registry) => format!("{registry}/{}", self.name),
            None => self.name.to_owned(),
        }
    }

    /// What `helm install` calls it.
    fn reference(&self) -> String {
        match &self.registry {
            Some(registry) => format!("oci://{registry}/charts/{}", self.name),
            None => format!("charts/{}", self.name),
        }
    }
}

fn charts() -> [Chart; 5] {
    let memory = |request, limit| Memory { request, limit };
    [
        Chart::of::<DisruptionController>(memory("64Mi", "256Mi"), on_control_planes, 10271),
        Chart::of::<ResourceClaimController>(memory("64Mi", "256Mi"), on_control_planes, 10272),
        Chart::of::<TaintEvictionController>(memory("64Mi", "256Mi"), in_spite_of_evictions, 10273),
        Chart::of::<TtlAfterFinishedController>(memory("24Mi", "128Mi"), on_control_planes, 10274),
        Chart::of::<TtlController>(memory("24Mi", "64Mi"), on_control_planes, 10275),
    ]
}

fn on_control_planes() -> Value {
    json!([{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}])
}

/// It would evict itself for a taint that it alone acts on.
fn in_spite_of_evictions() -> Value {
    json!([
        {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"},
        {"operator": "Exists", "effect": "NoExecute"},
    ])
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let wanted = files(args.registry.as_deref())?;
    let there = found(&root().join("charts"))?;
    let stale = differences(&wanted, &there);
    if stale.is_empty() {
        println!("charts/ is up to date");
        return Ok(());
    }
    if args.check {
        let stale: Vec<_> = stale.iter().map(|path| path.display().to_string()).collect();
        bail!(
            "charts/ is stale: change xtask/charts/ and run `cargo xtask charts`; these differ:\n  {}",
            stale.join("\n  ")
        );
    }
    for path in stale {
        let file = root().join("charts").join(path);
        match wanted.get(path) {
            Some(text) => {
                let folder = file.parent().context("a file of a chart is in a folder")?;
                fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
                if umbrella::is_link(path) {
                    symlink(text, &file).with_context(|| format!("link {}", file.display()))?;
                } else {
                    fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
                }
            }
            None => fs::remove_file(&file).with_context(|| format!("remove {}", file.display()))?,
        }
        println!("wrote charts/{}", path.display());
    }
    Ok(())
}

/// The files that are missing, have another text, or are left over.
fn differences<'a>(
    wanted: &'a BTreeMap<PathBuf, String>,
    there: &'a BTreeMap<PathBuf, String>,
) -> Vec<&'a Path> {
    let changed = wanted
        .iter()
        .filter(|(path, text)| there.get(*path) != Some(*text));
    let left_over = there.keys().filter(|path| !wanted.contains_key(*path));
    changed
        .map(|(path, _)| path)
        .chain(left_over)
        .map(PathBuf::as_path)
        .collect()
}

/// What is to be in `charts/`, by path from there.
fn files(registry: Option<&str>) -> Result<BTreeMap<PathBuf, String>> {
    let mut charts = charts();
    for chart in &mut charts {
        chart.registry = registry.map(str::to_owned);
    }
    let mut files = umbrella::files(&charts)?;
    for chart in &charts {
        let mut add = |path: &Path, text| files.insert(Path::new(chart.name).join(path), text);
        for (path, text) in found(&sources().join("templates"))? {
            add(&Path::new("templates").join(path), text);
        }
        let values = values::Values::of(chart)?;
        let rules = source(chart.name, "rules.yaml")?;
        let of_gates = source_if_any(chart.name, "rules-of-gates.yaml")?;
        let alerts = alerts::rules(chart.name)?;
        add(Path::new("Chart.yaml"), chart_yaml(chart));
        add(
            Path::new("README.md"),
            readme::text(chart, &values, &rules, of_gates.as_deref(), &alerts)?,
        );
        add(Path::new("values.yaml"), values.yaml()?);
        add(Path::new("values.schema.json"), pretty(&values.schema())?);
        add(Path::new("files/rules.yaml"), rules);
        if let Some(of_gates) = of_gates {
            add(Path::new("files/rules-of-gates.yaml"), of_gates);
        }
        add(Path::new("files/alerts.yaml"), alerts);
        add(
            Path::new("files/dashboard.json"),
            pretty(&dashboard::model(chart)?)?,
        );
    }
    Ok(files)
}

fn chart_yaml(chart: &Chart) -> String {
    let Chart {
        name, about, version, ..
    } = chart;
    format!(
        "apiVersion: v2\n\
         name: {name}\n\
         description: {about}\n\
         type: application\n\
         version: {version}\n\
         appVersion: {version}\n\
         {}",
        kube_version()
    )
}

/// The line of `Chart.yaml` that says for which versions of Kubernetes it is.
fn kube_version() -> String {
    format!("kubeVersion: \">={}.0-0\"\n", SUPPORTED_KUBERNETES[0])
}

/// All files below `folder`, by path from there, of a link where it leads; none if there is no such folder.
fn found(folder: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    folders.retain(|folder| folder.is_dir());
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).with_context(|| format!("list {}", next.display()))? {
            let path = entry?.path();
            let reading = || format!("read {}", path.display());
            let text = if path.is_symlink() {
                fs::read_link(&path).with_context(reading)?.display().to_string()
            } else if path.is_dir() {
                folders.push(path);
                continue;
            } else {
                fs::read_to_string(&path).with_context(reading)?
            };
            files.insert(path.strip_prefix(folder).unwrap_or(&path).to_owned(), text);
        }
    }
    Ok(files)
}

/// Where the charts are written from.
fn sources() -> PathBuf {
    root().join("xtask/charts")
}

/// What stands in `file` of the sources of `chart`; of what all charts share, if that is empty.
fn source(chart: &str, file: &str) -> Result<String> {
    let path = sources().join(chart).join(file);
    fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
}

/// The same of a file that not every chart has.
fn source_if_any(chart: &str, file: &str) -> Result<Option<String>> {
    let there = sources().join(chart).join(file).is_file();
    there.then(|| source(chart, file)).transpose()
}

fn yaml<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_saphyr::from_str(text).context("not the YAML that is expected")
}

fn pretty(value: &Value) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}
