//! Leader election (CORE-6): one replica writes, the others keep warm caches.
//!
//! Wire compatible with client-go v0.36 (`tools/leaderelection`): a Go replica and ours can share one
//! `coordination.k8s.io/v1` Lease.
//!
//! # Why two leaders never write at once
//!
//! A term ends `renew_deadline` after the *start* of its last successful renewal. Another replica takes the Lease
//! `lease_duration` after it *saw* that renewal at the earliest, and `lease_duration` is longer. Both times are
//! measured on monotonic clocks, so wall clocks may differ by hours; only clocks that run at different speeds (a
//! machine that was suspended as a whole) use up the difference.
//!
//! Two rules are stricter than client-go's: replicas that saw a Lease before it vanished treat it as held for one more
//! lease duration, and a Lease without `leaseDurationSeconds` lasts our own lease duration.

mod config;
mod decide;
mod leadership;
mod lease;
mod metrics;
mod requests;
mod runner;
mod term;
#[cfg(test)]
mod tests;

pub use config::ElectionConfig;
pub use leadership::{Leadership, SetBacks};
pub use metrics::ElectionMetrics;
pub use runner::{Elector, elector};
pub use term::Term;
