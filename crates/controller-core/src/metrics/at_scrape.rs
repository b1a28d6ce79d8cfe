//! Gauges computed at each scrape, so that they are never stale.

use prometheus::core::{Atomic, AtomicI64, Collector, Desc, GenericGauge};
use prometheus::proto::MetricFamily;
use prometheus::{Opts, Registry};

struct AtScrape<P: Atomic, F> {
    gauges: Vec<GenericGauge<P>>,
    values: F,
}

/// Registers `gauges`, each with its name and help. Each scrape calls `values`; `None` shows no gauge. Fails if
/// `registry` already has one of the names.
pub fn at_scrape<const N: usize>(
    registry: &Registry,
    gauges: [(&str, &str); N],
    values: impl Fn() -> Option<[i64; N]> + Send + Sync + 'static,
) -> prometheus::Result<()> {
    let gauges = gauges.map(|(name, help)| Opts::new(name, help));
    at_scrape_of::<AtomicI64, N>(registry, gauges, values)
}

/// [`at_scrape`] for gauges of any type and with labels.
pub fn at_scrape_of<P: Atomic + 'static, const N: usize>(
    registry: &Registry,
    gauges: [Opts; N],
    values: impl Fn() -> Option<[P::T; N]> + Send + Sync + 'static,
) -> prometheus::Result<()> {
    let gauges = gauges.into_iter().map(GenericGauge::<P>::with_opts);
    let gauges = gauges.collect::<prometheus::Result<_>>()?;
    registry.register(Box::new(AtScrape { gauges, values }))
}

impl<P, F, const N: usize> Collector for AtScrape<P, F>
where
    P: Atomic,
    F: Fn() -> Option<[P::T; N]> + Send + Sync,
{
    fn desc(&self) -> Vec<&Desc> {
        self.gauges.iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let values = (self.values)().into_iter().flatten();
        let gauges = self.gauges.iter().zip(values);
        gauges
            .flat_map(|(gauge, value)| {
                gauge.set(value);
                gauge.collect()
            })
            .collect()
    }
}
