//! A controller inside the test: what `main` assembles, on a client and a clock of the test.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use controller_core::app::{App, Failure};
use controller_core::config::{ControllerConfig, Encoding};
use controller_core::time::saturating_add;
use controller_runtime::api::limits::{Limits, Permits, limited};
use controller_runtime::api::metrics::RequestMetrics;
use controller_runtime::args::{self, Layers};
use controller_runtime::clock::Clock;
use controller_runtime::driver::Env;
use controller_runtime::events::Reporter;
use controller_runtime::leader::ElectionConfig;
use controller_runtime::metrics::{Build, Metrics, encode};
use controller_runtime::readiness::Readiness;
use controller_runtime::runtime::Services;
use controller_runtime::shutdown::Trigger;
use controller_runtime::tasks::TaskSet;
use controller_runtime::{driver, shutdown};
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use prometheus::Registry;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::account::NAMESPACE;
use crate::fault_history::Life;
use crate::scrape::sum_of;

/// The command line's default limits, for requests and for events.
const LIMITS: Limits = Limits {
    qps: 50.0,
    burst: 100,
};
/// Longest time for a drain.
const DRAIN: Duration = Duration::from_secs(10);

/// A process that ends by itself has done so within this time.
const LIFE: Duration = Duration::from_hours(2);

/// The configuration of a controller.
pub type ConfigOf<A> = <A as App>::Config;
/// A controller's `run`.
pub type RunController<C> = Arc<dyn Fn(C, Env) -> Ran + Send + Sync>;
pub type Ran = BoxFuture<'static, Result<(), Failure>>;

/// What the binary of `A` runs.
pub fn run_of<A: App + 'static>() -> RunController<A::Config> {
    Arc::new(|config, env| driver::run::<A>(config, env).boxed())
}

/// How to start a process: by default as the binary of `A` without flags.
pub struct Start<C> {
    pub(crate) name: &'static str,
    config: C,
    limits: Limits,
    namespace: &'static str,
    identity: Option<String>,
    /// Replaces the configured encoding.
    encoding: Option<Encoding>,
    /// Replaces the default, a year from the start.
    certified_until: Option<Timestamp>,
    dry_run: bool,
    layers: Layers,
    run: RunController<C>,
}

/// A running process; dropping it kills the process.
pub struct Running {
    registry: Registry,
    readiness: Readiness,
    stop: Trigger,
    release: Trigger,
    ended: oneshot::Receiver<Result<(), String>>,
    tasks: TaskSet,
    clock: Clock,
}

impl<C: ControllerConfig + Default + Send + 'static> Start<C> {
    /// The process of the binary `A`, without leader election.
    pub fn of<A: App<Config = C> + 'static>() -> Self {
        Self {
            name: A::ABOUT.name,
            config: C::default(),
            limits: LIMITS,
            namespace: NAMESPACE,
            identity: None,
            encoding: None,
            certified_until: None,
            dry_run: false,
            layers: Layers::default(),
            run: run_of::<A>(),
        }
    }

    #[must_use]
    pub fn configured(mut self, configure: impl FnOnce(&mut C)) -> Self {
        configure(&mut self.config);
        self
    }

    /// Sets the client-side limits.
    #[must_use]
    pub fn limits(mut self, qps: f64, burst: u32) -> Self {
        self.limits = Limits { qps, burst };
        self
    }

    /// Turns leader election on, under this identity.
    #[must_use]
    pub fn elected_as(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// Sets the encoding in which objects are requested, whatever the configuration says.
    #[must_use]
    pub fn encoded(mut self, encoding: Encoding) -> Self {
        self.encoding = Some(encoding);
        self
    }

    /// Gives the process a client certificate that expires at `end`.
    #[must_use]
    pub fn certified_until(mut self, end: Timestamp) -> Self {
        self.certified_until = Some(end);
        self
    }

    /// Puts the Lease into this namespace, if the process takes part in an election.
    #[must_use]
    pub fn lease_in(mut self, namespace: &'static str) -> Self {
        self.namespace = namespace;
        self
    }

    /// Takes the configuration from these flags of the binary, which runs as `identity` if the flags name none.
    pub(crate) fn flags<A: App<Config = C>>(mut self, flags: &[&str], identity: &str) -> Self {
        let flags = std::iter::once(&self.name).chain(flags).map(OsString::from);
        let parsed = args::parse::<C>(A::ABOUT, Vec::new(), flags, &|_| None).unwrap();
        (self.config, self.layers) = (parsed.config, parsed.layers);
        let common = self.config.common();
        let limits = Limits {
            qps: common.kube_api_qps,
            burst: common.kube_api_burst,
        };
        let identity = common.leader_elect_identity.as_deref().unwrap_or(identity);
        // A dry run takes part in no election.
        let identity = (common.leader_elect && !self.config.is_dry_run()).then(|| identity.to_owned());
        self.limits = limits;
        self.identity = identity;
        self
    }

    /// Takes the configuration from this file, which is read again when it changes.
    #[must_use]
    pub fn config_file(mut self, path: &Path) -> Self {
        self.layers = Layers::of_file(path);
        self.config = self.layers.config().unwrap();
        self
    }

    /// Replaces `run` by the test's own.
    #[must_use]
    pub fn running(mut self, run: impl Fn(C, Env) -> Ran + Send + Sync + 'static) -> Self {
        self.run = Arc::new(run);
        self
    }

    /// Runs one life of the process in a fault history.
    ///
    /// Fails if the process ends by itself.
    pub async fn live(mut self, mut life: Life) -> Result<(), String> {
        if let Some(identity) = life.identity {
            // Every second life of a replica requests JSON.
            if identity.ends_with(['2', '4', '6', '8', '0']) {
                self = self.encoded(Encoding::Json);
            }
            self = self.elected_as(identity);
        }
        self.dry_run = life.dry_run;
        let mut running = self.start(life.client, &life.clock);
        tokio::select! {
            biased;
            _ = &mut life.stop => {
                running.stop().await;
                Ok(())
            }
            ended = running.ended() => Err(format!("{ended:?}")),
        }
    }

    /// Starts the process on `client`, with `clock` as its wall clock.
    pub fn start(mut self, client: kube::Client, clock: &Clock) -> Running {
        let common = self.config.common_mut();
        common.leader_elect = self.identity.is_some();
        common.leader_elect_resource_namespace = Some(self.namespace.to_owned());
        let metrics = Metrics::new(Build {
            version: "test",
            commit: "test",
        })
        .unwrap();
        let registry = metrics.registry().clone();
        let requests = RequestMetrics::register(&registry).unwrap();
        let in_a_year = saturating_add(clock.now(), Duration::from_hours(365 * 24));
        requests.certificate_expires(self.certified_until.unwrap_or(in_a_year));
        let permits = Permits::new(self.limits, clock);
        let http = limited(client, permits.clone(), clock, &requests, "test".into());
        let (stop, shutdown) = shutdown::channel();
        let dry_run = self.dry_run || self.config.is_dry_run();
        let mut env = Env::new(http, permits, clock.clone(), &metrics, dry_run, shutdown);
        env.encoding = self
            .encoding
            .unwrap_or(self.config.common().kube_api_content_type);
        env.layers = self.layers;
        let readiness = env.readiness.clone();
        let mut services = Services::new();
        let common = self.config.common().clone();
        let election = self.identity.map(|identity| ElectionConfig {
            namespace: self.namespace.into(),
            name: self.name.into(),
            identity,
            lease_duration: common.leader_elect_lease_duration.get(),
            renew_deadline: common.leader_elect_renew_deadline.get(),
            retry_period: common.leader_elect_retry_period.get(),
        });
        let reporter = Reporter {
            controller: self.name.into(),
            instance: "test".into(),
        };
        services.start(&mut env, election, reporter, LIMITS).unwrap();
        let Services {
            mut tasks,
            stop: release,
            ..
        } = services;
        let (tell, ended) = oneshot::channel();
        tasks.spawn("controller", async move {
            let result = (self.run)(self.config, env).await;
            let _ = tell.send(result.map_err(|error| error.to_string()));
        });
        Running {
            registry,
            readiness,
            stop,
            release,
            ended,
            tasks,
            clock: clock.clone(),
        }
    }
}

impl Running {
    /// The sum of an integer metric over its series; 0 if there is none.
    pub fn metric(&self, name: &str) -> u64 {
        sum_of(&self.scrape(), name, "")
    }

    /// Number of writes that a dry run has planned, by action.
    pub fn planned(&self) -> Vec<(String, u64)> {
        let scrape = self.scrape();
        let series = scrape
            .lines()
            .filter_map(|line| line.strip_prefix("controller_planned_writes_total{action=\""));
        let by_action = series.map(|series| series.split_once("\"} ").unwrap());
        by_action
            .map(|(action, count)| (action.to_owned(), count.parse().unwrap()))
            .collect()
    }

    /// The body of `/metrics`.
    pub fn scrape(&self) -> String {
        encode(&self.registry).unwrap()
    }

    /// The `# HELP` and `# TYPE` lines of `/metrics`, without those of `process_*`, which differ by system.
    pub fn families(&self) -> String {
        let text = self.scrape();
        let families = text
            .lines()
            .filter(|line| line.starts_with("# ") && !line.contains(" process_"));
        families.collect::<Vec<_>>().join("\n")
    }

    /// The body of `/readyz?verbose`.
    pub fn readyz(&self) -> String {
        self.readiness.report().text("readyz", true)
    }

    /// The tasks of the process; a test may add tasks that live as long.
    pub fn tasks(&mut self) -> &mut TaskSet {
        &mut self.tasks
    }

    /// Stops as on SIGTERM: drain, then release.
    pub async fn stop(mut self) {
        self.stop.advance();
        (&mut self.ended).await.unwrap().unwrap();
        self.release().await;
    }

    /// Waits until the process ends by itself without an error, then releases.
    pub async fn end(mut self) {
        self.ended().await.unwrap();
        self.release().await;
    }

    async fn release(mut self) {
        self.release.advance();
        self.tasks.drain(&self.clock, DRAIN).await.unwrap();
    }

    /// Waits until the process ends by itself; returns its error, if any, with the whole chain.
    pub async fn ended(&mut self) -> Result<(), String> {
        let ended = timeout(LIFE, &mut self.ended).await;
        ended.unwrap().unwrap()
    }
}
