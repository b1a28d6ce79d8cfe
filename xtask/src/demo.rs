//! `cargo xtask demo`: builds the demo and the controllers, then becomes the demo.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::CONTROLLERS;
use crate::command::{self, cargo};

/// What follows `cargo xtask demo`.

#[derive(clap::Args)]
// The demo itself answers `--help`.
#[command(disable_help_flag = true)]
pub struct Args {
    /// For the demo; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// Builds the demo and replaces this process with it. Returns only on failure.
pub fn run(args: &Args) -> Result<Infallible> {
    let demo = build()?;
    // By exec, so that the demo alone handles Ctrl-C, the terminal and the exit code.
    let failed = Command::new(&demo).args(&args.args).exec();
    Err(failed).with_context(|| format!("start {}", demo.display()))
}

/// Builds the demo and the controllers; returns the path of the demo.
fn build() -> Result<PathBuf> {
    // In one call, so that both share their dependencies.
    let mut build = cargo(["build", "--package", "demo"]);
    for controller in CONTROLLERS {
        build.args(["--package", controller]);
    }
    command::run(&mut build)?;
    let own = std::env::current_exe().context("find this program")?;
    Ok(own.with_file_name("demo"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(subcommand)]
        tool: Tool,
    }

    #[derive(clap::Subcommand)]
    enum Tool {
        Demo(super::Args),
    }

    #[test]
    fn every_argument_is_passed_on() {
        for (line, expected) in [
            ("xtask demo --fast --help", vec!["--fast", "--help"]),
            ("xtask demo -- --keep", vec!["--keep"]),
            ("xtask demo", vec![]),
        ] {
            let Tool::Demo(demo) = Cli::parse_from(line.split(' ')).tool;
            assert_eq!(demo.args, expected);
        }
    }
}
