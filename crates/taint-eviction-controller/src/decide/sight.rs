//! Whether we see what happens, and what that means for deadlines that pass while we do not (TE-4).

use controller_core::clock::saturating_add;
use jiff::Timestamp;

use super::{Rules, whole_seconds};

/// Whether we see what happens (we lead, and the watch of the nodes stands), and since when. Our clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sight {
    /// When the last blindness began.
    lost: Timestamp,
    /// When it ended; not yet, if none.
    regained: Option<Timestamp>,
}

impl Default for Sight {
    fn default() -> Self {
        Self::none()
    }
}

impl Sight {
    /// Of a process that has just started: what was before, it has not seen.
    pub const fn none() -> Self {
        Self {
            lost: Timestamp::MIN,
            regained: None,
        }
    }

    /// We see again from `now` on.
    #[must_use]
    pub fn regained(self, now: Timestamp) -> Self {
        Self {
            regained: self.regained.or(Some(now)),
            ..self
        }
    }

    /// We do not see what happens from `now` on. What comes within the grace that the last blindness asked for
    /// is the same blindness.
    #[must_use]
    pub fn lost(self, now: Timestamp, rules: &Rules) -> Self {
        match self.regained {
            None => self,
            Some(regained) if now < saturating_add(regained, rules.catch_up_grace) => Self {
                regained: None,
                ..self
            },
            Some(_) => Self {
                lost: now,
                regained: None,
            },
        }
    }

    /// Whether we see what happens.
    pub const fn sees(&self) -> bool {
        self.regained.is_some()
    }

    /// When to act on a deadline that has passed; none while we are blind to what came after it.
    pub(super) fn acts_at(&self, deadline: Timestamp, seconds: i64, rules: &Rules) -> Option<Timestamp> {
        if deadline < self.lost {
            return Some(deadline);
        }
        let regained = self.regained?;
        if deadline >= regained {
            return Some(deadline);
        }
        Some(saturating_add(
            regained,
            whole_seconds(seconds).min(rules.catch_up_grace),
        ))
    }
}
