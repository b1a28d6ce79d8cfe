//! Wall time that cannot overflow.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// `at + duration`, clamped to the representable range (CORE-15).
pub fn saturating_add(at: Timestamp, duration: Duration) -> Timestamp {
    SignedDuration::try_from(duration)
        .ok()
        .and_then(|d| at.checked_add(d).ok())
        .unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn additions_saturate_instead_of_overflowing() {
        assert_eq!(
            saturating_add(Timestamp::MAX, Duration::from_secs(1)),
            Timestamp::MAX
        );
        assert_eq!(saturating_add(Timestamp::MIN, Duration::MAX), Timestamp::MAX);
        assert_eq!(
            saturating_add(at("2026-01-01T00:00:00Z"), Duration::from_secs(2)),
            at("2026-01-01T00:00:02Z")
        );
    }
}
