//! What needs no API server, in one binary: to link one takes longer than to run it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod decide_table;
mod passes;
mod properties;
mod route_table;
mod support;
mod surface;
