//! A chart's README: installation, all values, permissions, and alerts.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use controller_core::version::supported_kubernetes;
use controller_runtime::runtime::preflight::Rule;
use serde::Deserialize;
use serde_json::Value;

use super::values::{Values, type_name};
use super::{Chart, alerts, source, source_if_any, yaml};

/// A `ClusterRole` rule as a row of a table.
fn row(rule: &Rule) -> String {
    let groups = rule.api_groups.iter().map(|group| match group.as_str() {
        "" => "core".to_owned(),
        group => format!("`{group}`"),
    });
    let groups: Vec<_> = groups.collect();
    let [resources, verbs] = [&rule.resources, &rule.verbs].map(|words| words.join("`, `"));
    format!("| {} | `{resources}` | `{verbs}` |", groups.join(", "))
}

/// The parts of a policy for the README.
#[derive(Deserialize)]
struct Policy {
    name: String,
    about: String,
}

pub(super) fn text(
    chart: &Chart,
    values: &Values,
    rules: &str,
    admission: &str,
    alert_rules: &str,
) -> Result<String> {
    let Chart { name, about, .. } = chart;
    let reference = chart.reference();
    // Unreleased charts name no image.
    let image = match chart.published {
        Some(_) => "",
        None => " --set image.repository=REPOSITORY",
    };
    let switched_off = "docs/operations.md#2-switch-the-built-in-loop-off";
    let mut text = format!(
        "<!-- Written by `cargo xtask charts` from charts/src/ and the config type of the controller. -->\n\
         # {name} chart\n\n\
         {about}. What it does and why: [{name}]({}). For Kubernetes\n{} ([versions]({})).\n\n\
         First next to the built-in loop, without a write:\n\n\
         ```sh\n\
         helm install {name} {reference} --namespace kube-system{image} --set config.dryRun=true\n\
         ```\n\n\
         Then [switch that one off]({}), and let this one write:\n\n\
         ```sh\n\
         helm upgrade {name} {reference} --namespace kube-system --reset-then-reuse-values --set config.dryRun=false\n\
         ```\n\n\
         How to compare the two, go back, choose sizes, and what to do when an alert fires:\n\
         [operations]({}).\n\n\
         ## Values\n\n\
         A key that is not here, or a value of another type, is refused, by its name.\n",
        chart.link(&format!("crates/{name}/README.md")),
        supported_kubernetes(),
        chart.link("docs/versions.md"),
        chart.link(switched_off),
        chart.link("docs/operations.md"),
    );
    text += &tables(values)?;
    text += "\n### config\n\n\
             The config file of the controller; a flag in `extraArgs` beats it. Durations are as `1m30s`.\n\n\
             | key | type | default | meaning |\n|---|---|---|---|\n";
    for (key, schema) in values.config_keys() {
        let default = schema.get("default").map(code).unwrap_or_default();
        let about = cell(schema["description"].as_str().unwrap_or_default());
        writeln!(
            text,
            "| `config.{key}` | {} | {default} | {about} |",
            type_name(schema)
        )?;
    }
    text += "\n## Permissions\n\nIn the whole cluster:\n\n";
    text += &permissions(name, rules)?;
    text += "\nWith `metricsAuthorization` `kubernetes` in `config`, besides:\n\n\
             | API group | resources | verbs |\n|---|---|---|\n\
             | `authentication.k8s.io` | `tokenreviews` | `create` |\n\
             | `authorization.k8s.io` | `subjectaccessreviews` | `create` |\n";
    writeln!(
        text,
        "\nIn the namespace of its Lease: `leases` `create`, and `get`, `update`, `list`, `watch` of the one called \
         `{name}`, or as `config.leaderElectResourceName` says.\n\n\
         With `admissionPolicy.enabled` the API server refuses any other write of the account than these, whatever its \
         roles allow. Nobody else is judged. What its token can do in the hands of a thief, with and without: \
         [security]({}).\n\n\
         | policy | what may be written |\n|---|---|",
        chart.link("SECURITY.md#what-a-stolen-token-can-do"),
    )?;
    text += &policies(name, admission)?;
    writeln!(
        text,
        "\n\
         ## Metrics\n\n\
         Prometheus Operator scrapes them with a PodMonitor, which names the token that it shows. With cert-manager, and a \
         ClusterIssuer in the place of `ISSUER`, the certificate is checked, too; a ServiceMonitor does the same. For a \
         release `{name}` in kube-system:\n\n\
         ```yaml\n{}```\n\n\
         ## Alerts\n\n\
         With `prometheusRule.enabled`, or from [files/alerts.yaml]({}). They expect the label \
         `job=\"{name}\"`, which ServiceMonitor and PodMonitor set. Each goes by cluster (`clusterLabel`).\n\n\
         | alert | severity | after | threshold | what to do |\n|---|---|---|---|---|",
        alerts::filled_in(&source("", "metrics.yaml")?, name),
        chart.link(&format!("charts/{name}/files/alerts.yaml")),
    )?;
    for alert in alerts::parsed(alert_rules)? {
        let anchor = alert.anchor();
        writeln!(
            text,
            "| `{}` | {} | {} | {} | [{}]({}) |",
            alert.name,
            alert.labels["severity"],
            alert.wait.as_deref().unwrap_or("at once"),
            alert.threshold().unwrap_or_default(),
            anchor.replace('-', " "),
            chart.link(&format!("{}#{anchor}", alerts::RUNBOOKS)),
        )?;
    }
    Ok(text)
}

/// The rules of the whole cluster, and those that a part of the config adds.
fn permissions(name: &str, rules: &str) -> Result<String> {
    let rules: Vec<Rule> = yaml(rules).with_context(|| format!("rules.yaml of {name}"))?;
    let mut text = table(&rules);
    let of_gates = source_if_any(name, "rules-of-gates.yaml")?;
    let of_gates: BTreeMap<String, Vec<Rule>> =
        of_gates.as_deref().map(yaml).transpose()?.unwrap_or_default();
    for (gate, rules) in of_gates {
        let table = table(&rules);
        let with = if gate.starts_with(char::is_lowercase) {
            format!("`config.{gate}`")
        } else {
            format!("`{gate}=true` in `config.featureGates`")
        };
        write!(
            text,
            "\nWith {with} (of `extraArgs` the chart knows nothing):\n\n{table}"
        )?;
    }
    if let Some(of_observer) = source_if_any(name, "rules-of-observer.yaml")? {
        let table = table(&yaml::<Vec<Rule>>(&of_observer).context("rules-of-observer.yaml")?);
        write!(
            text,
            "\nWith `observe: true` in `config`, of these only what reads, no right to a Lease, and:\n\n{table}"
        )?;
    }
    let of_policies = source_if_any(name, "rules-of-policies.yaml")?;
    let of_policies: BTreeMap<String, Vec<Rule>> =
        of_policies.as_deref().map(yaml).transpose()?.unwrap_or_default();
    for (part, rules) in of_policies.into_iter().rev() {
        let when = match part.as_str() {
            "pods" => "If a policy names pods",
            _ => "With `policies` or `onlyPolicies` in `config`",
        };
        write!(text, "\n{when}, besides:\n\n{}", table(&rules))?;
    }
    Ok(text)
}

fn table(rules: &[Rule]) -> String {
    let rows = rules.iter().map(|rule| row(rule) + "\n");
    rows.fold(
        "| API group | resources | verbs |\n|---|---|---|\n".to_owned(),
        |text, row| text + &row,
    )
}

/// A row for each write that the admission policies allow.
fn policies(name: &str, admission: &str) -> Result<String> {
    let mut rows = String::new();
    let policies: Vec<Policy> = yaml(admission).with_context(|| format!("admission.yaml of {name}"))?;
    for Policy { name: policy, about } in policies {
        writeln!(rows, "| `{policy}` | {} |", cell(&about))?;
    }
    writeln!(
        rows,
        "| `events` | {name} may write only events that it reports |\n\
         | `leases` | {name} may write only the Lease {name}, or the one that `config.leaderElectResourceName` names |"
    )?;
    Ok(rows)
}

/// A table of the values of each section.
pub(super) fn tables(values: &Values) -> Result<String> {
    let mut text = String::new();
    for section in &values.sections {
        writeln!(text, "\n### {}\n", section.title)?;
        writeln!(text, "| value | type | default | meaning |\n|---|---|---|---|")?;
        for value in &section.values {
            let (kind, default) = (type_name(&value.schema), code(&value.default));
            writeln!(
                text,
                "| `{}` | {kind} | {default} | {} |",
                value.name,
                cell(&value.about)
            )?;
        }
    }
    Ok(text)
}

fn code(value: &Value) -> String {
    format!("`{}`", cell(&value.to_string()))
}

/// On one line, with the table separator escaped.
fn cell(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace('|', "\\|")
}
