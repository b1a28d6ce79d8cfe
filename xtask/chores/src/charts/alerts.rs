//! The alerts of a chart: those that all have, and its own.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Chart, GENERATED, source, yaml};

/// Follows the number in an expression that a value of the chart may change.
const THRESHOLD: &str = " # threshold";
/// Where the sources say that the runbooks are.
pub(super) const RUNBOOKS: &str = "docs/operations.md";

/// An alert of Prometheus, as far as a README tells it.
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

    /// The heading of its runbook, as an anchor.
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

/// The file of rules of the chart, as Prometheus reads it.
pub(super) fn rules(chart: &Chart) -> Result<String> {
    let mut text = source("", "alerts.yaml")?;
    // Its first line is about the placeholders.
    text.drain(..=text.find('\n').unwrap_or_default());
    for line in source(chart.name, "alerts.yaml")?.lines() {
        writeln!(text, "      {line}")?;
    }
    Ok(GENERATED.to_owned() + &filled_in(&text, chart.name).replace(RUNBOOKS, &chart.runbooks()))
}

/// JSON Schema of what the values say of single alerts: no name that is none, no threshold of one that has none.
pub(super) fn schema(alerts: &[Alert]) -> Value {
    let mut properties = Map::new();
    for alert in alerts {
        let mut own = json!({
            "enabled": {"type": "boolean"},
            "for": {"type": "string", "pattern": "^([0-9]+(ms|s|m|h|d|w|y))+$"},
        });
        if alert.threshold().is_some() {
            // `--set` makes a text of 0.5.
            own["threshold"] = json!({"type": ["number", "string"], "pattern": "^[0-9]+([.][0-9]+)?$"});
        }
        let own = json!({"type": "object", "properties": own, "additionalProperties": false});
        properties.insert(alert.name.clone(), own);
    }
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

/// The alerts in a file of rules.
pub(super) fn parsed(rules: &str) -> Result<Vec<Alert>> {
    let rules: Rules = yaml(rules).context("a file of alerts")?;
    Ok(rules.groups.into_iter().flat_map(|group| group.rules).collect())
}

/// `text` with the name of the controller for CONTROLLER, and as one word (`TtlController`) for ALERT.
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
