//! A controller inside the test: what `main` puts together, on a client and a clock of the test.

use std::sync::Arc;
use std::time::Duration;

use controller_core::api::limits::{Limits, Permits, limited};
use controller_core::api::metrics::RequestMetrics;
use controller_core::clock::{Clock, saturating_add};
use controller_core::config::{ControllerConfig, Encoding};
use controller_core::events::Reporter;
use controller_core::leader::ElectionConfig;
use controller_core::metrics::{Build, Metrics, encode};
use controller_core::runtime::{App, Env, Failure, Services};
use controller_core::shutdown::{self, Trigger};
use controller_core::tasks::TaskSet;
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use prometheus::Registry;
use testkit::history::Life;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::account::NAMESPACE;
use crate::scrape::sum_of;

/// The default limits of the command line, of requests and of events.
const LIMITS: Limits = Limits {
    qps: 50.0,
    burst: 100,
};
/// How long a drain may take.
const DRAIN: Duration = Duration::from_secs(10);

/// Who is to end by itself has done so by then.
const LIFE: Duration = Duration::from_hours(2);

/// The configuration of a controller.
pub type ConfigOf<A> = <A as App>::Config;
/// A controller's `run`.
pub type Run<C> = Arc<dyn Fn(C, Env) -> Ran + Send + Sync>;
pub type Ran = BoxFuture<'static, Result<(), Failure>>;

/// What the binary of `A` runs.
pub fn run_of<A: App + 'static>() -> Run<A::Config> {
    Arc::new(|config, env| A::run(config, env).boxed())
}

/// How a process is started: as the binary of `A` without flags, unless said otherwise.
pub struct Start<C> {
    pub(crate) name: &'static str,
    config: C,
    limits: Limits,
    namespace: &'static str,
    identity: Option<String>,
    /// Instead of the configured one.
    encoding: Option<Encoding>,
    /// Instead of a year from its start.
    certified_until: Option<Timestamp>,
    run: Run<C>,
}

/// A process that runs; dropping it kills it.
pub struct Running {
    registry: Registry,
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
            run: run_of::<A>(),
        }
    }

    #[must_use]
    pub fn configured(mut self, configure: impl FnOnce(&mut C)) -> Self {
        configure(&mut self.config);
        self
    }

    /// With these limits on its requests.
    #[must_use]
    pub fn limits(mut self, qps: f64, burst: u32) -> Self {
        self.limits = Limits { qps, burst };
        self
    }

    /// With leader election, under this identity.
    #[must_use]
    pub fn elected_as(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// With objects asked for so, whatever its configuration says.
    #[must_use]
    pub fn encoded(mut self, encoding: Encoding) -> Self {
        self.encoding = Some(encoding);
        self
    }

    /// With a client certificate that expires then.
    #[must_use]
    pub fn certified_until(mut self, end: Timestamp) -> Self {
        self.certified_until = Some(end);
        self
    }

    /// With its Lease in this namespace, if it takes part in an election.
    #[must_use]
    pub fn lease_in(mut self, namespace: &'static str) -> Self {
        self.namespace = namespace;
        self
    }

    /// With another `run`, put together by the test.
    #[must_use]
    pub fn running(mut self, run: impl Fn(C, Env) -> Ran + Send + Sync + 'static) -> Self {
        self.run = Arc::new(run);
        self
    }

    /// One life of it in a fault history.
    ///
    /// Fails when it ends of itself.
    pub async fn live(mut self, mut life: Life) -> Result<(), String> {
        if let Some(identity) = life.identity {
            // The second life of a replica, the fourth and so on ask for JSON.
            if identity.ends_with(['2', '4', '6', '8', '0']) {
                self = self.encoded(Encoding::Json);
            }
            self = self.elected_as(identity);
        }
        let mut running = self.start(life.client, &Clock::starting_at(life.now));
        tokio::select! {
            biased;
            _ = &mut life.stop => {
                running.stop().await;
                Ok(())
            }
            ended = running.ended() => Err(format!("{ended:?}")),
        }
    }

    /// Starts it on `client`; its wall clock is `clock`.
    pub fn start(self, client: kube::Client, clock: &Clock) -> Running {
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
        let dry_run = self.config.common().dry_run;
        let mut env = Env::new(http, permits, clock.clone(), &metrics, dry_run, shutdown);
        env.encoding = self
            .encoding
            .unwrap_or(self.config.common().kube_api_content_type);
        let mut services = Services::new();
        let election = self.identity.map(|identity| ElectionConfig {
            namespace: self.namespace.into(),
            name: self.name.into(),
            identity,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
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
    pub fn metric(&self, name: &str) -> u64 {
        sum_of(&self.scrape(), name, "")
    }

    /// How many writes a dry run has planned, by action.
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

    /// What `/metrics` answers.
    pub fn scrape(&self) -> String {
        encode(&self.registry).unwrap()
    }

    /// The `# HELP` and `# TYPE` lines of `/metrics`, those of the process left out: they differ by system.
    pub fn families(&self) -> String {
        let text = self.scrape();
        let families = text
            .lines()
            .filter(|line| line.starts_with("# ") && !line.contains(" process_"));
        families.collect::<Vec<_>>().join("\n")
    }

    /// Its tasks; a test may add to them what is to live as long.
    pub fn tasks(&mut self) -> &mut TaskSet {
        &mut self.tasks
    }

    /// As SIGTERM does: drain, then release.
    pub async fn stop(mut self) {
        self.stop.advance();
        (&mut self.ended).await.unwrap().unwrap();
        self.release.advance();
        self.tasks.drain(&self.clock, DRAIN).await.unwrap();
    }

    /// Waits until it ends by itself; its error, if any, with the whole chain.
    pub async fn ended(&mut self) -> Result<(), String> {
        let ended = timeout(LIFE, &mut self.ended).await;
        ended.unwrap().unwrap()
    }
}
