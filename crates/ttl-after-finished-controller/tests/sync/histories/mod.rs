//! Histories drawn from seeds: `cargo xtask fault --suite ttl-after-finished-controller --seed N` repeats one.

mod policies;
mod seeded_bugs;
mod suite;

controller_testing::histories!(suite::Jobs);
