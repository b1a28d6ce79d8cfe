//! What needs no API server, in one binary: to link one takes longer than to run it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod brake_table;
mod decide_table;
mod judging;
#[path = "support/ledger.rs"]
mod ledger;
mod properties;
mod route_table;
mod surface;
