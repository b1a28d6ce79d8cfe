//! Assembles the parts into a process: parse, connect, elect, run, drain, exit code (CORE-11, CORE-12, CORE-14).
//!
//! A binary calls [`main`] for its [`App`]. [`Env`](crate::driver::Env) is all that a controller needs to run, so that a test runs the same
//! code against its own API server.

mod explain;
mod identity;
pub mod preflight;
mod process;
mod report;
mod services;
mod version;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use controller_core::app::{App, Failure};
use controller_core::config::ControllerConfig;
use controller_core::error::Chain;

pub use self::preflight::preflight;
pub use self::services::Services;
use crate::args::{Command, Invocation};
use crate::clock::Clock;
use crate::config::config_schema;
use crate::metrics::{Build, Metrics};
use crate::{args, telemetry};

/// Time for writes in progress to finish after the first signal.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Worker threads for the loop, its client and its informers, which wake each other: more threads gain nothing and cost
/// memory (CORE-16). Work that must not wait behind a long list, such as the Lease and the probes, runs on the main
/// thread.
const WORKERS: usize = 1;

/// The whole `main` of a binary.
pub fn main<A: App>() -> ExitCode {
    let variable = |name: &str| std::env::var(name).ok();
    match run::<A>(std::env::args_os(), &variable) {
        Ok(code) => code,
        Err(error) => {
            say(
                &mut std::io::stderr(),
                &format!("{}: {}\n", A::ABOUT.name, Chain(error.as_ref())),
            );
            ExitCode::FAILURE
        }
    }
}

fn run<A: App>(
    args: impl IntoIterator<Item = OsString>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<ExitCode, Failure> {
    let mut extra: Vec<_> = A::EXPLAIN.iter().map(explain::subcommand).collect();
    extra.extend(A::REPORT.iter().map(report::subcommand));
    extra.extend(A::PREFLIGHT.map(|_| preflight::subcommand()));
    let args = report::of_plugin::<A>(args);
    let invocation = match args::parse::<A::Config>(A::ABOUT, extra, args, variable) {
        Ok(invocation) => invocation,
        Err(usage) if usage.exit_code == 0 => {
            say(&mut std::io::stdout(), &usage.text);
            return Ok(ExitCode::SUCCESS);
        }
        Err(usage) => {
            say(&mut std::io::stderr(), &usage.text);
            return Ok(ExitCode::from(usage.exit_code));
        }
    };
    let Invocation {
        command,
        mut config,
        layers,
        ..
    } = invocation;
    let namespace = &mut config.common_mut().leader_elect_resource_namespace;
    *namespace = identity::lease_namespace(namespace.take());
    if let Command::ConfigSchema = command {
        let schema = serde_json::to_string_pretty(&config_schema::<A::Config>())?;
        say(&mut std::io::stdout(), &format!("{schema}\n"));
        return Ok(ExitCode::SUCCESS);
    }
    let (clock, metrics) = (Clock::system(), Metrics::new(build::<A>())?);
    let common = config.common();
    telemetry::init(
        common.log_format,
        &common.log_level,
        &clock,
        metrics.tasks_panicked().clone(),
    )?;
    let services = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    if let Command::Extra(name, matches) = command {
        // On one thread: its client and what decodes the answers would only wake each other.
        let answer = process::answer::<A>(&name, &matches, &config);
        let (printed, code) = services.block_on(answer)?;
        say(&mut std::io::stdout(), &printed);
        return Ok(code);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .thread_name(A::ABOUT.name)
        .build()?;
    let code = services.block_on(process::serve::<A>(
        runtime.handle().clone(),
        (config, layers),
        clock,
        metrics,
    ));
    services.shutdown_background();
    // A blocking DNS look-up must not delay the exit.
    runtime.shutdown_timeout(Duration::from_millis(100));
    code
}

const fn build<A: App>() -> Build {
    Build {
        version: A::ABOUT.version,
        commit: A::ABOUT.commit,
    }
}

/// Prints; a reader that has gone away is no failure.
fn say(to: &mut dyn Write, text: &str) {
    let _ = to.write_all(text.as_bytes());
    let _ = to.flush();
}
