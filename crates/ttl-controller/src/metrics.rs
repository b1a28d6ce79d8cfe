//! This controller's own metrics, computed at scrape time so that they cannot drift from the cache.

use controller_core::controller::Inspector;
use controller_core::metrics::at_scrape;
use prometheus::Registry;

use crate::TtlController;
use crate::view::Annotation;

pub fn register(inspector: &Inspector<TtlController>, registry: &Registry) -> prometheus::Result<()> {
    let gauges = [
        (
            "ttl_controller_desired_ttl_seconds",
            "TTL that every node should carry, by the size of the cluster.",
        ),
        ("ttl_controller_nodes", "Number of nodes counted."),
        (
            "ttl_controller_nodes_out_of_date",
            "Number of nodes whose annotation differs from the desired TTL.",
        ),
    ];
    let inspector = inspector.clone();
    at_scrape(registry, gauges, move || {
        inspector.scrape(|state, nodes| {
            // Before the first full list neither count nor desired TTL is known: no value is better than a wrong one.
            let desired = state.step?.ttl_seconds();
            let wanted = Annotation::Seconds(desired);
            let out_of_date = nodes.iter().filter(|node| node.annotation != wanted);
            let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
            Some([desired, count(nodes.len()), count(out_of_date.count())])
        })
    })
}
