//! The whole loop on the embedded API server under paused time.
//!
//! | file | shows |
//! |---|---|
//! | `boundary` | which requests are made, and no others |
//! | `numbers` | the metrics |
//! | `stories` | what is also told next to a real API server: the boundary, restarts, an outage |
//! | `of_the_loop` | what holds for every controller: 429, lost answers, standbys, dry run and so on |
//! | `faults` | deletions unseen, an etcd set back, rivals |
//! | `terms` | changes of leader |
//! | `histories` | what is drawn from a seed: steps of the cluster, faults, two replicas |
//! | `removal` | `--remove` |
#![allow(clippy::unwrap_used, reason = "a test")]

mod boundary;
mod faults;
mod histories;
mod numbers;
mod of_the_loop;
mod removal;
mod stories;
mod terms;
mod world;

pub(crate) use controller_testing::told_on_embedded as told;
pub(crate) use ttl_controller::TtlController as Told;
