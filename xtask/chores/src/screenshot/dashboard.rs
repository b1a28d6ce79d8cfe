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
    templating: Templating,
}

#[derive(Deserialize)]
struct Templating {
    list: Vec<Variable>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Variable {
    name: String,
    /// What stands for all of its values.
    #[serde(default)]
    all_value: String,
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
        Self::read(&text).with_context(|| {
            format!(
                "{} is not drawn in full: xtask/chores/src/screenshot",
                file.display()
            )
        })
    }

    /// With all values of its variables; one that shows a single value is empty, as where Prometheus has no such label.
    fn read(text: &str) -> serde_json::Result<Self> {
        let mut dashboard: Self = serde_json::from_str(text)?;
        let targets = dashboard.panels.iter_mut().flat_map(|panel| &mut panel.targets);
        for target in targets {
            for Variable { name, all_value } in &dashboard.templating.list {
                target.expr = target.expr.replace(&format!("${name}"), all_value);
            }
        }
        Ok(dashboard)
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
    use serde_json::json;

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
    fn a_query_is_asked_for_all_values_of_the_variables() {
        let target =
            json!({"expr": "up{job=\"c\",cluster=\"$cluster\",instance=~\"$instance\"}", "legendFormat": ""});
        let panel = json!({
            "title": "a panel", "gridPos": {"x": 0, "y": 0, "w": 8, "h": 8}, "fieldConfig": {"defaults": {"unit": "s"}},
            "targets": [target],
        });
        let variables = json!([{"name": "cluster"}, {"name": "instance", "allValue": ".*"}]);
        let dashboard = json!({"title": "c", "templating": {"list": variables}, "panels": [panel]});
        let dashboard = Dashboard::read(&dashboard.to_string()).unwrap();
        assert_eq!(
            dashboard.panels[0].targets[0].expr,
            "up{job=\"c\",cluster=\"\",instance=~\".*\"}"
        );
    }

    #[test]
    fn a_legend_names_the_labels_of_the_series() {
        assert_eq!(legend("evicted"), "evicted");
        assert_eq!(legend("{{method}} {{ code }}, retried"), "PATCH 200, retried");
        assert_eq!(legend("by {{verb}}"), "by ");
        assert_eq!(legend("{{code} and {{"), "{{code} and {{");
    }
}
