//! The alerts of a chart: the shared ones and its own.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Chart, GENERATED, source, yaml};

/// Marks the number in an expression that a value of the chart may change.
const THRESHOLD: &str = " # threshold";
/// Location of the runbooks in the sources.
pub(super) const RUNBOOKS: &str = "docs/operations.md";

/// A Prometheus alert, with the fields for a README.
#[derive(Deserialize)]
pub(super) struct Alert {
    #[serde(rename = "alert")]
    pub(super) name: String,
    expr: String,
    #[serde(rename = "for")]
    pub(super) wait: Option<String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
}

impl Alert {
    /// The number that a value of the chart may change.
    pub(super) fn threshold(&self) -> Option<&str> {
        let (before, _) = self.expr.split_once(THRESHOLD)?;
        before.split(' ').next_back()
    }

    /// Anchor of the runbook's heading.
    pub(super) fn anchor(&self) -> &str {
        let runbook = self.annotations["runbook_url"].split_once('#');
        runbook.map_or("", |(_, anchor)| anchor)
    }
}

#[derive(Deserialize)]
struct Rules {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    rules: Vec<Alert>,
}

/// The chart's rule file for Prometheus.
pub(super) fn rules(chart: &Chart) -> Result<String> {
    let mut text = source("", "alerts.yaml")?;
    // The first line explains the placeholders.
    text.drain(..=text.find('\n').unwrap_or_default());
    for line in source(chart.name, "alerts.yaml")?.lines() {
        writeln!(text, "      {line}")?;
    }
    Ok(GENERATED.to_owned() + &filled_in(&text, chart.name).replace(RUNBOOKS, &chart.runbooks()))
}

/// JSON Schema of the values for single alerts: refuses unknown names, and thresholds for alerts without one.
pub(super) fn schema(alerts: &[Alert]) -> Value {
    let mut properties = Map::new();
    for alert in alerts {
        let mut own = json!({
            "enabled": {"type": "boolean"},
            "for": {"type": "string", "pattern": "^([0-9]+(ms|s|m|h|d|w|y))+$"},
        });
        if alert.threshold().is_some() {
            // `--set` turns 0.5 into a text.
            own["threshold"] = json!({"type": ["number", "string"], "pattern": "^[0-9]+([.][0-9]+)?$"});
        }
        let own = json!({"type": "object", "properties": own, "additionalProperties": false});
        properties.insert(alert.name.clone(), own);
    }
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

/// The alerts in a rule file.
pub(super) fn parsed(rules: &str) -> Result<Vec<Alert>> {
    let rules: Rules = yaml(rules).context("a file of alerts")?;
    Ok(rules.groups.into_iter().flat_map(|group| group.rules).collect())
}

/// Replaces CONTROLLER in `text` by the name of the controller, and ALERT by its CamelCase form (`TtlController`).
pub(super) fn filled_in(text: &str, name: &str) -> String {
    let word: String = name.split('-').map(capitalized).collect();
    text.replace("CONTROLLER", name).replace("ALERT", &word)
}

fn capitalized(part: &str) -> String {
    let mut chars = part.chars();
    chars
        .next()
        .map(|first| first.to_ascii_uppercase())
        .into_iter()
        .chain(chars)
        .collect()
}
