//! `cargo xtask charts`: writes `charts/`, a Helm chart for each controller.
//!
//! | in a chart | written from |
//! |---|---|
//! | `templates/common` | a link to `charts/src/templates/`, which Helm follows and packages as files |
//! | `values.yaml`, `values.schema.json`, `README.md` | `xtask/charts/values.yaml` and the config type of the controller |
//! | `files/rules.yaml` | `xtask/charts/<controller>/rules.yaml`: its permissions in the whole cluster |
//! | `files/rules-of-gates.yaml` | the file of that name beside it, if there is one: what a feature gate needs beside them |
//! | `files/admission.yaml` | the files of that name there and in `xtask/charts/`: what the account may write, its own and what all have |
//! | `files/alerts.yaml`, `files/dashboard.json` | `xtask/charts/` and `xtask/charts/<controller>/`, what all have and its own |
//! | `Chart.yaml` | name, description and version of the crate |
//!
//! `charts/kube-controllers` has them all as its dependencies ([`umbrella`]).
//!
//! With `--check` nothing is written: a chart that differs from what would be written is an error.

mod alerts;
mod dashboard;
mod files;
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

use crate::image;
use xtask::command::root;

use files::{found, source, source_if_any};
pub(crate) use umbrella::{NAME as UMBRELLA, VERSION as UMBRELLA_VERSION};

/// What in `charts/` is no chart.
const BY_HAND: &str = "src";
/// The link from a chart to the templates that all charts share. They are no library chart: the names of templates are
/// global in a release, so in `kube-controllers` one version of the library would render the charts of all versions.
const TEMPLATES: &str = "templates/common";
/// A file of the chart itself, which fails where the link is left out, as from a Git repository by Flux. Without it Helm
/// would install nothing, or remove what is installed, and say that all is well.
const NOTES: &str = "{{ include \"controller.notes\" . }}\n";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if charts/ is not what would be written
    #[arg(long)]
    check: bool,
    /// Where the images are found, such as ghcr.io/somebody: for charts that are released
    #[arg(long, requires = "source", conflicts_with = "check")]
    registry: Option<String>,
    /// Where the repository is read, such as <https://github.com/somebody/controllers>: for their links
    #[arg(long, requires = "registry", value_parser = source_url)]
    source: Option<String>,
    /// What `cargo xtask image` wrote: a released chart whose image is there installs that one, by its digest
    #[arg(long, requires = "registry", value_name = "DIR")]
    images: Option<PathBuf>,
}

/// Where a released chart has its image and its documents. A chart in a checkout knows neither.
#[derive(Clone)]
struct Published {
    registry: String,
    /// A repository in the manner of GitHub: `<source>/blob/<tag>/<path>` shows a file.
    source: String,
}

/// An address with scheme, host, owner and repository, without a slash at its end.
fn source_url(text: &str) -> Result<String, String> {
    let parts = text
        .strip_prefix("https://")
        .map(|rest| rest.split('/').collect::<Vec<_>>());
    match parts.as_deref() {
        Some([host, owner, repository]) if ![host, owner, repository].iter().any(|part| part.is_empty()) => {
            Ok(text.to_owned())
        }
        _ => Err("expected https://<host>/<owner>/<repository>".to_owned()),
    }
}

/// What differs between the charts, but for the files in `xtask/charts/<name>/`.
struct Chart {
    name: &'static str,
    about: &'static str,
    version: &'static str,
    published: Option<Published>,
    /// Of its image, `@sha256:…`, where it is known.
    digest: String,
    /// JSON Schema of the config file.
    config: fn() -> Value,
    memory: Memory,
    /// Taints that its pods tolerate.
    tolerations: fn() -> Vec<Value>,
    /// Of its admin server on a node's network, where 8080 is often taken.
    host_port: u16,
}

/// Request and limit; docs/operations.md says for which size of cluster.
struct Memory {
    request: &'static str,
    limit: &'static str,
}

impl Chart {
    fn of<A: App>(memory: Memory, tolerations: fn() -> Vec<Value>, host_port: u16) -> Self {
        Self {
            name: A::ABOUT.name,
            about: A::ABOUT.about,
            version: A::ABOUT.version,
            published: None,
            digest: String::new(),
            config: config_schema::<A::Config>,
            memory,
            tolerations,
            host_port,
        }
    }

    /// The image, without tag; empty where nobody has published one.
    fn image(&self) -> String {
        self.published
            .as_ref()
            .map(|published| format!("{}/{}", published.registry, self.name))
            .unwrap_or_default()
    }

    /// Where its runbooks are read: in the release of that version, or anywhere else that a value names.
    fn runbooks(&self) -> String {
        match self.published {
            Some(_) => self.link(alerts::RUNBOOKS),
            None => alerts::RUNBOOKS.to_owned(),
        }
    }

    /// What `helm install` calls it.
    fn reference(&self) -> String {
        reference(self.published.as_ref(), self.name)
    }

    /// A link from its README to a file of the repository, which may end in an anchor.
    fn link(&self, path: &str) -> String {
        link(self.published.as_ref(), (self.name, self.version), path)
    }
}

fn reference(published: Option<&Published>, name: &str) -> String {
    match published {
        Some(Published { registry, .. }) => format!("oci://{registry}/charts/{name}"),
        None => format!("charts/{name}"),
    }
}

/// The file as it is in the release of that name and version, wherever the link is read; else that of the checkout.
fn link(published: Option<&Published>, (name, version): (&str, &str), path: &str) -> String {
    match published {
        Some(Published { source, .. }) => format!("{source}/blob/{name}-v{version}/{path}"),
        None => format!("../../{path}"),
    }
}

/// Of Chart.yaml: where the chart comes from, who looks after it, and what Artifact Hub shows beside it. It installs the
/// controllers of `charts`.
fn metadata(release: (&str, &str), [readme, changelog]: [&str; 2], charts: &[Chart]) -> String {
    let (name, version) = release;
    let keywords = format!("keywords: [kubernetes, controller, kube-controller-manager, {name}]\n");
    let license = "annotations:\n  artifacthub.io/license: Apache-2.0\n";
    let Some(published) = charts.first().and_then(|chart| chart.published.as_ref()) else {
        return keywords + license;
    };
    let link = |path| link(Some(published), release, path);
    let source = &published.source;
    let owner_page = source.rsplit_once('/').map_or("", |(owner_page, _)| owner_page);
    let owner = owner_page.rsplit('/').next().unwrap_or_default();
    let image = |chart: &Chart| {
        format!(
            "    - name: {}\n      image: {}:{}{}\n      platforms: [linux/amd64, linux/arm64]\n",
            chart.name,
            chart.image(),
            chart.version,
            chart.digest
        )
    };
    format!(
        "{keywords}\
         home: {}\n\
         sources: [{source}]\n\
         maintainers:\n  \
           - name: {owner}\n    \
             url: {owner_page}\n\
         {license}  \
           artifacthub.io/prerelease: \"{}\"\n  \
           artifacthub.io/images: |\n\
         {}  \
           artifacthub.io/links: |\n    \
             - name: Operations\n      \
               url: {}\n    \
             - name: Changelog\n      \
               url: {}\n    \
             - name: Support\n      \
               url: {source}/issues\n",
        link(readme),
        version.contains('-'),
        charts.iter().map(image).collect::<String>(),
        link("docs/operations.md"),
        link(changelog),
    )
}

fn charts() -> [Chart; 5] {
    let memory = |request, limit| Memory { request, limit };
    // It would evict itself for a taint that it alone acts on.
    let in_spite_of_evictions = || vec![json!({"operator": "Exists", "effect": "NoExecute"})];
    [
        Chart::of::<DisruptionController>(memory("64Mi", "256Mi"), Vec::new, 10271),
        Chart::of::<ResourceClaimController>(memory("64Mi", "256Mi"), Vec::new, 10272),
        Chart::of::<TaintEvictionController>(memory("64Mi", "256Mi"), in_spite_of_evictions, 10273),
        Chart::of::<TtlAfterFinishedController>(memory("24Mi", "128Mi"), Vec::new, 10274),
        Chart::of::<TtlController>(memory("24Mi", "64Mi"), Vec::new, 10275),
    ]
}

/// The charts as `args` say that they are released, if they are.
fn released(args: &Args) -> Result<[Chart; 5]> {
    let published = args.registry.clone().zip(args.source.clone());
    let published = published.map(|(registry, source)| Published { registry, source });
    let mut charts = charts();
    for chart in &mut charts {
        chart.published.clone_from(&published);
        let path = |images: &PathBuf| images.join(chart.name).with_extension("tar");
        let image = args.images.as_ref().map(path);
        if let Some(image) = image.filter(|image| image.is_file()) {
            chart.digest = format!("@{}", image::digest(&image)?);
        }
    }
    Ok(charts)
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let wanted = files(&released(args)?)?;
    let mut there = found(&root().join("charts"))?;
    there.retain(|path, _| !path.starts_with(BY_HAND));
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
                if is_link(path) {
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

/// Whether the file of a chart is a link: its text is where it leads.
fn is_link(path: &Path) -> bool {
    path.ends_with(TEMPLATES) || umbrella::is_link(path)
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
fn files(charts: &[Chart]) -> Result<BTreeMap<PathBuf, String>> {
    let mut files = umbrella::files(charts)?;
    for chart in charts {
        let mut add = |path: &Path, text| files.insert(Path::new(chart.name).join(path), text);
        add(Path::new(TEMPLATES), "../../src/templates".to_owned());
        add(Path::new("templates/NOTES.txt"), NOTES.to_owned());
        let values = values::Values::of(chart)?;
        let rules = source(chart.name, "rules.yaml")?;
        let of_gates = source_if_any(chart.name, "rules-of-gates.yaml")?;
        let admission = source(chart.name, "admission.yaml")?;
        let alerts = alerts::rules(chart)?;
        add(Path::new("Chart.yaml"), chart_yaml(chart));
        add(
            Path::new("README.md"),
            readme::text(chart, &values, &rules, of_gates.as_deref(), &admission, &alerts)?,
        );
        add(Path::new("values.yaml"), values.yaml()?);
        add(Path::new("values.schema.json"), pretty(&values.schema())?);
        add(Path::new("files/rules.yaml"), rules);
        if let Some(of_gates) = of_gates {
            add(Path::new("files/rules-of-gates.yaml"), of_gates);
        }
        add(
            Path::new("files/admission.yaml"),
            admission + &source("", "admission.yaml")?,
        );
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
         {}{}",
        kube_version(),
        metadata(
            (name, version),
            [
                &format!("crates/{name}/README.md"),
                &format!("crates/{name}/CHANGELOG.md")
            ],
            std::slice::from_ref(chart)
        ),
    )
}

/// The line of `Chart.yaml` that says for which versions of Kubernetes it is.
fn kube_version() -> String {
    format!("kubeVersion: \">={}.0-0\"\n", SUPPORTED_KUBERNETES[0])
}

fn yaml<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_saphyr::from_str(text).context("not the YAML that is expected")
}

fn pretty(value: &Value) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}
