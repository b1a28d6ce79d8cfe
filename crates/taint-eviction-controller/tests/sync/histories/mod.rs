//! Histories drawn from seeds: `cargo xtask fault --suite taint-eviction-controller --seed N` repeats one.
//!
//! ```text
//! steps                  what happens, drawn and done
//! suite ── seeded_bugs   what must have become of the pods; bugs that must be found
//! braked                 the same with a brake, and with budgets
//! ```

mod braked;
mod seeded_bugs;
mod steps;
mod suite;

controller_testing::histories!(crate::ledger::Ledger);
