//! Histories drawn from seeds: `cargo xtask fault --suite ttl-after-finished-controller --seed N` repeats one.

mod seeded_bugs;
mod suite;

harness::histories!(suite::Jobs);
