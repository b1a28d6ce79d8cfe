//! The whole loop on the embedded API server under paused time.
#![allow(clippy::unwrap_used, reason = "a test")]

mod clocks;
mod expiry;
mod faults;
mod histories;
mod numbers;
mod of_the_loop;
mod policies;
mod terms;
mod world;
