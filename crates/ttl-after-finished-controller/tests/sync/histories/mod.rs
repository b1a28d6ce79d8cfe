//! Histories drawn from seeds: `cargo xtask fault --suite ttl-after-finished-controller --seed N` repeats one.

mod jobs;
mod policies;
mod scene;
mod seeded_bugs;

controller_testing::histories!(scene::Debris<false>);
