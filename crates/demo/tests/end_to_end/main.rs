//! The demo as a user runs it: a process of its own, with the controllers' binaries beside it.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on says so by a panic"
)]

mod demo;
mod embedded;
mod given;
mod real;
