//! Our own writes in the store: rule by rule (`cases`), and for any order of writes, answers, watch events and lists
//! against a small API server (`server`, `props`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod cases;
mod props;
mod server;
