//! The process around a controller, in one binary: to link one takes longer than to run it.
//!
//! Tests that count what the process logs, or start it anew, are binaries of their own.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

#[path = "admin/main.rs"]
mod admin;
#[path = "config/main.rs"]
mod config;
mod events_live;
mod metrics;
#[path = "preflight/main.rs"]
mod preflight;
mod run;
