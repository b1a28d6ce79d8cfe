//! The whole loop on the embedded API server under paused time.
//!
//! | file | shows |
//! |---|---|
//! | `boundary` | which requests are made, and no others |
//! | `numbers` | the metrics |
//! | `faults` | outages, closed watches, 410, 429, lost answers, rivals |
//! | `terms` | standbys, changes of leader, dry run |
//! | `removal` | `--remove` |
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test"
)]

mod boundary;
mod faults;
mod numbers;
mod removal;
mod terms;
mod world;
