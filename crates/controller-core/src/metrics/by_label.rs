//! A gauge with labels that is computed when it is asked for, so that it is never stale.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGaugeVec, Opts, Registry};

struct ByLabel<F> {
    gauge: IntGaugeVec,
    values: F,
}

/// Registers `gauge` with these labels, whose `values` are asked for at each scrape; what they do not name is not shown.
/// Fails when `registry` has the name already.
pub fn by_label_at_scrape<const N: usize, V>(
    registry: &Registry,
    gauge: Opts,
    labels: [&str; N],
    values: impl Fn() -> V + Send + Sync + 'static,
) -> prometheus::Result<()>
where
    V: IntoIterator<Item = ([&'static str; N], i64)> + 'static,
{
    let gauge = IntGaugeVec::new(gauge, &labels)?;
    let values = move || values().into_iter().collect::<Vec<_>>();
    registry.register(Box::new(ByLabel { gauge, values }))
}

impl<const N: usize, F> Collector for ByLabel<F>
where
    F: Fn() -> Vec<([&'static str; N], i64)> + Send + Sync,
{
    fn desc(&self) -> Vec<&Desc> {
        self.gauge.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // What is named no more must not stand there with its last number.
        self.gauge.reset();
        for (labels, value) in (self.values)() {
            self.gauge.with_label_values(&labels).set(value);
        }
        self.gauge.collect()
    }
}
