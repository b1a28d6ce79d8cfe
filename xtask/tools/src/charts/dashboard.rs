//! The Grafana dashboard of a chart: a row of its own panels, then the shared ones.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Chart, source, yaml};

/// Shared panels in a row.
const COLUMNS: usize = 3;
/// Width of Grafana's grid, and height of a panel in its units.
const WIDTH: usize = 24;
const HEIGHT: usize = 8;
/// Unit of counts: none, with whole numbers.
const COUNT: &str = "count";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Panel {
    title: String,
    #[serde(default)]
    about: String,
    /// Grafana's id of the unit, or [`COUNT`].
    #[serde(default = "count")]
    unit: String,
    /// Shown instead of "No data" if there is no series.
    empty: Option<String>,
    queries: Vec<Query>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Query {
    expr: String,
    legend: String,
}

fn count() -> String {
    COUNT.to_owned()
}

pub(super) fn model(chart: &Chart) -> Result<Value> {
    let (own, shared) = (panels(chart.name)?, panels("")?);
    let columns = own.len();
    let own = (own.iter().enumerate()).map(|(place, panel)| (panel, grid(place, columns, 0)));
    let shared = (shared.iter().enumerate()).map(|(place, panel)| (panel, grid(place, COLUMNS, HEIGHT)));
    let panels: Vec<_> = (own.chain(shared).zip(1..))
        .map(|((panel, grid), id)| panel.model(id, &grid, chart.name))
        .collect();
    Ok(json!({
        "uid": chart.name,
        "title": chart.name,
        "description": chart.about,
        "tags": ["kubernetes", "controller"],
        "schemaVersion": 39,
        "editable": true,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables(chart.name)},
        "panels": panels,
    }))
}

/// Selector of all queries. The choices of each variable depend on the variables before it.
const SELECTOR: &str = r#"job="CONTROLLER",cluster="$cluster",namespace=~"$namespace",instance=~"$instance""#;

/// The variables of [`SELECTOR`]. Shows one cluster at a time; without the label in Prometheus, its name is empty.
fn variables(controller: &str) -> Value {
    let of = |label: &str, title: &str, narrowed: &str| {
        let query = format!(r#"label_values(up{{job="{controller}"{narrowed}}}, {label})"#);
        json!({
            "name": label, "label": title, "type": "query",
            "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "definition": query, "query": query, "refresh": 2, "sort": 1,
        })
    };
    let of_all = |label, title, narrowed| {
        let mut variable = of(label, title, narrowed);
        variable["multi"] = json!(true);
        variable["includeAll"] = json!(true);
        variable["allValue"] = json!(".*");
        variable["current"] = json!({"selected": true, "text": ["All"], "value": ["$__all"]});
        variable
    };
    json!([
        {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        of("cluster", "Cluster", ""),
        of_all("namespace", "Namespace", r#",cluster="$cluster""#),
        of_all("instance", "Instance", r#",cluster="$cluster",namespace=~"$namespace""#),
    ])
}

fn panels(chart: &str) -> Result<Vec<Panel>> {
    yaml(&source(chart, "dashboard.yaml")?).with_context(|| format!("charts/src/{chart}/dashboard.yaml"))
}

/// Position of a panel among others in rows of `columns`, the first row at `top`.
fn grid(place: usize, columns: usize, top: usize) -> Value {
    let width = WIDTH / columns;
    json!({"x": place % columns * width, "y": top + place / columns * HEIGHT, "w": width, "h": HEIGHT})
}

impl Panel {
    fn model(&self, id: usize, grid: &Value, controller: &str) -> Value {
        let targets: Vec<_> = self
            .queries
            .iter()
            .zip('A'..)
            .map(|(query, id)| {
                let expr = query.expr.replace(r#"job="CONTROLLER""#, SELECTOR);
                let expr = expr.replace("CONTROLLER", controller);
                json!({
                    "refId": id,
                    "expr": expr.replace("INTERVAL", "$__rate_interval"),
                    "legendFormat": query.legend,
                })
            })
            .collect();
        let mut defaults = if self.unit == COUNT {
            json!({"unit": "short", "decimals": 0, "min": 0})
        } else {
            json!({"unit": self.unit, "min": 0})
        };
        if let Some(empty) = &self.empty {
            defaults["noValue"] = json!(empty);
        }
        json!({
            "id": id,
            "type": "timeseries",
            "title": self.title,
            "description": self.about,
            "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "gridPos": grid,
            "fieldConfig": {"defaults": defaults, "overrides": []},
            "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
            "targets": targets,
        })
    }
}
