//! What the picture reads of a chart's dashboard.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::unit::Unit;
use xtask::command::root;

#[derive(Deserialize)]
pub(super) struct Dashboard {
    pub(super) title: String,
    pub(super) panels: Vec<Panel>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) grid_pos: GridPos,
    pub(super) targets: Vec<Target>,
    field_config: FieldConfig,
}

/// In units of Grafana's grid, which is 24 wide.
#[derive(Clone, Copy, Deserialize)]
pub(super) struct GridPos {
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) w: i32,
    pub(super) h: i32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Target {
    pub(super) expr: String,
    legend_format: String,
}

#[derive(Deserialize)]
struct FieldConfig {
    defaults: Defaults,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Defaults {
    unit: Unit,
    decimals: Option<u8>,
    no_value: Option<String>,
}

impl Dashboard {
    /// That of a controller's chart.
    pub(super) fn of(controller: &str) -> Result<Self> {
        let file = root()
            .join("charts")
            .join(controller)
            .join("files/dashboard.json");
        let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        serde_json::from_str(&text).with_context(|| {
            format!(
                "{} is not drawn in full: xtask/chores/src/screenshot",
                file.display()
            )
        })
    }
}

impl Panel {
    pub(super) fn unit(&self) -> Unit {
        self.field_config.defaults.unit
    }

    /// Whether its axis has whole numbers only.
    pub(super) fn is_whole(&self) -> bool {
        self.field_config.defaults.decimals == Some(0)
    }

    /// What it shows if it has no series.
    pub(super) fn empty(&self) -> &str {
        let empty = self.field_config.defaults.no_value.as_deref();
        empty.unwrap_or("No data")
    }
}

impl Target {
    /// The name of a series with these labels; `{{label}}` stands for its value, which is empty where it has none.
    pub(super) fn legend(&self, labels: &BTreeMap<String, String>) -> String {
        let mut legend = String::new();
        let mut rest = self.legend_format.as_str();
        while let Some((before, (label, after))) = rest
            .split_once("{{")
            .and_then(|(before, rest)| Some((before, rest.split_once("}}")?)))
        {
            legend += before;
            legend += labels.get(label.trim()).map_or("", String::as_str);
            rest = after;
        }
        legend + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn legend(format: &str) -> String {
        let target = Target {
            expr: String::new(),
            legend_format: format.to_owned(),
        };
        let labels = [("method", "PATCH"), ("code", "200")];
        target.legend(
            &labels
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        )
    }

    #[test]
    fn a_legend_names_the_labels_of_the_series() {
        assert_eq!(legend("evicted"), "evicted");
        assert_eq!(legend("{{method}} {{ code }}, retried"), "PATCH 200, retried");
        assert_eq!(legend("by {{verb}}"), "by ");
        assert_eq!(legend("{{code} and {{"), "{{code} and {{");
    }
}
