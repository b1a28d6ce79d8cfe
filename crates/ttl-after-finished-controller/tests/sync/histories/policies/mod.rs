//! Histories with clean-up policies:
//! `cargo xtask fault --suite ttl-after-finished-controller/policies --seed N` repeats one.

mod drawn;
mod ledger;
mod scene;
mod seeded_bugs;

controller_testing::histories!(scene::Debris);
