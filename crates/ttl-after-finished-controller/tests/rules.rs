//! What needs no API server, in one binary: to link one takes longer than to run it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod decide_props;
mod decide_table;
#[path = "support/ledger.rs"]
mod ledger;
#[path = "policies/main.rs"]
mod policies;
mod properties;
mod route_table;
mod surface;
