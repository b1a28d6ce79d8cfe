//! `cargo xtask bench NAME…`: the rows of the performance table, on the real control plane.
//!
//! Ours, kube-controller-manager running only the same controller, and the *floor* (a plain client that
//! sends the same writes with 16 in flight) take turns on one API server; figures are medians.

mod ttl;

use std::time::{Duration, Instant};

use anyhow::Context;

/// Which rows to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rows: ttl.
    #[arg(required = true, value_parser = ["ttl"])]
    rows: Vec<String>,
    /// Alternating runs of each side.
    #[arg(long, default_value_t = 3)]
    runs: usize,
}

/// One run of one side.
#[derive(Clone, Copy, Debug)]
struct Figures {
    /// From process start until all is written.
    took: Duration,
    /// Nothing for the floor, which runs in this process.
    usage: Option<testkit::real::Usage>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("start a runtime")?;
    for row in &args.rows {
        match row.as_str() {
            "ttl" => runtime.block_on(ttl::run(args.runs))?,
            other => anyhow::bail!("no row {other:?}"),
        }
    }
    Ok(())
}

/// The median of `values` by `by`; none for no values.
fn median<T: Copy, K: PartialOrd + Copy>(values: &[T], by: impl Fn(&T) -> K) -> Option<K> {
    let mut keys: Vec<K> = values.iter().map(by).collect();
    keys.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    keys.get(keys.len() / 2).copied()
}

/// One line of the table; `floor` is the floor's median time.
fn line(name: &str, runs: &[Figures], floor: Duration) -> String {
    let took = median(runs, |run| run.took).unwrap_or_default();
    let times: Vec<String> = runs
        .iter()
        .map(|run| format!("{:.1}", run.took.as_secs_f64()))
        .collect();
    let usages: Vec<_> = runs.iter().filter_map(|run| run.usage).collect();
    let rss = median(&usages, |usage| usage.rss).map_or_else(String::new, mebibytes);
    let peak = median(&usages, |usage| usage.peak_rss).map_or_else(String::new, mebibytes);
    let cpu = median(&usages, |usage| usage.cpu)
        .map_or_else(String::new, |cpu| format!("{:.1} s", cpu.as_secs_f64()));
    format!(
        "| {name} | {:.1} s ({}) | {:.2} | {rss} | {peak} | {cpu} |",
        took.as_secs_f64(),
        times.join(", "),
        took.as_secs_f64() / floor.as_secs_f64()
    )
}

/// The real clock: what a bench measures.
#[allow(clippy::disallowed_methods, reason = "no test owns this time")]
fn now() -> Instant {
    Instant::now()
}

#[allow(clippy::cast_precision_loss, reason = "for people")]
fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
