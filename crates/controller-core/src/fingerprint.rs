//! A hash of a state, to recognize states that a search has reached before; for tests.

use std::fmt::{self, Debug, Write};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Hashes values by what `Debug` writes of them, and maps without an order as the sum of their entries.
#[derive(Clone, Debug, Default)]
pub struct Fingerprint(DefaultHasher);

impl Fingerprint {
    /// Adds a value whose `Debug` output is always in the same order.
    pub fn add(&mut self, value: &impl Debug) {
        // Writing to a hasher does not fail.
        _ = write!(self, "{value:?};");
    }

    /// Adds values that come in any order.
    pub fn add_all(&mut self, values: impl IntoIterator<Item: Debug>) {
        let sum = values.into_iter().fold(0_u64, |sum, value| {
            let mut one = Self::default();
            one.add(&value);
            sum.wrapping_add(one.finish())
        });
        sum.hash(self);
    }
}

impl Write for Fingerprint {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

impl Hasher for Fingerprint {
    fn finish(&self) -> u64 {
        self.0.finish()
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(add: impl FnOnce(&mut Fingerprint)) -> u64 {
        let mut print = Fingerprint::default();
        add(&mut print);
        print.finish()
    }

    #[test]
    fn only_values_without_an_order_may_come_in_any() {
        assert_eq!(
            of(|print| print.add_all([1, 2])),
            of(|print| print.add_all([2, 1]))
        );
        assert_ne!(
            of(|print| print.add_all([1, 1])),
            of(|print| print.add_all([2, 2]))
        );
        assert_ne!(of(|print| print.add(&[1, 2])), of(|print| print.add(&[2, 1])));
    }
}
