//! Histories drawn from seeds: `cargo xtask fault --suite disruption-controller --seed N` repeats one.
//!
//! ```text
//! steps               what happens, drawn and done
//! ledger ── tap       what the rules make of what there is; what a process was shown of it
//! suite ── sabotage   what may be written, and what must have been; bugs that must show
//! ```

mod ledger;
mod seeded_bugs;
mod steps;
mod suite;
mod tap;

harness::histories!(suite::Budgets);
