//! The project's chores, as `cargo xtask <subcommand>`; one file each.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for a terminal: what it prints is its result"
)]

mod bench;
mod charts;
mod ci;
mod command;
mod control_plane;
mod demo;
mod fault;
mod guide;
mod helm;
mod image;
mod package;
mod release;
mod rules;
mod schema;
mod screenshot;
mod test;
mod tour;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The chores of this workspace")]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Show the controllers at work on a cluster in one process: the quick start
    Demo(demo::Args),
    /// Run all tests; those on a real control plane only where there is one or Go to build it
    Test(test::Args),
    /// Run every check that a change must pass, the tests last
    Ci(ci::Args),
    /// Measure against kube-controller-manager and a plain client, on the real control plane
    Bench(bench::Args),
    /// Repeat seeded histories of faults, told in words
    Fault(fault::Args),
    /// Build etcd, kube-apiserver, kube-controller-manager and kube-scheduler for the tests
    ControlPlane,
    /// Write what objects of the served kinds look like, for the embedded API server
    Schema(schema::Args),
    /// Write the Helm charts, with their schemas, READMEs, alerts and dashboards
    Charts(charts::Args),
    /// Build the controllers' images, without a container daemon
    Image(image::Args),
    /// Read images back, and run each from an otherwise empty root against the real control plane
    VerifyImage(image::verify::Args),
    /// Check what a tag releases; tell what its changelog says
    Release(release::Args),
    /// Do what the README has somebody new do, from a fresh clone, and time it
    Tour,
    /// Draw a controller's dashboard while the demo plays its scene: the picture in the README
    Screenshot(screenshot::Args),
    /// Check that each rule of the specification has code and a test, and write docs/rules.md
    Rules(rules::Args),
}

fn main() -> ExitCode {
    let outcome = match Args::parse().chore {
        Chore::Demo(args) => demo::run(&args).map(|never| match never {}),
        Chore::Test(args) => test::run(&args),
        Chore::Ci(args) => ci::run(&args),
        Chore::Bench(args) => bench::run(&args),
        Chore::Fault(args) => fault::run(&args),
        Chore::ControlPlane => control_plane::run(),
        Chore::Schema(args) => schema::run(&args),
        Chore::Charts(args) => charts::run(&args),
        Chore::Image(args) => image::run(&args),
        Chore::VerifyImage(args) => image::verify::run(&args),
        Chore::Release(args) => release::run(&args),
        Chore::Tour => tour::run(),
        Chore::Screenshot(args) => screenshot::run(&args),
        Chore::Rules(args) => rules::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Not by `Debug`: what failed is another program, and a backtrace of this one hides its words.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Args::command().debug_assert();
    }
}
