//! Assembles the parts into a process: parse, connect, elect, run, drain, exit code (CORE-11, CORE-12,
//! CORE-14).
//! A binary implements [`App`] and calls [`main`]. [`Env`] is all that a controller needs to run, so that a test runs
//! the same code against its own API server; `Env` also makes the informers, queues and workers.
//! test runs the same code against an API server of its own; it also makes the informers, queues and workers.

mod explain;
mod identity;
pub mod preflight;
mod process;
mod services;
mod version;

use std::any::Any;
use std::ffi::OsString;
use std::future::Future;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;

pub use self::explain::{Explain, ExplainAll, ExplainOne, Explainer, Explanation};
pub use self::preflight::{BuiltIn, Fields, Preflight, RulesOfGates};
pub use self::services::Services;
pub use self::version::ServerVersion;
use crate::api::limits::Permits;
use crate::api::{Caller, Http};
use crate::args::{self, About, Command, Invocation};
use crate::clock::Clock;
use crate::config::{ControllerConfig, Encoding, config_schema};
use crate::controller::Controller;
use crate::error::Chain;
use crate::events::Recorder;
use crate::informer::{BoxSource, ListWatch, Wire};
use crate::leader::Leadership;
use crate::metrics::{Build, Metrics, PlannedWrites};
use crate::readiness::{Liveness, Readiness};
use crate::shutdown::Shutdown;
use crate::telemetry;

/// Time for writes in progress to finish after the first signal.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Worker threads for the loop, its client and its informers, which wake each other: more threads gain nothing and cost
/// memory (CORE-16). Work that must not wait behind a long list, such as the Lease and the probes, runs on the main
/// thread.
const WORKERS: usize = 1;

/// Why a run failed; printed once, with its chain of errors.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A controller binary.
pub trait App: Controller {
    /// The configuration: flags, environment variables and file.
    type Config: ControllerConfig + Clone + Send + Sync + 'static;

    /// Name, help and defaults of the binary.
    const ABOUT: About;

    /// The subcommand `explain`; `None`: no such subcommand.
    const EXPLAIN: Option<Explain<Self>> = None;

    /// The subcommand `preflight`; `None`: no such subcommand.
    const PREFLIGHT: Option<Preflight<Self>> = None;

    /// Runs until `env.shutdown` drains, or until the work is done.
    fn run(config: Self::Config, env: Env) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Everything that a controller needs to run.
#[derive(Clone)]
pub struct Env {
    /// Client of the controller.
    pub http: Http,
    /// Client of the [`Services`], over separate connections.
    pub client: kube::Client,
    /// The process's clock.
    pub clock: Clock,
    /// Sends requests and classifies their answers.
    pub caller: Caller,
    /// The registry behind `/metrics`.
    pub registry: Registry,
    /// `controller_planned_writes_total`.
    pub planned: PlannedWrites,
    /// The checks behind `/readyz`.
    pub readiness: Readiness,
    /// The checks behind `/livez`.
    pub liveness: Liveness,
    /// Records events; disabled in a dry run.
    pub events: Recorder,
    /// Gives the term in which this process may write.
    pub leadership: Leadership,
    /// Stage of the shutdown.
    pub shutdown: Shutdown,
    /// Permits of the client-side limit of `http`.
    pub permits: Permits,
    /// The encoding in which objects are requested.
    pub encoding: Encoding,
    /// True if nothing may be written.
    pub dry_run: bool,
    source: Option<Arc<dyn Any + Send + Sync>>,
}

/// A test's replacement for the source of one kind of objects, made from the original.
pub type SourceOf<W> = dyn Fn(ListWatch<W>) -> BoxSource<<W as Wire>::View> + Send + Sync;

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
    let mut extra: Vec<_> = A::EXPLAIN.iter().map(Explain::subcommand).collect();
    extra.extend(A::PREFLIGHT.map(|_| preflight::subcommand()));
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
    let Invocation { command, config, .. } = invocation;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .thread_name(A::ABOUT.name)
        .build()?;
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
    if let Command::Extra(name, matches) = command {
        let answer = process::answer::<A>(&name, &matches, &config);
        let (printed, code) = runtime.block_on(answer)?;
        say(&mut std::io::stdout(), &printed);
        return Ok(code);
    }
    let services = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let code = services.block_on(process::serve::<A>(
        runtime.handle().clone(),
        config,
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
