//! What needs no API server, in one binary: to link one takes longer than to run it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod decide_props;
#[path = "decide_table/main.rs"]
mod decide_table;
#[path = "support/model.rs"]
mod model;
mod properties;
mod route_table;
#[path = "support/server/mod.rs"]
mod server;
mod support;
mod surface;
