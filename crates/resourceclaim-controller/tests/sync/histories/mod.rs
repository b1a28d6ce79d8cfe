//! Histories drawn from seeds: `cargo xtask fault --suite resourceclaim-controller --seed N` repeats one.
//!
//! ```text
//! steps ── groups, scheduler        what happens, drawn; done by users, kubelet and garbage collector; what concerns
//!   │                               `PodGroups`, which count in a third of the histories; done by the scheduler
//!   └───── namespace                the end of the namespace
//! sight ── ledger                   what is, and what was; what the rules demand
//!   │
//! judge                             what may be written
//!   │
//! suite ── seeded_bugs              what must have become of the claims; bugs that must be found
//!   │
//!   └───── handover, unnamed        histories that seeds hardly ever draw
//! ```

mod groups;
mod handover;
mod judge;
mod ledger;
mod namespace;
mod scheduler;
mod seeded_bugs;
mod sight;
mod steps;
mod suite;
mod unnamed;

controller_testing::histories!(suite::Claims);
