//! A Prometheus that has a recording in its database and answers queries about it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use tempfile::TempDir;
use testkit::real::{Process, eventually};

use super::dashboard::{Panel, Target};
use super::recording::SCRAPE_EVERY;
use xtask::command;

/// How long it may take to start.
const SOON: Duration = Duration::from_secs(30);

/// Ends when dropped.
pub(super) struct Prometheus {
    _server: Process,
    url: String,
    // Last: removed after the server has ended.
    _folder: TempDir,
}

/// A line of a panel.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    pub(super) legend: String,
    /// Seconds since the start, and the value, which is a finite number.
    pub(super) points: Vec<(f64, f64)>,
}

/// As promtool writes it.
#[derive(Deserialize)]
struct Answer {
    metric: BTreeMap<String, String>,
    values: Vec<(f64, String)>,
}

/// Fails unless its programs are there.
pub(super) fn installed() -> Result<()> {
    for program in ["prometheus", "promtool"] {
        let mut version = Command::new(program);
        version
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let found = version.status().is_ok_and(|status| status.success());
        found
            .then_some(())
            .with_context(|| format!("no {program} in the PATH: Debian's package prometheus has it"))?;
    }
    Ok(())
}

impl Prometheus {
    /// With the samples of an `OpenMetrics` text.
    pub(super) async fn with(samples: &str) -> Result<Self> {
        let folder = tempfile::tempdir().context("create a directory for Prometheus")?;
        let (text, data, config) = (
            folder.path().join("samples"),
            folder.path().join("data"),
            folder.path().join("config.yaml"),
        );
        fs::write(&text, samples).context("write the samples")?;
        fs::write(&config, "").context("write the configuration of Prometheus")?;
        let mut load = Command::new("promtool");
        load.args(["tsdb", "create-blocks-from", "openmetrics"]);
        command::output(load.arg(&text).arg(&data)).context("give the samples to Prometheus")?;

        let args = [
            format!("--config.file={}", config.display()),
            format!("--storage.tsdb.path={}", data.display()),
            "--web.listen-address=127.0.0.1:0".to_owned(),
        ];
        let path = std::env::var("PATH").unwrap_or_default();
        let mut server = Process::spawn(Path::new("prometheus"), &args, &[("PATH", &path)])?;
        let ready = async || match server.exited() {
            Ok(None) => address(&server.log()).map(Ok),
            _ => Some(Err(anyhow!("Prometheus ended: {}", server.log()))),
        };
        let address = eventually(SOON, "Prometheus is ready", ready).await??;
        Ok(Self {
            _server: server,
            url: format!("http://{address}"),
            _folder: folder,
        })
    }

    /// The lines of `panel`, from the start of the recording to its end.
    pub(super) fn answer(&self, panel: &Panel, end: Duration) -> Result<Vec<Series>> {
        let mut all = Vec::new();
        for target in &panel.targets {
            let answer = self
                .query(target, end)
                .with_context(|| format!("ask for panel \"{}\"", panel.title))?;
            all.extend(read(&answer, target)?);
        }
        Ok(all)
    }

    fn query(&self, target: &Target, end: Duration) -> Result<String> {
        // As Grafana sets it: four scrapes.
        let rate_interval = format!("{}ms", (4 * SCRAPE_EVERY).as_millis());
        let mut query = Command::new("promtool");
        query
            .args(["query", "range", "--format=json", "--start=0"])
            .arg(format!("--end={:.3}", end.as_secs_f64()))
            .arg(format!("--step={}ms", SCRAPE_EVERY.as_millis()))
            .arg(&self.url)
            .arg(target.expr.replace("$__rate_interval", &rate_interval));
        command::output(&mut query)
    }
}

/// Where it listens, once it answers queries.
fn address(log: &str) -> Option<String> {
    let (_, said) = log.split_once("msg=\"Listening on\" address=")?;
    let address = said.split_whitespace().next()?;
    log.contains("Server is ready").then(|| address.to_owned())
}

/// The series of an answer; a value that is no number is a gap.
fn read(answer: &str, target: &Target) -> Result<Vec<Series>> {
    let answers: Vec<Answer> = serde_json::from_str(answer).context("read what promtool answers")?;
    let mut all = Vec::new();
    for Answer { metric, values } in answers {
        let mut points = Vec::new();
        for (at, value) in values {
            let value: f64 = value.parse().with_context(|| format!("read the value {value}"))?;
            if value.is_finite() {
                points.push((at, value));
            }
        }
        let legend = target.legend(&metric);
        all.push(Series { legend, points });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screenshot::dashboard::Dashboard;

    fn panel(unit: &str, expr: &str, legend: &str) -> Panel {
        let panel = serde_json::json!({
            "title": "a panel", "gridPos": {"x": 0, "y": 0, "w": 8, "h": 8}, "fieldConfig": {"defaults": {"unit": unit}},
            "targets": [{"expr": expr, "legendFormat": legend}],
        });
        serde_json::from_value(panel).unwrap()
    }

    /// None where there is no Prometheus, but not in CI.
    async fn prometheus(samples: &str) -> Option<Prometheus> {
        if let Err(error) = installed()
            && std::env::var("CI").is_err()
        {
            println!("left out: {error}");
            return None;
        }
        Some(Prometheus::with(samples).await.unwrap())
    }

    #[tokio::test]
    async fn a_recording_is_asked_with_the_window_of_four_scrapes() {
        let samples = (0..10).fold(String::new(), |text, scrape| {
            let at = f64::from(scrape) / 2.0;
            text + &format!("writes_total{{job=\"c\",code=\"200\"}} {} {at}\n", scrape * 10)
        });
        let Some(prometheus) = prometheus(&(samples + "# EOF\n")).await else {
            return;
        };
        let rate = panel(
            "ops",
            "rate(writes_total{job=\"c\"}[$__rate_interval])",
            "{{code}}",
        );
        let answer = prometheus.answer(&rate, Duration::from_secs(4)).unwrap();
        assert_eq!(answer.len(), 1);
        assert_eq!(answer[0].legend, "200");
        assert_eq!(answer[0].points.last(), Some(&(4.0, 20.0)));
        let wrong = panel("ops", "rate(writes_total)", "");
        let error = prometheus.answer(&wrong, Duration::from_secs(4)).err().unwrap();
        assert_eq!(error.to_string(), "ask for panel \"a panel\"");
    }

    #[tokio::test]
    async fn every_panel_of_every_dashboard_is_answered() {
        let Some(prometheus) = prometheus("up 1 0\n# EOF\n").await else {
            return;
        };
        let mut panels = 0;
        for name in xtask::CONTROLLERS {
            for panel in Dashboard::of(name).unwrap().panels {
                prometheus.answer(&panel, Duration::from_secs(1)).unwrap();
                panels += 1;
            }
        }
        assert!(panels > 50, "only {panels}");
    }

    #[test]
    fn a_value_that_is_no_number_is_a_gap() {
        let answer = r#"[{"metric":{"code":"200"},"values":[[0.5,"NaN"],[1,"2.5"],[1.5,"+Inf"]]}]"#;
        let target = panel("short", "x", "code {{code}}").targets.remove(0);
        assert_eq!(
            read(answer, &target).unwrap(),
            [Series {
                legend: "code 200".to_owned(),
                points: vec![(1.0, 2.5)]
            }]
        );
        assert_eq!(read("[]", &target).unwrap(), []);
    }
}
