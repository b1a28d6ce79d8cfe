//! `cargo xtask bench ROW…`: the rows of the performance table, on the real control plane.
//!
//! Our controller, kube-controller-manager with only the same controller, and the *floor* (a plain client with 16 of
//! the same writes in flight) take turns on one API server; figures are medians.
//!
//! | file | holds |
//! |---|---|
//! | `contest` | whose turn it is, how a process is watched at work |
//! | `server` | what a run costs the API server |
//! | `figures` | the table and the bars |
//! | `at_rest` | the rows of a large cluster that only has to be read |
//! | `seed` | large clusters, written straight into etcd |
//! | the others | the rows of one controller |

mod at_rest;
mod contest;
mod disruption;
mod figures;
mod resourceclaim;
mod seed;
mod server;
mod taint_eviction;
mod ttl;
mod ttl_after_finished;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, ensure};
use clap::ValueEnum;

/// Which rows to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which rows
    #[arg(required = true, value_enum)]
    rows: Vec<Rows>,
    #[command(flatten)]
    turns: Turns,
    /// Pods of `at-rest` and `relist-storm`
    #[arg(long, default_value_t = 50_000)]
    pods: usize,
}

/// Who takes turns, and how often.
#[derive(Clone, Debug, clap::Args)]
struct Turns {
    /// Alternating runs of each side
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// A directory with our binaries of another version, which take turns with those of this one
    #[arg(long)]
    before: Option<PathBuf>,
    /// Leave kube-controller-manager out
    #[arg(long)]
    ours_alone: bool,
}

/// The rows of the table, and names for several of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Rows {
    /// 5,000 nodes without annotation
    Ttl,
    /// 4,000 expired Jobs
    TtlAfterFinished,
    /// Both rows of disruption
    Disruption,
    /// 1,000 budgets over 50,000 pods, from process start
    DisruptionStart,
    /// 3,000 of 20,000 pods in one namespace turn unready
    DisruptionBurst,
    /// Both rows of resourceclaim
    Resourceclaim,
    /// 5,000 pods with a template each, from process start
    ResourceclaimStart,
    /// 10,000 claims taken back after their pods finish
    ResourceclaimFinish,
    /// 2,000 of 20,000 pods to be evicted at once
    TaintEviction,
    /// All pods of a large cluster are read: taint-eviction, disruption with 2,000 budgets, resourceclaim
    AtRest,
    /// `blockers` of disruption for every node of a large cluster
    Blockers,
    /// They are read again, since the API server was started anew
    RelistStorm,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("start a runtime")?;
    let wanted = |rows: &[Rows]| args.rows.iter().any(|row| rows.contains(row));
    let mut missed = Vec::new();
    let mut done = |row: &str, verdict: anyhow::Result<()>| {
        if let Err(error) = verdict {
            missed.push(format!("{row}: {error:#}"));
        }
    };
    if wanted(&[Rows::Ttl]) {
        done("ttl", runtime.block_on(ttl::run(&args.turns)));
    }
    if wanted(&[Rows::TtlAfterFinished]) {
        let verdict = runtime.block_on(ttl_after_finished::run(&args.turns));
        done("ttl-after-finished", verdict);
    }
    if wanted(&[Rows::Disruption, Rows::DisruptionStart]) {
        done(
            "disruption-start",
            runtime.block_on(disruption::start(&args.turns)),
        );
    }
    if wanted(&[Rows::Disruption, Rows::DisruptionBurst]) {
        done(
            "disruption-burst",
            runtime.block_on(disruption::burst(&args.turns)),
        );
    }
    if wanted(&[Rows::Resourceclaim, Rows::ResourceclaimStart]) {
        let verdict = runtime.block_on(resourceclaim::start(&args.turns));
        done("resourceclaim-start", verdict);
    }
    if wanted(&[Rows::Resourceclaim, Rows::ResourceclaimFinish]) {
        let verdict = runtime.block_on(resourceclaim::finish(&args.turns));
        done("resourceclaim-finish", verdict);
    }
    if wanted(&[Rows::TaintEviction]) {
        let verdict = runtime.block_on(taint_eviction::run(&args.turns));
        done("taint-eviction", verdict);
    }
    if wanted(&[Rows::AtRest]) {
        let verdict = runtime.block_on(at_rest::run(&args.turns, args.pods));
        done("at-rest", verdict);
    }
    if wanted(&[Rows::Blockers]) {
        let verdict = runtime.block_on(at_rest::blockers(&args.turns, args.pods));
        done("blockers", verdict);
    }
    if wanted(&[Rows::RelistStorm]) {
        let verdict = runtime.block_on(at_rest::relist_storm(&args.turns, args.pods));
        done("relist-storm", verdict);
    }
    ensure!(missed.is_empty(), "{}", missed.join("; "));
    Ok(())
}

/// The real clock, as benches measure real time.
#[allow(clippy::disallowed_methods, reason = "no test owns this time")]
fn now() -> Instant {
    Instant::now()
}
