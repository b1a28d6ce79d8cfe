//! A controller's metrics, from its admin server.

use std::convert::Infallible;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// All series of one scrape.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Metrics(Vec<Series>);

#[derive(Clone, Debug, PartialEq)]
struct Series {
    name: String,
    /// The text between the braces.
    labels: String,
    value: f64,
}

/// The metrics that every controller has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Keys waiting in the queue.
    pub(crate) queue_depth: u64,
    /// Keys added to the queue so far.
    pub(crate) queue_adds: u64,
    /// A key is being processed.
    pub(crate) working: bool,
    /// Writes that the API server accepted.
    pub(crate) writes: u64,
    /// Syncs that failed and were retried.
    pub(crate) failures: u64,
}

impl Reading {
    pub(crate) fn idle(&self) -> bool {
        self.queue_depth == 0 && !self.working
    }
}

impl Metrics {
    /// Fetches the metrics from the admin server at `address`.
    pub(crate) async fn fetch(address: &str) -> Result<Self> {
        let mut stream = TcpStream::connect(address).await?;
        // In HTTP/1.0 the answer ends with the connection.
        let request = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .context("an answer without an end of its head")?;
        if head.split(' ').nth(1) != Some("200") {
            bail!("answered {}", head.lines().next().unwrap_or_default());
        }
        let Ok(metrics) = body.parse();
        Ok(metrics)
    }

    /// Sum of an integer metric over all its series, or over those with a label: `pdbs{state="allowed"}`.
    pub(crate) fn whole(&self, name: &str) -> Option<u64> {
        let (name, label) = name.split_once('{').unwrap_or((name, ""));
        let label = label.trim_end_matches('}');
        self.sum(name, |labels| {
            label.is_empty() || labels.split(',').any(|held| held == label)
        })
    }

    /// The metrics that every controller has.
    pub(crate) fn reading(&self) -> Reading {
        let whole = |name| self.whole(name).unwrap_or_default();
        let unfinished = "workqueue_unfinished_work_seconds";
        let accepted_write = |labels: &str| {
            labels.contains("code=\"2")
                && ["POST", "PUT", "PATCH", "DELETE"]
                    .iter()
                    .any(|method| labels.contains(&format!("method=\"{method}\"")))
        };
        Reading {
            queue_depth: whole("workqueue_depth"),
            queue_adds: whole("workqueue_adds_total"),
            working: self
                .0
                .iter()
                .any(|series| series.name == unfinished && series.value > 0.0),
            writes: self
                .sum("rest_client_requests_total", accepted_write)
                .unwrap_or_default(),
            failures: whole("controller_sync_failures_total"),
        }
    }

    fn sum(&self, name: &str, labels: impl Fn(&str) -> bool) -> Option<u64> {
        let series = self.0.iter().filter(|series| series.name == name);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "counters and counts; the cast saturates"
        )]
        series
            .filter(|series| labels(&series.labels))
            .map(|series| series.value as u64)
            .reduce(u64::saturating_add)
    }
}

/// Parses the text format; skips other lines.
impl FromStr for Metrics {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let series = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| {
                let (series, value) = line.rsplit_once(' ')?;
                let (name, labels) = series.split_once('{').unwrap_or((series, ""));
                Some(Series {
                    name: name.to_owned(),
                    labels: labels.trim_end_matches('}').to_owned(),
                    value: value.parse().ok()?,
                })
            });
        Ok(Self(series.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_all_controllers_are_read_from_the_text() {
        let metrics: Metrics = concat!(
            "# HELP workqueue_depth Current depth of workqueue\n",
            "# TYPE workqueue_depth gauge\n",
            "workqueue_depth{name=\"a\"} 2\n",
            "workqueue_depth{name=\"b\"} 1\n",
            "workqueue_adds_total{name=\"a\"} 345\n",
            "workqueue_unfinished_work_seconds{name=\"a\"} 0.25\n",
            "rest_client_requests_total{code=\"200\",host=\"h\",method=\"GET\"} 7\n",
            "rest_client_requests_total{code=\"200\",host=\"h\",method=\"PATCH\"} 120\n",
            "rest_client_requests_total{code=\"201\",host=\"h\",method=\"POST\"} 1\n",
            "rest_client_requests_total{code=\"500\",host=\"h\",method=\"PATCH\"} 3\n",
            "controller_sync_failures_total{reason=\"ServerError\"} 3\n",
            "ttl_controller_nodes 120\n",
            "odd line\n",
        )
        .parse()
        .unwrap();
        assert_eq!(
            metrics.reading(),
            Reading {
                queue_depth: 3,
                queue_adds: 345,
                working: true,
                writes: 121,
                failures: 3,
            }
        );
        assert!(!metrics.reading().idle());
        assert_eq!(metrics.whole("ttl_controller_nodes"), Some(120));
        assert_eq!(metrics.whole("ttl_controller"), None);
        assert_eq!(metrics.whole("workqueue_adds_total"), Some(345));
        assert_eq!(metrics.whole("workqueue_depth{name=\"b\"}"), Some(1));
        assert_eq!(metrics.whole("workqueue_depth{name=\"c\"}"), None);
        assert!(Metrics::default().reading().idle());
    }
}
