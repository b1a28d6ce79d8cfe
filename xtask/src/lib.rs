//! What `cargo xtask` and its larger chores share: other programs, the steps of a chore, and the demo.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for a terminal: what it prints is its result"
)]

pub mod command;
pub mod demo;
pub mod steps;

use std::process::ExitCode;

/// The controllers, by name: of crate, binary, image, chart and tags. Everything here and the tests of the charts iterate
/// over these.
pub const CONTROLLERS: [&str; 5] = [
    "disruption-controller",
    "resourceclaim-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
    "ttl-controller",
];

/// How a chore ends: an error is told on standard error.
pub fn exit(outcome: anyhow::Result<()>) -> ExitCode {
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
    use super::*;

    #[test]
    fn every_crate_of_a_controller_is_listed() {
        let crates = command::crates().unwrap();
        let names = crates.iter().map(|folder| command::name(folder));
        let there: Vec<_> = names.filter(|name| name.ends_with("-controller")).collect();
        assert_eq!(there, CONTROLLERS);
    }
}
