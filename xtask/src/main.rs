//! The project's tools, as `cargo xtask <subcommand>`, one file each. Tools that take long to compile are in the
//! crate
//! `tools`, which is built on demand.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for a terminal: what it prints is its result"
)]

mod ci;
mod control_plane;
mod fault;
mod guide;
mod helm;
mod kubernetes;
mod rules;
mod schema;
mod test;
mod tour;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::{command, demo};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The tools of this workspace")]
struct Args {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Subcommand)]
enum Tool {
    /// Show the controllers at work on a cluster in one process: the quick start
    Demo(demo::Args),
    /// Run all tests; those on a real control plane only where there is one or Go to build it
    Test(test::Args),
    /// Run every check that a change must pass, the tests last
    Ci(ci::Args),
    /// Measure against kube-controller-manager and a plain client, on the real control plane
    Bench(Passed),
    /// Repeat seeded histories of faults, told in words
    Fault(fault::Args),
    /// Build etcd, kube-apiserver, kube-controller-manager and kube-scheduler for the tests
    ControlPlane(control_plane::Args),
    /// Write what objects of the served kinds look like, for the embedded API server
    Schema(schema::Args),
    /// Write the Helm charts, with their schemas, READMEs, alerts and dashboards
    Charts(Passed),
    /// Write the charts as plain manifests, bases for Kustomize and static pods
    Manifests(Passed),
    /// Build the controllers' images, without a container daemon
    Image(Passed),
    /// Read images back, and run each from an otherwise empty root against the real control plane
    VerifyImage(Passed),
    /// Check what a tag releases, or go through a whole release on this machine
    Release(Passed),
    /// Do what the README has somebody new do, from a fresh clone, and time it
    Tour,
    /// Check that each rule of the specification has code and a test, and write docs/rules.md
    Rules(rules::Args),
}

/// For the crate `tools`.
#[derive(clap::Args)]
// The tool itself answers `--help`.
#[command(disable_help_flag = true)]
struct Passed {
    /// `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

fn main() -> ExitCode {
    xtask::exit(match Args::parse().tool {
        Tool::Demo(args) => demo::run(&args).map(|never| match never {}),
        Tool::Test(args) => test::run(&args),
        Tool::Ci(args) => ci::run(&args),
        Tool::Bench(args) => pass_on("bench", &args),
        Tool::Fault(args) => fault::run(&args),
        Tool::ControlPlane(args) => control_plane::run(&args),
        Tool::Schema(args) => schema::run(&args),
        Tool::Charts(args) => pass_on("charts", &args),
        Tool::Manifests(args) => manifests(&args),
        Tool::Image(args) => pass_on("image", &args),
        Tool::VerifyImage(args) => pass_on("verify-image", &args),
        Tool::Release(args) => release(&args),
        Tool::Tour => tour::run(),
        Tool::Rules(args) => rules::run(&args),
    })
}

/// Builds the crate `tools` and runs this tool in it.
fn pass_on(tool: &str, passed: &Passed) -> anyhow::Result<()> {
    command::run(command::tool(tool).args(&passed.args))
}

/// As [`pass_on`], with Helm to render the charts.
fn manifests(passed: &Passed) -> anyhow::Result<()> {
    let helm = helm::find()?;
    command::run(command::tool("manifests").env("HELM", helm).args(&passed.args))
}

/// As [`pass_on`]; a dry run also installs its release.
fn release(passed: &Passed) -> anyhow::Result<()> {
    let mut release = command::tool("release");
    if passed.args.iter().any(|arg| arg == "--dry-run") {
        release
            .env("HELM", helm::find()?)
            .env("KUBEBUILDER_ASSETS", control_plane::assets()?);
    }
    command::run(release.args(&passed.args))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Args::command().debug_assert();
    }
}
