//! Since when this process leads and watches the nodes, and what happens to deadlines that passed before that (TE-4).

use controller_core::clock::saturating_add;
use jiff::Timestamp;

use super::{Rules, whole_seconds};

/// Since when we lead and the watch of the nodes is open, by our clock. While either is missing we see nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sight {
    /// When we last stopped seeing.
    lost: Timestamp,
    /// When we began to see again; `None` while we do not.
    regained: Option<Timestamp>,
}

impl Default for Sight {
    fn default() -> Self {
        Self::none()
    }
}

impl Sight {
    /// Of a process that has just started, and has seen nothing yet.
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

    /// We see nothing from `now` on. If the grace after the last gap is not over, this is the same gap: it began when that
    /// one did.
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

    /// When to act on a deadline that has passed; `None` while we do not see what happened after it.
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
