//! One process: its tasks in the order they start and stop.

use std::future::{Future, pending};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::process::ExitCode;

use clap::ArgMatches;
use futures::FutureExt;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::identity::{host_name, lease_identity, lease_namespace};
use super::{App, DRAIN_TIMEOUT, Env, Explain, Failure, Services};
use crate::admin::{self, Authorizer};
use crate::api::Caller;
use crate::api::client::{ConnectOptions, Connection, connect};
use crate::api::limits::Limits;
use crate::api::metrics::RequestMetrics;
use crate::args::{About, SUPPORTED_KUBERNETES};
use crate::clock::Clock;
use crate::config::{CommonConfig, ControllerConfig, MetricsAuthorization, effective};
use crate::controller::Sender;
use crate::events::Reporter;
use crate::leader::ElectionConfig;
use crate::metrics::Metrics;
use crate::shutdown::{self, Stage, Trigger};

/// A task panicked; the log has the message.
#[derive(Debug, thiserror::Error)]
#[error("the controller panicked")]
struct Panicked;

/// The second signal came before the work was done.
#[derive(Debug, thiserror::Error)]
#[error("stopped by a second signal before the work was done")]
struct Aborted;

/// Connects with the settings of the command line.
async fn connection(
    about: About,
    common: &CommonConfig,
    clock: &Clock,
    metrics: &RequestMetrics,
) -> Result<Connection, Failure> {
    let options = ConnectOptions {
        kubeconfig: common.kubeconfig.clone(),
        context: common.context.clone(),
        limits: Limits {
            qps: common.kube_api_qps,
            burst: common.kube_api_burst,
        },
        user_agent: format!("{}/{}", about.name, about.version),
    };
    Ok(connect(&options, clock, metrics).await?)
}

pub(super) async fn explain<A: App>(
    explain: &Explain<A>,
    matches: &ArgMatches,
    config: &A::Config,
) -> Result<String, Failure> {
    let clock = Clock::system();
    let metrics = RequestMetrics::register(&prometheus::Registry::new())?;
    let connection = connection(A::ABOUT, config.common(), &clock, &metrics).await?;
    let sender = Sender::new(
        connection.client,
        Caller::new(clock),
        config.common().kube_api_content_type,
    );
    explain.text(matches, config, sender).await
}

/// Runs the controller until a signal, or until it ends by itself.
pub(super) async fn serve<A: App>(
    config: A::Config,
    clock: Clock,
    metrics: Metrics,
) -> Result<ExitCode, Failure> {
    let (about, common) = (A::ABOUT, config.common().clone());
    let requests = RequestMetrics::register(metrics.registry())?;
    let Connection { client, url, permits } = connection(about, &common, &clock, &requests).await?;
    // Before anybody can see that the process is up: who sees it may end it.
    let signals = Signals::listen()?;
    let (stop, shutdown) = shutdown::channel();
    let mut env = Env::new(client, permits, clock.clone(), &metrics, common.dry_run, shutdown);
    env.encoding = common.kube_api_content_type;
    let mut services = Services::new();
    let state = admin::State {
        build: metrics.build(),
        kubernetes_versions: &SUPPORTED_KUBERNETES,
        registry: env.registry.clone(),
        readiness: env.readiness.clone(),
        liveness: env.liveness.clone(),
        config: effective(&config),
        authorizer: (common.metrics_authorization == MetricsAuthorization::Kubernetes)
            .then(|| Authorizer::new(env.client.clone(), env.caller.clone())),
    };
    services.serve(&common, &clock, state).await?;
    let host = host_name();
    let election = common.leader_elect.then(|| election(about, &common, &host));
    let reporter = Reporter {
        controller: about.name.to_owned(),
        instance: host,
    };
    let event_limits = Limits {
        qps: common.event_qps,
        burst: common.event_burst,
    };
    services.start(&mut env, election, reporter, event_limits)?;
    services.check_version(&env);
    tracing::info!(
        version = about.version,
        commit = about.commit,
        api_server = url,
        dry_run = common.dry_run,
        "starting"
    );
    supervise(A::run(config, env), signals, stop, services, &clock).await?;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Waits for the end of `app`, then ends the services. The first signal asks `app` to finish, the second does
/// not wait for it.
async fn supervise(
    app: impl Future<Output = Result<(), Failure>>,
    mut signals: Signals,
    stop: Trigger,
    mut services: Services,
    clock: &Clock,
) -> Result<(), Failure> {
    let mut app = pin!(AssertUnwindSafe(app).catch_unwind());
    let mut deadline = pin!(pending().left_future());
    let result = loop {
        tokio::select! {
            ended = &mut app => break ended.unwrap_or_else(|_| Err(Panicked.into())),
            failed = services.tasks.first_failure() => break Err(failed.into()),
            name = signals.next() => {
                if stop.advance() == Stage::Aborting {
                    return Err(Aborted.into());
                }
                tracing::info!(signal = name, "stopping: finishing what is being written");
                deadline.set(clock.sleep(DRAIN_TIMEOUT).right_future());
            }
            () = &mut deadline => {
                tracing::warn!("not done after {} s, stopping all the same", DRAIN_TIMEOUT.as_secs());
                break Ok(());
            }
        }
    };
    services.stop.advance();
    tokio::select! {
        drained = services.tasks.drain(clock, DRAIN_TIMEOUT) => drained?,
        _ = signals.next() => return Err(Aborted.into()),
    }
    result
}

fn election(about: About, common: &CommonConfig, host: &str) -> ElectionConfig {
    ElectionConfig {
        namespace: lease_namespace(common.leader_elect_resource_namespace.as_deref()),
        name: (common.leader_elect_resource_name.clone()).unwrap_or_else(|| about.name.to_owned()),
        identity: lease_identity(common.leader_elect_identity.as_deref(), host),
        lease_duration: common.leader_elect_lease_duration.into(),
        renew_deadline: common.leader_elect_renew_deadline.into(),
        retry_period: common.leader_elect_retry_period.into(),
    }
}

/// The signals that stop a process.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
