//! The whole loop on the embedded API server under paused time.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test"
)]

mod clocks;
mod expiry;
mod faults;
mod histories;
mod numbers;
mod terms;
mod world;
