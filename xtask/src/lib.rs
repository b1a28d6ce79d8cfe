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
