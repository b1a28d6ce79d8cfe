//! The chart `kube-controllers`: all enabled controllers in one release.
//!
//! Its only template is its notes. The charts of the controllers are its dependencies, in the repository as links. Helm
//! checks the values of each by the schema of its chart.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use controller_core::version::supported_kubernetes;
use serde_json::{Value, json};

use super::values::{Described, Section, Values, open};
use super::{Chart, GENERATED, kube_version, link, link_to_source, metadata, pretty, readme, reference};

pub(crate) const NAME: &str = "kube-controllers";
const ABOUT: &str = "Control loops of kube-controller-manager as programs of their own, in one release";
/// The umbrella's own version, which grows with that of any controller (docs/releasing.md).
pub(super) const VERSION: &str = "0.1.0";

/// Files of the umbrella, by path from `charts/`.
pub(super) fn files(charts: &[Chart]) -> Result<BTreeMap<PathBuf, String>> {
    let values = values(charts)?;
    let own = [
        ("Chart.yaml", chart_yaml(charts)),
        ("README.md", readme(charts, &values)?),
        (
            "templates/NOTES.txt",
            link_to_source(&format!("{NAME}/NOTES.txt")),
        ),
        ("values.yaml", values.yaml()?),
        ("values.schema.json", pretty(&schema(charts, &values))?),
    ];
    let own = own.map(|(path, text)| (Path::new(NAME).join(path), text));
    let links = charts.iter().map(|chart| {
        let link = Path::new(NAME).join("charts").join(chart.name);
        (link, format!("../../{}", chart.name))
    });
    Ok(own.into_iter().chain(links).collect())
}

fn chart_yaml(charts: &[Chart]) -> String {
    let dependency = |chart: &Chart| {
        let Chart { name, version, .. } = chart;
        let repository = match &chart.published {
            Some(published) => format!("oci://{}/charts", published.registry),
            None => format!("file://../{name}"),
        };
        format!(
            "  - name: {name}\n    version: {version}\n    repository: {repository}\n    condition: {name}.enabled\n"
        )
    };
    format!(
        "{GENERATED}\
         apiVersion: v2\n\
         name: {NAME}\n\
         description: {ABOUT}\n\
         type: application\n\
         version: {VERSION}\n\
         {}{}\
         dependencies:\n\
         {}",
        kube_version(),
        metadata(
            (NAME, VERSION),
            [
                &format!("charts/{NAME}/README.md"),
                &format!("charts/src/{NAME}/CHANGELOG.md")
            ],
            charts
        ),
        charts.iter().map(dependency).collect::<String>()
    )
}

/// Values in addition to those of the charts: which of them to install, and global ones.
fn values(charts: &[Chart]) -> Result<Values> {
    let enabled = charts.iter().map(|chart| Described {
        name: format!("{}.enabled", chart.name),
        about: format!(
            "Install {0}. The other keys of `{0}` are the values of its chart.",
            chart.name
        ),
        default: json!(false),
        schema: json!({"type": "boolean"}),
    });
    let controllers = Section {
        title: "Controllers".to_owned(),
        values: enabled.collect(),
    };
    let mut sections = Values::of(&charts[0])?.sections;
    for section in &mut sections {
        section.values.retain(|value| value.name.starts_with("global."));
    }
    sections.retain(|section| !section.values.is_empty());
    sections.insert(0, controllers);
    Ok(Values {
        sections,
        config: Value::Null,
    })
}

/// This schema refuses keys that are no controller; the schema of each chart refuses wrong values.
fn schema(charts: &[Chart], values: &Values) -> Value {
    let mut schema = values.schema();
    for chart in charts {
        open(&mut schema["properties"][chart.name]);
    }
    schema
}

fn readme(charts: &[Chart], values: &Values) -> Result<String> {
    let published = charts[0].published.as_ref();
    let link = |path: &str| link(published, (NAME, VERSION), path);
    let reference = reference(published, NAME);
    let name = charts[0].name;
    // Unreleased charts name no image.
    let image = match published {
        Some(_) => String::new(),
        None => format!(" --set {name}.image.repository=REPOSITORY"),
    };
    let all: Vec<_> = charts
        .iter()
        .map(|chart| {
            format!(
                "[{0}]({1})",
                chart.name,
                link(&format!("charts/{}/README.md", chart.name))
            )
        })
        .collect();
    let all = all.join(", ");
    let tables = readme::tables(values)?;
    Ok(format!(
        "<!-- Written by `cargo xtask charts` from charts/src/. -->\n\
         # {NAME} chart\n\n\
         {ABOUT}, for those who want to install and upgrade them together. Each has a chart of its own, which needs no other: \
         {all}. None is enabled by default, so that no version of this chart starts what nobody asked for. For Kubernetes \
         {}.\n\n\
         ```sh\n\
         helm install {NAME} {reference} --namespace kube-system --set {name}.enabled=true{image} --set {name}.config.dryRun=true\n\
         helm upgrade {NAME} {reference} --namespace kube-system --reset-then-reuse-values --set {name}.config.dryRun=false\n\
         ```\n\n\
         The first runs next to the built-in loop and writes nothing; the second is for when that one is switched off: \
         [operations]({}).\n\n\
         One release of a controller a cluster: uninstall that of its own chart before it is enabled here. From another \
         namespace it would lead next to this one.\n\n\
         ## Values\n\n\
         A key that is not here or in the chart of the controller, or a value of another type, is refused, by its name.\n\
         {tables}",
        supported_kubernetes(),
        link("docs/operations.md"),
    ))
}
