//! The demo as a user runs it: a process of its own, with the controllers' binaries beside it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod demo;
mod embedded;
mod given;
mod real;
