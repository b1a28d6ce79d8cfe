//! The alerts of a chart: those that all have, and its own.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::{source, yaml};

/// An alert of Prometheus, as far as a README tells it.
#[derive(Deserialize)]
pub(super) struct Alert {
    #[serde(rename = "alert")]
    pub(super) name: String,
    #[serde(rename = "for")]
    pub(super) wait: Option<String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Rules {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    rules: Vec<Alert>,
}

/// The file of rules of the chart `name`, as Prometheus reads it.
pub(super) fn rules(name: &str) -> Result<String> {
    let mut text = source("", "alerts.yaml")?;
    // Its first line is about the placeholders.
    text.drain(..=text.find('\n').unwrap_or_default());
    for line in source(name, "alerts.yaml")?.lines() {
        writeln!(text, "      {line}")?;
    }
    Ok(filled_in(&text, name))
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
