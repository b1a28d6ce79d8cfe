//! Families of metrics (CORE-9).
//!
//! Every module makes its own families through [`register`], so no family can be made and then forgotten.

mod at_scrape;
mod by_label;

use prometheus::Registry;
use prometheus::core::Collector;

pub use self::at_scrape::{at_scrape, at_scrape_of};
pub use self::by_label::{Samples, by_label_at_scrape};

/// Adds a new family to `registry` and returns it; fails if `registry` already has its name.
///
/// ```
/// # use controller_core::metrics::register;
/// # use prometheus::{IntCounter, Registry};
/// # let registry = Registry::new();
/// let syncs = register(&registry, IntCounter::new("syncs_total", "Syncs that were begun."))?;
/// # Ok::<(), prometheus::Error>(())
/// ```
pub fn register<C>(registry: &Registry, family: prometheus::Result<C>) -> prometheus::Result<C>
where
    C: Collector + Clone + 'static,
{
    let family = family?;
    registry.register(Box::new(family.clone()))?;
    Ok(family)
}
