//! `cargo xtask screenshot`: a picture of a controller's dashboard while the demo plays its scene.
//!
//! ```text
//! recording    plays the scene, reads the controller's /metrics, writes them as OpenMetrics
//! prometheus   a Prometheus with these: answers the queries of a dashboard
//! dashboard    what the picture reads of a chart's dashboard.json; unit: its units
//! drawing      draws the answers as SVG, in the look of Grafana
//! ```
//!
//! The panels, their places, titles, units, queries and legends are those of the chart; nothing is described twice.
//! Needs `prometheus` and `promtool`, both in Debian's package prometheus; no server of it has to run.

mod dashboard;
mod drawing;
mod prometheus;
mod recording;
mod unit;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use dashboard::Dashboard;
use prometheus::Prometheus;
use xtask::command::root;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose dashboard; the demo has a scene of it
    #[arg(long, value_name = "NAME", default_value = "ttl-controller")]
    controller: String,
    /// Where to write it, from the root of the workspace
    #[arg(long, value_name = "FILE", default_value = "docs/images/dashboard.svg")]
    to: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("start a runtime")?;
    runtime.block_on(take(args))
}

async fn take(args: &Args) -> Result<()> {
    let dashboard = Dashboard::of(&args.controller)?;
    prometheus::installed()?;
    let recording = recording::record(&args.controller).await?;
    let prometheus = Prometheus::with(&recording.text).await?;
    let answers = dashboard
        .panels
        .iter()
        .map(|panel| prometheus.answer(panel, recording.took))
        .collect::<Result<Vec<_>>>()?;
    let picture = drawing::svg(&dashboard, &answers, recording.took)?;

    let file = root().join(&args.to);
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    }
    fs::write(&file, picture).with_context(|| format!("write {}", file.display()))?;
    println!("wrote {}", args.to.display());
    Ok(())
}
