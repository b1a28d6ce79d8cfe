//! Histories drawn from seeds: `cargo xtask fault --suite resourceclaim-controller --seed N` repeats one.
//!
//! ```text
//! steps ── scheduler                what happens, drawn; done by users, kubelet and garbage collector; and by the
//!                                   scheduler
//! ledger                            what was, and what the rules demand
//! suite ── seeded_bugs              what may be written, and what must have become of the claims; bugs that must be
//!   │                               found
//!   └───── handover, unnamed        histories that seeds hardly ever draw
//! ```

mod handover;
mod ledger;
mod scheduler;
mod seeded_bugs;
mod steps;
mod suite;
mod unnamed;

controller_testing::histories!(suite::Claims);
