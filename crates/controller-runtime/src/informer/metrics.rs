//! `informer_*` metrics (CORE-9), one label: `resource`.

use controller_core::metrics::register;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

/// The metric families; one set per process.
#[derive(Clone, Debug)]
pub struct InformerMetrics {
    objects: IntGaugeVec,
    events: IntCounterVec,
    relists: IntCounterVec,
    decode_errors: IntCounterVec,
    watching: IntGaugeVec,
}

/// The metrics of one informer.
#[derive(Clone, Debug)]
pub struct ResourceMetrics {
    pub(super) resource: String,
    pub(super) objects: IntGauge,
    pub(super) events: IntCounter,
    pub(super) relists: IntCounter,
    pub(super) decode_errors: IntCounter,
    pub(super) watching: IntGauge,
}

impl InformerMetrics {
    /// Creates the families and adds them to `registry`; an error if it has them already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let counter =
            |name, help| register(registry, IntCounterVec::new(Opts::new(name, help), &["resource"]));
        let gauge = |name, help| register(registry, IntGaugeVec::new(Opts::new(name, help), &["resource"]));
        Ok(Self {
            objects: gauge("informer_objects", "Objects in the informer's store")?,
            events: counter("informer_events_total", "Changes of objects received by watch")?,
            relists: counter(
                "informer_relists_total",
                "Full lists completed after the first one",
            )?,
            decode_errors: counter(
                "informer_decode_errors_total",
                "Objects received by list or watch that could not be decoded",
            )?,
            watching: gauge(
                "informer_watching",
                "1 while the list is complete and its watch stands, 0 while changes are not seen",
            )?,
        })
    }

    /// The metrics of the informer for `resource`: its plural name, for example `nodes`.
    pub fn for_resource(&self, resource: &str) -> ResourceMetrics {
        ResourceMetrics {
            resource: resource.to_owned(),
            objects: self.objects.with_label_values(&[resource]),
            events: self.events.with_label_values(&[resource]),
            relists: self.relists.with_label_values(&[resource]),
            decode_errors: self.decode_errors.with_label_values(&[resource]),
            watching: self.watching.with_label_values(&[resource]),
        }
    }
}
