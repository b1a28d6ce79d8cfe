//! The whole loop on the embedded API server under paused time.
//!
//! | file | shows |
//! |---|---|
//! | `stories` | what is also told next to a real API server: who goes, who is spared, an outage, a new leader |
//! | `evictions` | who goes, and when |
//! | `requests` | which requests are made, and no others |
//! | `saved` | a taint that goes in time saves the pod |
//! | `refused` | deletes that fail |
//! | `outage` | an API server that is away |
//! | `brake` | what is due beyond the limits of the brake waits |
//! | `budgets` | evictions that wait for budgets, and tolerations that grow |
//! | `clocks` | a clock that is wrong |
//! | `replaced` | pods of the same name |
//! | `order` | who goes first |
//! | `terms` | restarts, changes of leader |
//! | `of_the_loop` | what holds for every controller: 429, lost answers, standbys, dry run and so on |
//! | `limits` | who goes while permits are scarce |
//! | `histories` | what is drawn from a seed: steps of the cluster, faults, two replicas |
//! | `numbers` | the metrics |
#![allow(clippy::unwrap_used, reason = "a test")]

mod brake;
mod budgets;
mod clocks;
mod evictions;
mod histories;
#[path = "../support/ledger.rs"]
mod ledger;
mod limits;
mod numbers;
mod of_the_loop;
mod order;
mod outage;
mod refused;
mod replaced;
mod requests;
mod saved;
mod stories;
mod terms;
mod world;

pub(crate) use controller_testing::told_on_embedded as told;
pub(crate) use taint_eviction_controller::TaintEvictionController as Told;
