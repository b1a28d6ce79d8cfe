//! Our own writes in the store: rule by rule (`cases`, in the language of `script`), and for any order of writes, answers,
//! watch events and lists (`props`) in a `world` with a small API `server`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod answers;
mod cases;
mod judge;
mod props;
mod script;
mod server;
mod things;
mod world;

/// The names of objects in the properties.
pub(crate) const NAMES: [&str; 2] = ["a", "b"];
