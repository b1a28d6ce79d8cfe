//! A scene of the demo, and the controller's `/metrics` while it is played.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use controller_core::clock::Clock;
use testkit::real::{Process, eventually};

use crate::admin;
use xtask::demo;

/// How often the metrics are read.
pub(super) const SCRAPE_EVERY: Duration = Duration::from_millis(500);
/// How long it may take until a controller listens, and until a demo whose controller has ended is cleaned up.
const SOON: Duration = Duration::from_mins(1);

/// What Prometheus would have scraped.
pub(super) struct Recording {
    /// `OpenMetrics`; its timestamps begin with 0, at the first scrape.
    pub(super) text: String,
    /// From the first scrape to the last.
    pub(super) took: Duration,
}

/// Plays the scene of `controller` and records its metrics while it runs.
pub(super) async fn record(controller: &str) -> Result<Recording> {
    let demo = demo::build()?;
    println!("playing the scene of {controller}");
    let mut demo = Process::spawn(Path::new(&demo), &["--plain", "--scene", controller], &[])?;
    let recording = scrape_to_the_end(&mut demo, controller).await;
    if recording.is_err() {
        // It ends its controller.
        demo.terminate()?;
    }
    let status = demo.wait_exit(SOON).await?;
    let recording = recording.with_context(|| format!("the demo said\n{}", demo.log()))?;
    ensure!(status.success(), "the demo failed: {status}\n{}", demo.log());
    Ok(recording)
}

async fn scrape_to_the_end(demo: &mut Process, controller: &str) -> Result<Recording> {
    let listening = async || match address(&demo.log()) {
        Some(address) => Some(Some(address.to_owned())),
        None => demo.exited().ok().flatten().map(|_| None),
    };
    let address = eventually(SOON, "a controller listens", listening)
        .await?
        .context("no controller listens")?;
    let clock = Clock::system();
    let began = clock.instant();
    let mut text = String::new();
    let mut took = Duration::ZERO;
    loop {
        let at = clock.instant() - began;
        // The end of the scene is the end of the controller.
        let Ok(scrape) = admin::get(&address, "/metrics").await else {
            break;
        };
        took = at;
        text += &samples(&scrape, controller, &address, at);
        clock.sleep(SCRAPE_EVERY).await;
    }
    ensure!(took > SCRAPE_EVERY, "the controller ran for {took:?} only");
    text += "# EOF\n";
    Ok(Recording { text, took })
}

/// Where the metrics of the first controller are, by what the demo says.
fn address(log: &str) -> Option<&str> {
    let (_, said) = log.split_once("its metrics: http://")?;
    let (address, _) = said.split_once("/metrics")?;
    Some(address)
}

/// The series of a scrape with the labels that Prometheus adds, and the one that it makes itself.
fn samples(scrape: &str, job: &str, instance: &str, at: Duration) -> String {
    let target = format!("job=\"{job}\",instance=\"{instance}\"");
    let at = at.as_secs_f64();
    let mut text = format!("up{{{target}}} 1 {at:.3}\n");
    for line in scrape.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, value)) = line.rsplit_once(' ') else {
            continue;
        };
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let separator = if labels == "}" { "" } else { "," };
        let _ = writeln!(text, "{name}{{{target}{separator}{labels} {value} {at:.3}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_says_where_the_metrics_are() {
        let log = "   3.8 s    c runs as process 7; its metrics: http://127.0.0.1:39591/metrics\n   4.0 s    more\n";
        assert_eq!(address(log), Some("127.0.0.1:39591"));
        assert_eq!(address("   3.8 s    c runs"), None);
    }

    #[test]
    fn series_get_the_labels_of_their_target_and_their_time() {
        let scrape = "# TYPE depth gauge\ndepth{name=\"a b\"} 2\nnodes 90\n";
        assert_eq!(
            samples(scrape, "c", "h:1", Duration::from_millis(1500)),
            "up{job=\"c\",instance=\"h:1\"} 1 1.500\n\
             depth{job=\"c\",instance=\"h:1\",name=\"a b\"} 2 1.500\n\
             nodes{job=\"c\",instance=\"h:1\"} 90 1.500\n"
        );
    }
}
