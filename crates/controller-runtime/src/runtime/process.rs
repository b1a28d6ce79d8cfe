//! One process: its tasks in the order in which they start and stop.

use std::future::{Future, pending};
use std::pin::pin;
use std::process::ExitCode;

use clap::ArgMatches;
use controller_core::about::About;
use controller_core::app::{App, Failure, Printed};
use controller_core::config::{CommonConfig, ControllerConfig, MetricsAuthorization};
use controller_core::meta::ObjectKey;
use controller_core::version::SUPPORTED_KUBERNETES;
use futures::FutureExt;
use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;

use super::identity::{host_name, lease_identity};
use super::{DRAIN_TIMEOUT, Services, explain, preflight, report};
use crate::admin::Authorizer;
use crate::api::client::{ConnectOptions, Connection, connect};
use crate::api::limits::Limits;
use crate::api::metrics::RequestMetrics;
use crate::args::Layers;
use crate::clock::Clock;
use crate::config::effective;
use crate::driver::Env;
use crate::events::Reporter;
use crate::leader::ElectionConfig;
use crate::metrics::Metrics;
use crate::sender::{Caller, Sender};
use crate::shutdown::{Stage, Trigger};
use crate::{admin, driver, shutdown};

/// A task panicked; the log has the message.
#[derive(Debug, thiserror::Error)]
#[error("the controller panicked")]
struct Panicked;

/// The second signal came before the work was finished.
#[derive(Debug, thiserror::Error)]
#[error("stopped by a second signal before the work was done")]
struct Aborted;

/// The writes in progress were not finished in time.
#[derive(Debug, thiserror::Error)]
#[error("stopped before the work was done, after {} s", DRAIN_TIMEOUT.as_secs())]
struct NotDone;

/// Connects with the settings from the command line.
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

/// Runs a subcommand of the controller; returns the text to print and the exit code.
pub(super) async fn answer<A: App>(
    name: &str,
    matches: &ArgMatches,
    config: &A::Config,
) -> Result<(String, ExitCode), Failure> {
    let clock = Clock::system();
    let metrics = RequestMetrics::register(&prometheus::Registry::new())?;
    let Connection { http, .. } = connection(A::ABOUT, config.common(), &clock, &metrics).await?;
    if let Some(preflight) = A::PREFLIGHT.filter(|_| name == preflight::PREFLIGHT) {
        let report = preflight::preflight(&preflight, config, &http, &clock).await?;
        let printed = if preflight::wants_json(matches) {
            serde_json::to_string_pretty(&report)? + "\n"
        } else {
            report.text()
        };
        return Ok((printed, ExitCode::from(report.exit_code())));
    }
    let encoding = config.common().kube_api_content_type;
    let sender = Sender::new(http, Caller::new(clock), encoding);
    if let Some(report) = A::REPORT.filter(|report| name == report.name) {
        let Printed { text, code } = report::printed(&report, matches, config, sender).await?;
        return Ok((text, ExitCode::from(code)));
    }
    let explained = A::EXPLAIN.ok_or_else(|| format!("no subcommand {name}"))?;
    Ok((
        explain::text(&explained, matches, config, sender).await?,
        ExitCode::SUCCESS,
    ))
}

/// Runs the controller on the runtime `worker` until a signal, or until the controller ends. The services run on the
/// caller's runtime.
pub(super) async fn serve<A: App>(
    worker: Handle,
    (config, layers): (A::Config, Layers),
    clock: Clock,
    metrics: Metrics,
) -> Result<ExitCode, Failure> {
    let (about, common) = (A::ABOUT, config.common().clone());
    let requests = RequestMetrics::register(metrics.registry())?;
    let Connection { http, url, permits } = connection(about, &common, &clock, &requests).await?;
    // Before the process shows that it is up: its owner may end it from then on.
    let mut signals = Signals::listen()?;
    let (stop, shutdown) = shutdown::channel();
    let dry_run = config.is_dry_run();
    let mut env = Env::new(http, permits, clock.clone(), &metrics, dry_run, shutdown);
    env.encoding = common.kube_api_content_type;
    env.layers = layers;
    let mut services = Services::new();
    let state = admin::AdminState {
        component: about.name,
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
    let election = (common.leader_elect).then(|| election(&common.lease(about.name), &common, &host));
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
        dry_run,
        "starting"
    );
    let signal = async || signals.next().await;
    // A service whose last user is gone would end before it is asked to, which is a failure.
    let _used = env.clone();
    supervise(
        &worker,
        driver::run::<A>(config, env),
        signal,
        stop,
        services,
        &clock,
    )
    .await?;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Waits for the end of `app`, then ends the services. The first signal tells `app` to finish, the second does not wait
/// for it. An `app` that does not finish in time is dropped before the Lease is released.
async fn supervise(
    worker: &Handle,
    app: impl Future<Output = Result<(), Failure>> + Send + 'static,
    mut signal: impl AsyncFnMut() -> &'static str,
    stop: Trigger,
    mut services: Services,
    clock: &Clock,
) -> Result<(), Failure> {
    let mut apps = JoinSet::new();
    apps.spawn_on(app, worker);
    let mut deadline = pin!(pending().left_future());
    let result = loop {
        tokio::select! {
            Some(ended) = apps.join_next() => break ended.unwrap_or_else(|_| Err(Panicked.into())),
            failed = services.tasks.first_failure() => break Err(failed.into()),
            name = signal() => {
                if stop.advance() == Stage::Aborting {
                    return Err(Aborted.into());
                }
                tracing::info!(signal = name, "stopping: finishing what is being written");
                deadline.set(clock.sleep(DRAIN_TIMEOUT).right_future());
            }
            () = &mut deadline => {
                tracing::warn!("graceful shutdown timed out after {} s, exiting", DRAIN_TIMEOUT.as_secs());
                break Err(NotDone.into());
            }
        }
    };
    let ended = async {
        // First ends the work that would go on without the Lease.
        apps.shutdown().await;
        services.stop.advance();
        services.tasks.drain(clock, DRAIN_TIMEOUT).await
    };
    tokio::select! {
        drained = ended => drained?,
        _ = signal() => return Err(Aborted.into()),
    }
    result
}

fn election(lease: &ObjectKey, common: &CommonConfig, host: &str) -> ElectionConfig {
    ElectionConfig {
        namespace: lease.namespace.as_deref().unwrap_or_default().to_owned(),
        name: lease.name.to_string(),
        identity: lease_identity(common.leader_elect_identity.as_deref(), host),
        lease_duration: common.leader_elect_lease_duration.get(),
        renew_deadline: common.leader_elect_renew_deadline.get(),
        retry_period: common.leader_elect_retry_period.get(),
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use parking_lot::Mutex;

    use super::*;

    /// What has happened, in order.
    #[derive(Clone, Default)]
    struct Order(Arc<Mutex<Vec<&'static str>>>);

    /// Records when it is dropped.
    struct Guard(Order, &'static str);

    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.0.lock().push(self.1);
        }
    }

    fn clock() -> Clock {
        Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap())
    }

    /// Runs `app`, sends a signal and returns how the process ends; `order` records what happens after the signal.
    async fn stopped(
        app: impl Future<Output = Result<(), Failure>> + Send + 'static,
        order: &Order,
        clock: &Clock,
    ) -> Result<(), String> {
        let mut services = Services::new();
        let (given_up, lease) = (
            services.shutdown.clone(),
            Guard(order.clone(), "the Lease is given back"),
        );
        services.tasks.spawn("leader election", async move {
            given_up.draining().await;
            drop(lease);
        });
        let app = {
            let guard = Guard(order.clone(), "the application is gone");
            async move {
                let _guard = guard;
                app.await
            }
        };
        let (stop, _) = shutdown::channel();
        let mut signals = vec!["SIGTERM"];
        let signal = async || match signals.pop() {
            Some(signal) => signal,
            None => pending().await,
        };
        let ended = supervise(&Handle::current(), app, signal, stop, services, clock).await;
        ended.map_err(|error| error.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn an_application_that_does_not_finish_is_dropped_before_the_lease_is_given_back() {
        let (order, clock) = (Order::default(), clock());
        let start = clock.instant();
        let ended = stopped(pending(), &order, &clock).await;
        assert_eq!(clock.instant() - start, DRAIN_TIMEOUT);
        assert_eq!(
            *order.0.lock(),
            ["the application is gone", "the Lease is given back"]
        );
        assert_eq!(ended.unwrap_err(), "stopped before the work was done, after 10 s");
    }

    #[tokio::test(start_paused = true)]
    async fn an_application_that_finishes_in_time_is_a_success() {
        let (order, clock) = (Order::default(), clock());
        let work = clock.clone();
        let app = async move {
            work.sleep(Duration::from_secs(9)).await;
            Ok(())
        };
        assert_eq!(stopped(app, &order, &clock).await, Ok(()));
        assert_eq!(
            *order.0.lock(),
            ["the application is gone", "the Lease is given back"]
        );
    }
}
