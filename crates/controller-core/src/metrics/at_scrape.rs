//! Gauges that are computed when they are asked for, so that they are never stale.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGauge, Registry};

struct AtScrape<const N: usize, F> {
    gauges: [IntGauge; N],
    values: F,
}

/// Registers `gauges`, each with its name and help, whose `values` are asked for at each scrape; none are shown while
/// there are none. Fails when `registry` has one of the names already.
pub fn at_scrape<const N: usize>(
    registry: &Registry,
    gauges: [(&str, &str); N],
    values: impl Fn() -> Option<[i64; N]> + Send + Sync + 'static,
) -> prometheus::Result<()> {
    let made: Vec<_> = gauges
        .into_iter()
        .map(|(name, help)| IntGauge::new(name, help))
        .collect::<prometheus::Result<_>>()?;
    // As many as were asked for.
    let Ok(gauges) = <[IntGauge; N]>::try_from(made) else {
        return Ok(());
    };
    registry.register(Box::new(AtScrape { gauges, values }))
}

impl<const N: usize, F: Fn() -> Option<[i64; N]> + Send + Sync> Collector for AtScrape<N, F> {
    fn desc(&self) -> Vec<&Desc> {
        self.gauges.iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(values) = (self.values)() else {
            return Vec::new();
        };
        let gauges = self.gauges.iter().zip(values);
        gauges
            .flat_map(|(gauge, value)| {
                gauge.set(value);
                gauge.collect()
            })
            .collect()
    }
}
