//! `process_*`: the resources that the process uses.

use prometheus::core::{Collector, Desc};
use prometheus::process_collector::ProcessCollector;
use prometheus::proto;
use rustix::time::{ClockId, clock_gettime};

const CPU: &str = "process_cpu_seconds_total";

/// Prometheus' own collector, except that its CPU time counts whole seconds: a controller that uses a few milliseconds
/// of each second would show nothing for minutes, then one second at once.
pub(super) struct Process(ProcessCollector);

impl Process {
    pub(super) fn this() -> Self {
        Self(ProcessCollector::for_self())
    }
}

impl Collector for Process {
    fn desc(&self) -> Vec<&Desc> {
        self.0.desc()
    }

    fn collect(&self) -> Vec<proto::MetricFamily> {
        let mut families = self.0.collect();
        let of_cpu = families.iter_mut().filter(|family| family.name() == CPU);
        for metric in of_cpu.flat_map(proto::MetricFamily::mut_metric) {
            let mut seconds = proto::Counter::default();
            seconds.set_value(cpu_seconds());
            metric.set_counter(seconds);
        }
        families
    }
}

/// CPU time of all threads since the start of the process.
#[allow(
    clippy::cast_precision_loss,
    reason = "exact to the microsecond for centuries"
)]
fn cpu_seconds() -> f64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}
