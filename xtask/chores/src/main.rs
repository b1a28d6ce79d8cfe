//! Chores that need the controllers, a cluster or a large library. `cargo xtask <subcommand>` starts them.
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
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    Bench(bench::Args),
    Charts(charts::Args),
    Image(image::Args),
    Manifests(manifests::Args),
    Release(release::Args),
    VerifyImage(image::verify::Args),
}

fn main() -> ExitCode {
    xtask::exit(match Args::parse().chore {
        Chore::Bench(args) => bench::run(&args),
        Chore::Charts(args) => charts::run(&args),
        Chore::Image(args) => image::run(&args),
        Chore::Manifests(args) => manifests::run(&args),
        Chore::Release(args) => release::run(&args),
        Chore::VerifyImage(args) => image::verify::run(&args),
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
