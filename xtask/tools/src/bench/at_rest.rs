//! A large cluster without work: the cost to read it, to read it again after a restart of the API server, and to say what
//! blocks a drain of its nodes.

use std::time::Duration;

use anyhow::ensure;
use local_control_plane::{Stop, eventually};
use serde_json::Value;

use super::contest::{Sides, Site, finish, until_quiet, until_quiet_after};
use super::figures::{Bars, Figures, Results, Who};
use super::server::Load;
use super::{Turns, disruption, now, resourceclaim, seed, taint_eviction};

const NODES: usize = 5_000;
const BUDGETS: usize = 2_000;
/// Minimum cost to read the first thousand objects.
const BEGUN: Duration = Duration::from_millis(100);
/// Longer than a client's backoff between two connections.
const QUIET_AFTER_CUT: Duration = Duration::from_secs(20);
/// Time limit for a subcommand.
const WITHIN: Duration = Duration::from_mins(1);

/// Controllers that watch all pods.
const ALL: [&Sides; 3] = [&taint_eviction::SIDES, &disruption::SIDES, &resourceclaim::SIDES];

/// Runs each controller until it has read the cluster, and disruption until its 2,000 budgets have their statuses.
pub(super) async fn run(turns: &Turns, pods: usize) -> anyhow::Result<()> {
    let (mut site, budgets) = site(turns, pods).await?;
    let mut bars = Bars::default();
    for sides in ALL {
        site = site.with(sides)?;
        let results = site
            .alternate(turns, async |site, who| {
                site.control_plane.erase("poddisruptionbudgets").await?;
                site.control_plane.store("poddisruptionbudgets", &budgets).await?;
                let began = now();
                let process = site.start(who)?;
                let took = until_quiet(&process).await?.saturating_duration_since(began);
                finish(process, took, took).await
            })
            .await?;
        site.print(
            &format!("{}: {pods} pods, {NODES} nodes, until at rest", sides.ours),
            &results,
        );
        let (seconds, mib) = match (sides.ours, pods) {
            ("taint-eviction-controller", ..=50_000) => (2.5, 40),
            ("taint-eviction-controller", _) => (8.0, 80),
            ("disruption-controller", 50_001..) => (8.0, 110),
            _ => continue,
        };
        results.within_cpu(seconds, &mut bars);
        results.within_memory(mib, &mut bars);
        results.within_their_load(&mut bars);
    }
    bars.verdict()
}

/// Cuts all watches at once, with no older version left to serve, and measures how long each takes to be at rest again.
pub(super) async fn relist_storm(turns: &Turns, pods: usize) -> anyhow::Result<()> {
    let (mut site, budgets) = site(turns, pods).await?;
    site.control_plane.store("poddisruptionbudgets", &budgets).await?;
    let mut bars = Bars::default();
    for sides in ALL {
        site = site.with(sides)?;
        let results = site
            .alternate(turns, async |site, who| {
                let process = site.start(who)?;
                until_quiet(&process).await?;
                let before = process.usage()?.cpu;
                site.control_plane.stop_api_server(Stop::AtOnce).await?;
                site.control_plane.start_api_server().await?;
                let began = now();
                let rests = until_quiet_after(&process, before + BEGUN, QUIET_AFTER_CUT).await?;
                let took = rests.saturating_duration_since(began);
                Ok(finish(process, took, took).await?.without_cpu(before))
            })
            .await?;
        let title = format!(
            "{}: {pods} pods, until at rest after the API server was started anew",
            sides.ours
        );
        site.print(&title, &results);
        results.within_their_time(0.5, &mut bars);
    }
    bars.verdict()
}

/// Says what blocks a drain of every node, once the budgets have their statuses.
pub(super) async fn blockers(turns: &Turns, pods: usize) -> anyhow::Result<()> {
    let (site, budgets) = site(turns, pods).await?;
    let site = site.with(&disruption::SIDES)?;
    site.control_plane.store("poddisruptionbudgets", &budgets).await?;
    let controller = site.start(Who::Ours)?;
    until_quiet(&controller).await?;
    finish(controller, Duration::ZERO, Duration::ZERO).await?;
    let mut results = Results::default();
    for _ in 0..turns.runs {
        let began = now();
        let mut process = site.subcommand("blockers")?;
        let mut usage = process.usage()?;
        let ended = eventually(WITHIN, "the report is printed", async || {
            // A process that has ended has no usage.
            usage = process.usage().unwrap_or(usage);
            process.exited().transpose()
        });
        let code = ended.await??.code();
        ensure!(code == Some(3), "it ended with {code:?}: {}", process.log());
        results.ours.push(Figures {
            took: began.elapsed(),
            half: Duration::ZERO,
            usage: Some(usage),
            server: Load::default(),
        });
    }
    site.print(
        &format!("blockers: {pods} pods, {NODES} nodes, {BUDGETS} budgets"),
        &results,
    );
    let mut bars = Bars::default();
    results.within_time(6.0, &mut bars);
    results.within_peak(80, &mut bars);
    bars.verdict()
}

/// The cluster, and the budgets of its pods for etcd before each run.
async fn site(turns: &Turns, pods: usize) -> anyhow::Result<(Site, Vec<Value>)> {
    let site = Site::new(&taint_eviction::SIDES, turns).await?;
    seed::cluster(&site.control_plane, NODES, pods, |_| false).await?;
    let budgets = disruption::budgets(&site.control_plane, pods, BUDGETS).await?;
    Ok((site, budgets))
}
