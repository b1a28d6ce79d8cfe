//! The whole loop on the embedded API server under paused time.
//!
//! | file | shows |
//! |---|---|
//! | `claims` | pods get their claims |
//! | `reservations` | claims are reserved, given back and deleted |
//! | `races` | two processes, lost answers, crashes, the scheduler in between |
//! | `outage` | an API server that is away, closed watches, compaction |
//! | `gates` | feature gates, and what the API server makes of them |
//! | `groups` | claims of `PodGroups` |
//! | `explain` | what `explain` prints |
//! | `rivals` | another writer that keeps undoing ours |
//! | `terms` | restarts, changes of leader |
//! | `of_the_loop` | what holds for every controller: 429, lost answers, standbys, dry run and so on |
//! | `numbers` | the metrics |
//! | `histories` | what holds for all of it under faults drawn from seeds |
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod claims;
mod explain;
mod gates;
mod groups;
mod histories;
mod numbers;
mod of_the_loop;
mod outage;
mod races;
mod reservations;
mod rivals;
mod terms;
mod world;
