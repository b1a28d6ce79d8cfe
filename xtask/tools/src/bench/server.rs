//! The cost of a run for the API server.

use std::time::Duration;

use anyhow::Context;
use local_control_plane::ControlPlane;

/// All traffic of the API server passes here; etcd uses a separate socket.
const LOOPBACK_BYTES: &str = "/sys/class/net/lo/statistics/rx_bytes";
const REQUESTS: &str = "apiserver_request_total{";
/// Collects the API server's garbage first: after seeding this takes seconds of CPU that belong to no run.
const COLLECT: &str = "/debug/pprof/heap?gc=1&debug=1";

/// Cost of a run for the API server, including the watch by which the bench follows the work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    pub(super) cpu: Duration,
    /// In bytes.
    pub(super) peak_rss: u64,
    /// Finished requests, including lists, watches and a few of the server's own.
    pub(super) requests: u64,
    /// In both directions, with TLS and TCP.
    pub(super) bytes: u64,
}

/// Counters of the API server at the start of a run.
pub(super) struct Meter {
    pid: u32,
    cpu: Duration,
    requests: u64,
    bytes: u64,
}

impl Meter {
    pub(super) async fn start(control_plane: &ControlPlane) -> anyhow::Result<Self> {
        let collect = http::Request::get(COLLECT).body(Vec::new())?;
        control_plane.client().request_text(collect).await?;
        // Before the bytes are counted, as this text has megabytes.
        let requests = requests(control_plane).await?;
        let server = control_plane.api_server().context("the API server runs")?;
        server.reset_peak()?;
        Ok(Self {
            pid: server.pid(),
            cpu: server.usage()?.cpu,
            requests,
            bytes: bytes()?,
        })
    }

    /// Cost since the start of the run; if the server has restarted since, its whole life.
    pub(super) async fn stop(self, control_plane: &ControlPlane) -> anyhow::Result<Load> {
        let server = control_plane.api_server().context("the API server runs")?;
        let (usage, bytes) = (server.usage()?, bytes()?);
        let (cpu, asked) = if server.pid() == self.pid {
            (self.cpu, self.requests)
        } else {
            (Duration::ZERO, 0)
        };
        Ok(Load {
            cpu: usage.cpu.saturating_sub(cpu),
            peak_rss: usage.peak_rss,
            requests: requests(control_plane).await?.saturating_sub(asked),
            bytes: bytes.saturating_sub(self.bytes),
        })
    }
}

fn bytes() -> anyhow::Result<u64> {
    let text = std::fs::read_to_string(LOOPBACK_BYTES).context(LOOPBACK_BYTES)?;
    text.trim().parse().context(LOOPBACK_BYTES)
}

async fn requests(control_plane: &ControlPlane) -> anyhow::Result<u64> {
    let asked = http::Request::get("/metrics").body(Vec::new())?;
    Ok(total(&control_plane.client().request_text(asked).await?))
}

/// Sum of all series of the counter.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts, written as floats"
)]
fn total(metrics: &str) -> u64 {
    let series = metrics.lines().filter(|line| line.starts_with(REQUESTS));
    let values = series.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
    values.sum::<f64>() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_series_of_the_counter_are_summed() {
        let metrics = "# TYPE apiserver_request_total counter\n\
             apiserver_request_total{code=\"200\",verb=\"LIST\"} 3\n\
             apiserver_request_total{code=\"201\",verb=\"POST\"} 1.2e+03\n\
             apiserver_request_total_other{code=\"200\"} 7\n";
        assert_eq!(total(metrics), 1203);
    }
}
