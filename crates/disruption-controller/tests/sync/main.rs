//! The whole loop on the embedded API server under paused time.
//!
//! | file | shows |
//! |---|---|
//! | `stories` | what is also told next to a real API server: kinds, overlaps, what is two minutes old |
//! | `blockers` | what `blockers` and `explain --pod` print |
//! | `budgets` | budgets that come, change and go |
//! | `pods` | pods that come, change and go |
//! | `scales` | controllers of every kind, and their scales |
//! | `failures` | what cannot be computed, and how that ends |
//! | `requests` | which requests are made, and no others |
//! | `races` | evictions and other writers between a read and a write |
//! | `disrupted` | evictions that were approved |
//! | `stale` | conditions of pods that stayed |
//! | `notes` | events |
//! | `explain` | what `explain` prints |
//! | `preflight` | what `preflight` finds out |
//! | `terms` | restarts, changes of leader |
//! | `of_the_loop` | what holds for every controller: 429, lost answers, standbys, dry run and so on |
//! | `numbers` | the metrics |
//! | `observer` | the metrics about drains, and the process that only observes |
//! | `histories` | what holds for all of it under faults drawn from seeds |
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod blockers;
#[path = "../support/budget.rs"]
mod budget;
mod budgets;
#[path = "../support/by_hand.rs"]
mod by_hand;
mod disrupted;
mod explain;
mod failures;
mod histories;
mod notes;
mod numbers;
mod observer;
mod of_the_loop;
mod pods;
mod preflight;
mod races;
mod requests;
mod scales;
mod stale;
mod stories;
mod tenants;
mod terms;
mod world;

pub(crate) use controller_testing::told_on_embedded as told;
pub(crate) use disruption_controller::DisruptionController as Told;
