//! Random draws that are the same for the same seed.

use std::ops::Range;
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

/// Draws the parts of a history.
#[derive(Debug)]
pub struct Draw(ChaCha8Rng);

impl Draw {
    /// Sequence number `sequence` of `seed`; sequences of a seed are independent.
    pub fn new(seed: u64, sequence: u64) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(sequence);
        Self(generator)
    }

    /// A number in `range`, which must not be empty.
    pub fn number(&mut self, range: Range<usize>) -> usize {
        self.0.random_range(range)
    }

    /// Returns true in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.number(0..100) < percent
    }

    /// One of `choices`, which must not be empty.
    pub fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.number(0..choices.len())].clone()
    }

    /// A time in `range`, which must not be empty, in whole milliseconds.
    pub fn time(&mut self, range: Range<Duration>) -> Duration {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(
            self.0
                .random_range(milliseconds(range.start)..milliseconds(range.end)),
        )
    }
}
