//! The tasks that serve the controller and end after it: admin server, election, event sender. Binary and tests
//! assemble a process from the same parts.

use std::future::pending;

use controller_core::app::Failure;
use controller_core::config::{CommonConfig, Encoding, MetricsAuthorization};
use futures::FutureExt;

use super::version::warn_if_untested;
use crate::admin::{AdminServer, Certificate, TlsPaths};
use crate::api::limits::Limits;
use crate::clock::Clock;
use crate::driver::Env;
use crate::events::{EventMetrics, EventRecorder, Reporter};
use crate::leader::{ElectionConfig, ElectionMetrics, Leadership, elector};
use crate::sender::Sender;
use crate::shutdown::{Shutdown, Trigger};
use crate::tasks::TaskSet;
use crate::{admin, events, shutdown};

/// The tasks of a process besides its controller's.
#[derive(Debug)]
pub struct Services {
    /// The running tasks.
    pub tasks: TaskSet,
    /// Ends the tasks and releases the Lease.
    pub stop: Trigger,
    pub(super) shutdown: Shutdown,
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

    fn record(&mut self, reporter: Reporter, limits: Limits, env: &Env) -> Result<EventRecorder, Failure> {
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
