//! `cargo xtask tour`: follows the README as a newcomer, from a clone to the uninstall of a chart, with times; and the
//! other ways to install.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::command::{self, cargo, root};
use crate::{control_plane, helm};

/// Clones the committed state and follows its README. A test follows the part below `Install one` and prints the
/// seconds of each command.
pub(crate) fn run() -> Result<()> {
    let assets = control_plane::assets()?;
    let helm = helm::find()?;
    let folder = tempfile::tempdir().context("create a directory for the clone")?;
    let clone = folder.path().join("clone");
    let here = |arguments: &[&str]| {
        let mut command = cargo(arguments);
        command
            .current_dir(&clone)
            // A newcomer has compiled nothing, and the programs of the clone must not replace ours.
            .env_remove("CARGO_TARGET_DIR")
            .env("KUBEBUILDER_ASSETS", &assets)
            .env("HELM", &helm);
        command
    };
    let follow = |test: &str| {
        let test = ["test", "--package", "tools", "--test", "charts", test];
        let mut command = here(&test);
        command.args(["--", "--ignored", "--nocapture"]);
        timed(&mut command)
    };
    let took = [
        ("git clone", timed(&mut cloned(&clone))?),
        (
            "cargo xtask demo, compiled before",
            timed(&mut here(&["xtask", "demo"]))?,
        ),
        (
            "cargo xtask image disruption-controller",
            timed(&mut here(&["xtask", "image", "disruption-controller"]))?,
        ),
        (
            "what the tests run, and the tests",
            timed(&mut here(&["build", "--workspace", "--bins"]))? + follow("no_test")?,
        ),
        (
            "install, see metrics, upgrade, uninstall",
            follow("tour::the_way")?,
        ),
        ("a dry run next to the built-in loop", follow("tour::a_dry_run")?),
        (
            "the umbrella chart: install, upgrades, uninstall",
            follow("install::of_the_umbrella")?,
        ),
        (
            "five plain manifests, each applied and leading",
            follow("manifests::what_a_plain")?,
        ),
        ("five static pods, each leading", follow("static_pod::a_static")?),
    ];
    for (step, took) in took {
        println!("{:6.1} s  {step}", took.as_secs_f64());
    }
    Ok(())
}

fn cloned(into: &Path) -> Command {
    let mut clone = Command::new("git");
    clone.args(["clone", "--quiet"]).arg(root()).arg(into);
    clone
}

#[allow(
    clippy::disallowed_methods,
    reason = "how long a step takes: no test owns this time"
)]
fn timed(command: &mut Command) -> Result<Duration> {
    let began = Instant::now();
    command::run(command)?;
    Ok(began.elapsed())
}
