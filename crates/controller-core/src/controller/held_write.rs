//! A write that waits for a permit, or for another write to its object, while what it is based on grows old.

use std::time::Duration;

/// How long the answers last that it is based on.
const ANSWERS_LAST: Duration = Duration::from_secs(5);

/// Whether a pass waits with nothing in flight, and a write that may not be sent yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum HeldWrite {
    #[default]
    No,
    Since(Duration),
    /// It took so long that the pass sends its queries again: only once, or it would never write.
    TooLong,
}

impl HeldWrite {
    /// Whether it `waits` so at `now`.
    pub(super) fn observe(&mut self, waits: bool, now: Duration) {
        *self = match *self {
            Self::No if waits => Self::Since(now),
            Self::Since(_) if !waits => Self::No,
            same => same,
        };
    }

    /// It goes on at `now`; returns whether it needs newer answers.
    pub(super) fn becomes_too_long(&mut self, now: Duration) -> bool {
        let is_old = matches!(*self, Self::Since(since) if now.saturating_sub(since) > ANSWERS_LAST);
        if is_old {
            *self = Self::TooLong;
        }
        is_old
    }
}
