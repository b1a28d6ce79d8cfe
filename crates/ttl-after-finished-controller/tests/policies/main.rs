//! The rules of clean-up policies, case by case.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "a test")]

mod docs;
mod kept;
pub(crate) mod support;
mod table;
mod views;
mod wrong;
