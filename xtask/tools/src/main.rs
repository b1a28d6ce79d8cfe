//! Tools that need the controllers, a cluster or a large library. `cargo xtask <subcommand>` starts them.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for a terminal: what it prints is its result"
)]

mod admin;
mod bench;
mod charts;
mod image;
mod manifests;
mod package;
mod release;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Subcommand)]
enum Tool {
    Bench(bench::Args),
    Charts(charts::Args),
    Image(image::Args),
    Manifests(manifests::Args),
    Release(release::Args),
    VerifyImage(image::verify::Args),
}

fn main() -> ExitCode {
    xtask::exit(match Args::parse().tool {
        Tool::Bench(args) => bench::run(&args),
        Tool::Charts(args) => charts::run(&args),
        Tool::Image(args) => image::run(&args),
        Tool::Manifests(args) => manifests::run(&args),
        Tool::Release(args) => release::run(&args),
        Tool::VerifyImage(args) => image::verify::run(&args),
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Args::command().debug_assert();
    }
}
