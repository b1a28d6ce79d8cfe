//! The demo as a user runs it: in its own process, with the controllers' binaries in the same folder.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod demo;
mod embedded;
mod given;
mod real;
