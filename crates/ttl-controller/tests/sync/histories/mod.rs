//! Histories drawn from seeds: `cargo xtask fault --suite ttl-controller --seed N` repeats one.

mod seeded_bugs;
mod suite;

controller_testing::histories!(suite::Nodes);
