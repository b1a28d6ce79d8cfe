//! The tasks that serve the controller and end after it: admin server, election, event sender. Binary and tests
//! assemble a process from the same parts.

use std::future::pending;
use std::sync::Arc;

use futures::FutureExt;

use super::version::warn_if_untested;
use super::{Env, Failure, SourceOf};
use crate::admin::{self, AdminServer, Certificate, TlsPaths};
use crate::api::limits::Limits;
use crate::api::limits::Permits;
use crate::api::{Caller, Http};
use crate::clock::Clock;
use crate::config::{CommonConfig, Encoding, MetricsAuthorization};
use crate::controller::Sender;
use crate::events::{self, EventMetrics, Recorder, Reporter};
use crate::informer::{BoxSource, ListWatch, Wire};
use crate::leader::{ElectionConfig, ElectionMetrics, Leadership, elector};
use crate::metrics::Metrics;
use crate::readiness::{Liveness, Readiness};
use crate::shutdown::{self, Shutdown, Trigger};
use crate::tasks::TaskSet;

/// The tasks of a process besides its controller's.
#[derive(Debug)]
pub struct Services {
    /// The running tasks.
    pub tasks: TaskSet,
    /// Ends the tasks and releases the Lease.
    pub stop: Trigger,
    pub(super) shutdown: Shutdown,
}

impl Env {
    /// An environment without an election and without events, until [`Services::start`].
    pub fn new(
        http: impl Into<Http>,
        permits: Permits,
        clock: Clock,
        metrics: &Metrics,
        dry_run: bool,
        shutdown: Shutdown,
    ) -> Self {
        let (http, caller) = (http.into(), Caller::new(clock.clone()));
        let readiness = Readiness::new();
        let asked = caller.clone();
        readiness.notes("missing permission", move || asked.missing_permissions());
        Self {
            client: http.aside().client(),
            http,
            permits,
            clock,
            caller,
            registry: metrics.registry().clone(),
            planned: metrics.planned_writes().clone(),
            readiness,
            liveness: Liveness::new(),
            events: Recorder::disabled(),
            leadership: Leadership::always(),
            shutdown,
            encoding: Encoding::default(),
            dry_run,
            source: None,
        }
    }

    /// Puts `over` between one kind of objects and its informer: a test puts a bug there.
    #[must_use]
    pub fn over_source<W: Wire>(
        mut self,
        over: impl Fn(ListWatch<W>) -> BoxSource<W::View> + Send + Sync + 'static,
    ) -> Self {
        let over: Box<SourceOf<W>> = Box::new(over);
        self.source = Some(Arc::new(over));
        self
    }

    pub(crate) fn source_of<W: Wire>(&self) -> Option<&SourceOf<W>> {
        let over = self.source.as_ref()?.downcast_ref::<Box<SourceOf<W>>>();
        over.map(Box::as_ref)
    }
}

impl Services {
    /// No tasks.
    pub fn new() -> Self {
        let (stop, shutdown) = shutdown::channel();
        Self {
            tasks: TaskSet::new(),
            stop,
            shutdown,
        }
    }

    /// Starts the election, if it is enabled, and the event sender. A dry run leaves no trace, so that it can run next
    /// to the controller that does the work (CORE-14).
    pub fn start(
        &mut self,
        env: &mut Env,
        election: Option<ElectionConfig>,
        reporter: Reporter,
        event_limits: Limits,
    ) -> Result<(), Failure> {
        if env.dry_run {
            return Ok(());
        }
        if let Some(election) = election {
            env.leadership = self.elect(election, env)?;
        }
        env.events = self.record(reporter, event_limits, env)?;
        Ok(())
    }

    pub(super) async fn serve(
        &mut self,
        common: &CommonConfig,
        clock: &Clock,
        state: admin::AdminState,
    ) -> Result<(), Failure> {
        let limits = admin::AdminLimits::default();
        let server = AdminServer::bind(
            common.http_bind_address,
            certificate(common),
            clock.clone(),
            limits,
        )
        .await?;
        tracing::info!(address = %server.local_addr(), "admin server listens");
        let stop = self.shutdown.clone();
        self.tasks.spawn(
            "admin server",
            server.serve(state, async move { stop.draining().await }),
        );
        Ok(())
    }

    /// Logs a warning if the controllers were not tested with the API server's version.
    pub(super) fn check_version(&mut self, env: &Env) {
        let sender = Sender::new(env.client.clone(), env.caller.clone(), Encoding::Json);
        let (clock, stop) = (env.clock.clone(), self.shutdown.clone());
        self.tasks.spawn("version check", async move {
            tokio::select! {
                () = stop.draining() => {}
                () = warn_if_untested(sender, clock).then(|()| pending()) => {}
            }
        });
    }

    fn elect(&mut self, election: ElectionConfig, env: &Env) -> Result<Leadership, Failure> {
        let metrics = ElectionMetrics::register(&env.registry, &election.name)?;
        let (elector, leadership) = elector(env.client.clone(), env.clock.clone(), election, metrics);
        self.tasks
            .spawn("leader election", elector.run(self.shutdown.clone()));
        let asked = leadership.clone();
        env.readiness
            .check("lease", move || asked.missing_permission().map_or(Ok(()), Err));
        Ok(leadership)
    }

    fn record(&mut self, reporter: Reporter, limits: Limits, env: &Env) -> Result<Recorder, Failure> {
        let metrics = EventMetrics::register(&env.registry)?;
        let (recorder, sender) = events::channel(reporter, limits, env.clock.clone(), metrics);
        self.tasks.spawn(
            "event sender",
            sender.run(env.client.clone(), self.shutdown.clone()),
        );
        Ok(recorder)
    }
}

impl Default for Services {
    fn default() -> Self {
        Self::new()
    }
}

/// The certificate from the flags, else a self-signed one if tokens are needed: no token is requested without TLS.
fn certificate(common: &CommonConfig) -> Option<Certificate> {
    match (common.tls_cert_file.clone(), common.tls_private_key_file.clone()) {
        (Some(cert), Some(key)) => Some(Certificate::Files(TlsPaths { cert, key })),
        _ if common.metrics_authorization == MetricsAuthorization::Kubernetes => {
            Some(Certificate::SelfSigned)
        }
        _ => None,
    }
}
