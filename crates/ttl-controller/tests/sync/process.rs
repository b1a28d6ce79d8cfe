//! One process of the controller inside a test: what `main` puts together, on a client and a clock of the test.

use std::time::Duration;

use controller_core::api::Caller;
use controller_core::api::limits::{Limits, limited};
use controller_core::api::metrics::RequestMetrics;
use controller_core::clock::Clock;
use controller_core::events::{self, EventMetrics, Recorder, Reporter};
use controller_core::leader::{ElectionConfig, ElectionMetrics, Leadership, elector};
use controller_core::metrics::{Build, Metrics, encode};
use controller_core::readiness::{Liveness, Readiness};
use controller_core::runtime::{App, Env, Failure};
use controller_core::shutdown::{self, Trigger};
use controller_core::tasks::TaskSet;
use futures::FutureExt;
use futures::future::BoxFuture;
use prometheus::Registry;
use tokio::sync::oneshot;
use ttl_controller::TtlController;
use ttl_controller::config::Config;

/// The default limits of the command line.
const LIMITS: Limits = Limits {
    qps: 50.0,
    burst: 100,
};

/// A controller's `run`.
pub(crate) type Run = fn(Config, Env) -> BoxFuture<'static, Result<(), Failure>>;

/// Our loop, running; dropping it kills it.
pub(crate) struct Running {
    registry: Registry,
    stop: Trigger,
    release: Trigger,
    ended: oneshot::Receiver<Result<(), String>>,
    pub(crate) tasks: TaskSet,
    clock: Clock,
}

/// How one is started.
pub(crate) struct Start {
    pub(crate) config: Config,
    pub(crate) limits: Limits,
    /// In the election; none without one.
    pub(crate) identity: Option<String>,
    /// What is run.
    pub(crate) run: Run,
}

impl Default for Start {
    fn default() -> Self {
        Self {
            config: Config::default(),
            limits: LIMITS,
            identity: None,
            run: |config, env| TtlController::run(config, env).boxed(),
        }
    }
}

impl Start {
    /// Starts it on `client`, beside a test that goes by `clock`.
    pub(crate) fn run(self, client: kube::Client, clock: &Clock) -> Running {
        let metrics = Metrics::new(Build {
            version: "test",
            commit: "test",
        })
        .unwrap();
        let registry = metrics.registry().clone();
        let requests = RequestMetrics::register(&registry).unwrap();
        let client = limited(client, self.limits, clock, &requests, "test".into());
        let (stop, shutdown) = shutdown::channel();
        let (release, services) = shutdown::channel();
        let mut tasks = TaskSet::new();
        let leadership = match self.identity {
            None => Leadership::always(),
            Some(identity) => {
                let config = ElectionConfig {
                    namespace: "kube-system".into(),
                    name: "ttl-controller".into(),
                    identity,
                    lease_duration: Duration::from_secs(15),
                    renew_deadline: Duration::from_secs(10),
                    retry_period: Duration::from_secs(2),
                };
                let metrics = ElectionMetrics::register(&registry, "ttl-controller").unwrap();
                let (elector, leadership) = elector(client.clone(), clock.clone(), config, metrics);
                tasks.spawn("leader election", elector.run(services.clone()));
                leadership
            }
        };
        let events = if self.config.common.dry_run {
            Recorder::disabled()
        } else {
            let reporter = Reporter {
                controller: "ttl-controller".into(),
                instance: "test".into(),
            };
            let (recorder, sender) = events::channel(
                reporter,
                clock.clone(),
                EventMetrics::register(&registry).unwrap(),
            );
            tasks.spawn("event sender", sender.run(client.clone(), services));
            recorder
        };
        let env = Env {
            client,
            clock: clock.clone(),
            caller: Caller::new(clock.clone()),
            registry: registry.clone(),
            planned: metrics.planned_writes().clone(),
            readiness: Readiness::new(),
            liveness: Liveness::new(),
            events,
            leadership,
            shutdown,
        };
        let (tell, ended) = oneshot::channel();
        tasks.spawn("controller", async move {
            let result = (self.run)(self.config, env).await;
            let _ = tell.send(result.map_err(|error| error.to_string()));
        });
        Running {
            registry,
            stop,
            release,
            ended,
            tasks,
            clock: clock.clone(),
        }
    }
}

impl Running {
    /// The sum of a metric of whole numbers over its series; 0 where there is none.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = encode(&self.registry).unwrap();
        let values = text.lines().filter(|line| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with(['{', ' ']))
        });
        values
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum()
    }

    /// The `# HELP` and `# TYPE` lines of `/metrics`, those of the process left out: they differ by system.
    pub(crate) fn families(&self) -> String {
        let text = encode(&self.registry).unwrap();
        let families = text
            .lines()
            .filter(|line| line.starts_with("# ") && !line.contains(" process_"));
        families.collect::<Vec<_>>().join("\n")
    }

    /// As SIGTERM does: drain, then release.
    pub(crate) async fn stop(mut self) {
        self.stop.advance();
        (&mut self.ended).await.unwrap().unwrap();
        self.release.advance();
        self.tasks
            .drain(&self.clock, Duration::from_secs(10))
            .await
            .unwrap();
    }

    /// Waits until it ends by itself; its error, if any, with the whole chain.
    pub(crate) async fn ended(&mut self) -> Result<(), String> {
        (&mut self.ended).await.unwrap()
    }
}
