//! The informer from the outside: content of the store and changes for handlers, event by event (`scripted`), for any
//! sequence of events (`props`), and over HTTP (`http` in pages, `streams` as streams).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod http;
mod props;
mod scripted;
mod streams;
mod thing;
