//! The dashboards' queries, as Grafana sends them.

use serde_json::{Value, json};

use crate::promtool;
use crate::rules;
use xtask::CONTROLLERS;

/// IDs of the Grafana units that the panels use.
const UNITS: [&str; 5] = ["bytes", "ops", "reqps", "s", "short"];

#[test]
fn every_query_of_every_dashboard_is_answered() {
    let mut asked = 0;
    for controller in CONTROLLERS {
        let file = rules::folder().join(controller).join("files/dashboard.json");
        let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let panels = dashboard["panels"].as_array().unwrap();
        for panel in panels {
            let unit = panel["fieldConfig"]["defaults"]["unit"].as_str().unwrap();
            assert!(UNITS.contains(&unit), "{controller}: Grafana has no unit {unit}");
        }
        let targets = panels
            .iter()
            .flat_map(|panel| panel["targets"].as_array().unwrap());
        let queries: Vec<_> = targets
            .map(|target| {
                let query = target["expr"].as_str().unwrap().replace("$__rate_interval", "2m");
                // The query minus itself is empty for any result, so only errors fail.
                json!({"expr": format!("({query}) unless ({query})"), "eval_time": "10m", "exp_samples": []})
            })
            .collect();
        asked += queries.len();
        let series = json!({"series": format!("up{{job=\"{controller}\"}}"), "values": "1x20"});
        let suite =
            json!({"tests": [{"interval": "30s", "input_series": [series], "promql_expr_test": queries}]});
        promtool::test(&suite).unwrap_or_else(|said| panic!("{controller}: {said}"));
    }
    assert!(asked > 50, "only {asked}");
}

#[test]
fn a_query_that_prometheus_refuses_is_reported() {
    let query = json!({"expr": "rate(writes_total)", "eval_time": "10m", "exp_samples": []});
    let suite = json!({"tests": [{"interval": "30s", "input_series": [], "promql_expr_test": [query]}]});
    let outcome = promtool::test(&suite);
    // Without promtool, which CI has, nothing is checked.
    assert!(outcome.is_err() || std::env::var("CI").is_err(), "it is answered");
}
