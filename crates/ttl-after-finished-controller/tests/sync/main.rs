//! The whole loop on the embedded API server under paused time.
#![allow(clippy::unwrap_used, reason = "a test")]

mod clocks;
mod expiry;
mod faults;
mod histories;
#[path = "../support/ledger.rs"]
mod ledger;
mod numbers;
mod of_the_loop;
mod policies;
mod stories;
mod terms;
mod world;

pub(crate) use controller_testing::told_on_embedded as told;
pub(crate) use ttl_after_finished_controller::TtlAfterFinishedController as Told;
