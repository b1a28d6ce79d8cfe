//! Histories drawn from seeds: `cargo xtask fault --suite taint-eviction-controller --seed N` repeats one.
//!
//! ```text
//! ledger              what happened to the nodes and pods, and what the rules make of it
//! steps               what happens, drawn and done
//! suite ── sabotage   what must have become of the pods; bugs that must show
//! ```

mod ledger;
mod seeded_bugs;
mod steps;
mod suite;

harness::histories!(ledger::Ledger);
