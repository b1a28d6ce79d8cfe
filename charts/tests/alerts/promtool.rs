//! What Prometheus would answer, and which alerts it would raise.

use std::process::Command;

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::rules;

/// Fails unless exactly these alerts fired at some time, by the rules of the controller's chart. Names are without the
/// controller's prefix.
pub(crate) fn assert_fired(cluster: &Cluster, what: &str, alerts: &[&str]) {
    let controller = cluster.controller.name;
    let recording = &cluster.recording;
    let end = format!("{}s", recording.took().as_secs());
    let fired: Vec<Value> = alerts
        .iter()
        .map(|alert| {
            let name = rules::prefix(controller) + alert;
            json!({"labels": format!("{{alertname=\"{name}\"}}"), "value": 1})
        })
        .collect();
    let suite = json!({
        "rule_files": [rules::file(controller)],
        "evaluation_interval": "1m",
        "tests": [{
            "name": what,
            "interval": format!("{}s", crate::recording::INTERVAL.as_secs()),
            "input_series": recording.input_series(),
            "promql_expr_test": [{
                "expr": format!("group by (alertname) (present_over_time(ALERTS{{alertstate=\"firing\"}}[{end}]))"),
                "eval_time": end,
                "exp_samples": fired,
            }],
        }],
    });
    test(&suite).unwrap_or_else(|said| panic!("{controller}, {what}: {said}"));
}

/// Errors of `promtool test rules` for this suite of tests.
pub(crate) fn test(suite: &Value) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tests.json");
    std::fs::write(&file, suite.to_string()).unwrap();
    let output = match Command::new("promtool")
        .args(["test", "rules"])
        .arg(file)
        .output()
    {
        Ok(output) => output,
        Err(error) if std::env::var("CI").is_err() => {
            println!("left out: promtool, which comes with Debian's prometheus package ({error})");
            return Ok(());
        }
        Err(error) => panic!("promtool comes with Debian's prometheus package: {error}"),
    };
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    output.status.success().then_some(()).ok_or(said.into_owned())
}
