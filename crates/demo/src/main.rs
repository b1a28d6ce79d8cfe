//! The quick start: an API server in this process, the controllers as children, and a scenario, shown live.
//!
//! ```text
//! main ── run ──┬─ cluster        where it plays; what is cleaned up afterwards
//!               ├─ controllers    the binaries as children: their log lines, their metrics
//!               ├─ scene, scenes  what is done, said and expected; one file a controller
//!               ├─ stage          what a scene acts with: a client, nodes
//!               └─ live_counts    what the API server holds, watched
//!      └─ event ─── display       plain lines or a screen, both from the same stream of events
//! ```
//!
//! Every step checks its claims, so the demo is also a test.

mod args;
mod cluster;
mod controllers;
mod counts;
mod display;
mod drain;
mod event;
mod live_counts;
mod log;
mod metrics;
mod ours;
mod run;
mod scene;
mod scenes;
mod stage;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use controller_runtime::clock::Clock;
use controller_runtime::shutdown::{self, Trigger};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Args;
use crate::display::Display;
use crate::run::Ending;

/// Exit code that a shell expects of a program stopped by Ctrl-C.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    match start(&Args::parse()) {
        Ok(Ending::Passed(summary)) => {
            display::say(&summary);
            ExitCode::SUCCESS
        }
        Ok(Ending::Interrupted) => {
            display::complain("stopped before the end; everything is cleaned up");
            ExitCode::from(INTERRUPTED)
        }
        Err(error) => {
            display::complain(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn start(args: &Args) -> Result<Ending> {
    let clock = Clock::system();
    let (stop, shutdown) = shutdown::channel();
    let (reporter, moments) = event::channel(clock.clone());
    let display = Display::choose(args.plain);
    let shown = async {
        tokio::join!(
            run::run(args, clock, reporter, shutdown),
            display.show(moments, &stop)
        )
        .0
    };
    tokio::select! {
        ending = shown => ending,
        failed = stop_on_signals(&stop) => failed,
    }
}

/// The first signal stops the demo gracefully, the second at once. Returns only on failure.
async fn stop_on_signals(stop: &Trigger) -> Result<Ending> {
    let listen = |kind| signal(kind).context("listen for signals");
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hangup = listen(SignalKind::hangup())?;
    loop {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
        stop.advance();
    }
}
