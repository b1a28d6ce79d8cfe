//! The rules of clean-up policies, case by case and for all inputs.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "a test")]

mod docs;
mod kept;
mod props;
mod support;
mod table;
mod views;
mod wrong;
