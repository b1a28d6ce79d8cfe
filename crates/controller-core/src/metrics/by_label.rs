//! Gauges with labels, computed at each scrape, so that they are never stale.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGaugeVec, Opts, Registry};

struct ByLabel<const N: usize, F> {
    gauges: Vec<Opts>,
    labels: [&'static str; N],
    descs: Vec<IntGaugeVec>,
    values: F,
}

/// Registers `gauges`, each with its name and help, all with the same labels. Each scrape calls `values` once; label
/// values it does not return are not shown. Fails if `registry` already has one of the names.
pub fn by_label_at_scrape<const N: usize, V>(
    registry: &Registry,
    gauges: impl IntoIterator<Item = Opts>,
    labels: [&'static str; N],
    values: impl Fn() -> V + Send + Sync + 'static,
) -> prometheus::Result<()>
where
    V: IntoIterator<Item = ([&'static str; N], i64)> + 'static,
{
    let gauges: Vec<Opts> = gauges.into_iter().collect();
    let descs = gauges
        .iter()
        .map(|gauge| IntGaugeVec::new(gauge.clone(), &labels));
    let descs = descs.collect::<Result<_, _>>()?;
    let values = move || values().into_iter().collect::<Vec<_>>();
    registry.register(Box::new(ByLabel {
        gauges,
        labels,
        descs,
        values,
    }))
}

impl<const N: usize, F> Collector for ByLabel<N, F>
where
    F: Fn() -> Vec<([&'static str; N], i64)> + Send + Sync,
{
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // A new gauge each time: labels that are gone must not keep their last number, and two scrapes at once must not
        // see each other's half.
        let values = (self.values)();
        let mut families = Vec::new();
        for gauge in &self.gauges {
            let Ok(gauge) = IntGaugeVec::new(gauge.clone(), &self.labels) else {
                continue;
            };
            for (labels, value) in &values {
                gauge.with_label_values(labels).set(*value);
            }
            families.extend(gauge.collect());
        }
        families
    }
}
