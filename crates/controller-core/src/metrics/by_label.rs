//! A gauge with labels that is computed when it is asked for, so that it is never stale.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGaugeVec, Opts, Registry};

struct ByLabel<const N: usize, F> {
    gauge: Opts,
    labels: [&'static str; N],
    desc: IntGaugeVec,
    values: F,
}

/// Registers `gauge` with these labels, whose `values` are asked for at each scrape; what they do not name is not shown.
/// Fails when `registry` has the name already.
pub fn by_label_at_scrape<const N: usize, V>(
    registry: &Registry,
    gauge: Opts,
    labels: [&'static str; N],
    values: impl Fn() -> V + Send + Sync + 'static,
) -> prometheus::Result<()>
where
    V: IntoIterator<Item = ([&'static str; N], i64)> + 'static,
{
    let desc = IntGaugeVec::new(gauge.clone(), &labels)?;
    let values = move || values().into_iter().collect::<Vec<_>>();
    registry.register(Box::new(ByLabel {
        gauge,
        labels,
        desc,
        values,
    }))
}

impl<const N: usize, F> Collector for ByLabel<N, F>
where
    F: Fn() -> Vec<([&'static str; N], i64)> + Send + Sync,
{
    fn desc(&self) -> Vec<&Desc> {
        self.desc.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // A new one: what is named no more must not stand there with its last number, and two scrapes at once must not
        // see each other's half.
        let Ok(gauge) = IntGaugeVec::new(self.gauge.clone(), &self.labels) else {
            return Vec::new();
        };
        for (labels, value) in (self.values)() {
            gauge.with_label_values(&labels).set(value);
        }
        gauge.collect()
    }
}
