//! Gauges with labels, computed at each scrape, so that they are never stale.

use std::borrow::Cow;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGaugeVec, Opts, Registry};

struct ByLabel<F> {
    gauges: Vec<(Opts, &'static [&'static str])>,
    descs: Vec<IntGaugeVec>,
    values: F,
}

/// The label values of each sample of a gauge, and its number.
pub type Samples = Vec<(Vec<Cow<'static, str>>, i64)>;

/// Registers `gauges`, each with its name, help and labels. Each scrape calls `values` once, for the samples of each
/// gauge; label values that it does not return are not shown. Fails if `registry` already has one of the names.
pub fn by_label_at_scrape(
    registry: &Registry,
    gauges: Vec<(Opts, &'static [&'static str])>,
    values: impl Fn() -> Vec<Samples> + Send + Sync + 'static,
) -> prometheus::Result<()> {
    let descs = gauges.iter();
    let descs = descs.map(|(gauge, labels)| IntGaugeVec::new(gauge.clone(), labels));
    let descs = descs.collect::<Result<_, _>>()?;
    registry.register(Box::new(ByLabel {
        gauges,
        descs,
        values,
    }))
}

impl<F> Collector for ByLabel<F>
where
    F: Fn() -> Vec<Samples> + Send + Sync,
{
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // A new gauge each time: labels that are gone must not keep their last number, and two scrapes at once must not
        // see each other's half.
        let mut families = Vec::new();
        for ((gauge, labels), samples) in self.gauges.iter().zip((self.values)()) {
            let Ok(gauge) = IntGaugeVec::new(gauge.clone(), labels) else {
                continue;
            };
            for (labels, value) in &samples {
                if let Ok(gauge) = gauge.get_metric_with_label_values(labels) {
                    gauge.set(*value);
                }
            }
            families.extend(gauge.collect());
        }
        families
    }
}
