//! Everything that a controller needs to run.

use controller_core::config::Encoding;
use prometheus::Registry;

use crate::api::Http;
use crate::api::limits::Permits;
use crate::args::Layers;
use crate::clock::Clock;
use crate::events::EventRecorder;
use crate::leader::Leadership;
use crate::metrics::{Metrics, PlannedWrites};
use crate::readiness::{Liveness, Readiness};
use crate::sender::Caller;
use crate::shutdown::Shutdown;

/// Everything that a controller needs to run.
#[derive(Clone)]
pub struct Env {
    /// Client of the controller.
    pub http: Http,
    /// Client of the [`Services`](crate::runtime::Services), over separate connections.
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
    pub events: EventRecorder,
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
    /// Where the configuration comes from, to read its file again; no file by default.
    pub layers: Layers,
}

impl Env {
    /// An environment without an election and without events, until [`Services::start`](crate::runtime::Services::start).
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
            events: EventRecorder::disabled(),
            leadership: Leadership::always(),
            shutdown,
            encoding: Encoding::default(),
            dry_run,
            layers: Layers::default(),
        }
    }
}
