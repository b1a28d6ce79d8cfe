//! Histories drawn from seeds: `cargo xtask fault --suite ttl-controller --seed N` repeats one.

mod seeded_bugs;
mod suite;

harness::histories!(suite::Nodes);
