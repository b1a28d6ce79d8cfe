//! Histories drawn from seeds: `cargo xtask fault --suite disruption-controller --seed N` repeats one.
//!
//! ```text
//! steps                  what happens, drawn and done
//! ledger ── tap          what the rules demand of the existing objects; what a process was shown of them
//! suite ── seeded_bugs   what may be written, and what must have been; bugs that must be found
//!   └───── instant       a history that seeds hardly ever draw
//! ```

mod instant;
mod ledger;
mod seeded_bugs;
mod steps;
mod suite;
mod tap;

controller_testing::histories!(suite::Budgets);
