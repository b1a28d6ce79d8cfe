//! The charts with Helm (`$HELM`, by default the one in `PATH`), and on a real API server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test"
)]

mod admission;
mod documents;
mod install;
mod manifests;
mod objects;
mod process;
mod release;
mod render;
mod static_pod;
mod support;
mod tour;
