//! Deletes finished Jobs and their dependents `spec.ttlSecondsAfterFinished` seconds after they finished.

pub mod config;
pub mod decide;
pub mod events;
pub mod explain;
pub mod metrics;
pub mod reconcile;
pub mod requests;
pub mod state;
pub mod view;

use controller_core::about::{About, about};
use controller_core::app::{App, BuiltIn, Explain, Explainer, Informers, Preflight, Prepared, Started};
use controller_core::controller::Pass;
use k8s_openapi::api::batch::v1::Job;
use prometheus::{Histogram, Registry};

use crate::config::Config;
use crate::view::JobWire;

/// Name of the binary, the Lease, the field manager and the chart.
pub const NAME: &str = "ttl-after-finished-controller";

/// The controller; as an [`App`] also its binary.
#[derive(Debug)]
pub struct TtlAfterFinishedController {
    concurrent_syncs: usize,
    /// How long after their expiry Jobs were deleted.
    deletions: Histogram,
}

impl TtlAfterFinishedController {
    /// Fails if `registry` already has this controller's metrics.
    pub fn new(config: &Config, registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            concurrent_syncs: config.concurrent_syncs as usize,
            deletions: metrics::deletion_duration(registry)?,
        })
    }
}

impl App for TtlAfterFinishedController {
    type Config = Config;

    const ABOUT: About = about!();

    const EXPLAIN: Option<Explain<Self>> = Some(Explain {
        about: "Print when a Job finished, when it expires, or why it does not",
        object: "NAMESPACE/JOB",
        help: "The Job",
        settings: &[],
        by: Explainer::One(|_, pass, _, job| explain::explain(pass, job)),
    });

    const PREFLIGHT: Option<Preflight<Self>> = Some(Preflight {
        built_in: BuiltIn {
            alias: Some("ttl-after-finished"),
            // The built-in controller only deletes Jobs, and records no events.
            writes: None,
            events: None,
        },
        rules: include_str!("../../../charts/src/ttl-after-finished-controller/rules.yaml"),
        rules_of_gates: None,
    });

    fn start(config: &Config, _: &Pass<Self>, registry: &Registry) -> Started<Self> {
        Ok(Prepared::Ready(Self::new(config, registry)))
    }

    fn watch(&self, informers: &mut impl Informers<Self>) {
        informers.fill::<Job, JobWire>(|jobs| jobs);
    }
}
