//! The whole loop on the embedded API server under paused time.
//!
//! | file | shows |
//! |---|---|
//! | `boundary` | which requests are made, and no others |
//! | `numbers` | the metrics |
//! | `faults` | outages, closed watches, 410, 429, lost answers, rivals |
//! | `terms` | standbys, changes of leader, dry run |
//! | `histories` | what is drawn from a seed: steps of the cluster, faults, two replicas |
//! | `removal` | `--remove` |
#![allow(clippy::unwrap_used, reason = "a test")]

mod boundary;
mod faults;
mod histories;
mod numbers;
mod removal;
mod terms;
mod world;
