//! What is known of our clock: how far it has jumped, and how far it is ahead of the API server's.

use controller_core::api::CLOCK_TOLERANCE;
use controller_core::controller::{Now, Reply};
use jiff::{SignedDuration, Timestamp};

use crate::decide::{after_jump, clock_ahead};
use crate::requests::ANSWER_WITHIN;

/// Our wall clock, seen by the time since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct OurClock {
    /// Its time at the start. What we saw is remembered by the clock that this one would be without jumps.
    started: Option<Timestamp>,
    /// How far it is ahead of the API server's, but for its jumps, by the last answer; `None` before the first.
    ahead: Option<SignedDuration>,
}

impl OurClock {
    /// How far it has jumped since the start; positive: ahead.
    pub(crate) fn jumped(&self, now: Now) -> SignedDuration {
        let started = now.wall_at_start();
        let by = started.duration_since(self.started.unwrap_or(started));
        if by.abs() > CLOCK_TOLERANCE {
            by
        } else {
            SignedDuration::ZERO
        }
    }

    /// The time but for its jumps.
    pub(crate) fn without_jumps(&self, now: Now) -> Timestamp {
        after_jump(now.wall, -self.jumped(now))
    }

    /// The time but for its jumps; the first time that is asked for is without any.
    pub(crate) fn steady(&mut self, now: Now) -> Timestamp {
        self.started.get_or_insert(now.wall_at_start());
        self.without_jumps(now)
    }

    /// The API server has told its time. After a slow answer nobody knows when it did.
    pub(crate) fn learn_ahead<A>(&mut self, reply: &Reply<A>) {
        if reply.answered.uptime.saturating_sub(reply.asked.uptime) > ANSWER_WITHIN {
            return;
        }
        let jumped = self.jumped(reply.answered);
        self.ahead = reply.ahead().map(|ahead| ahead - jumped).or(self.ahead);
    }

    /// How far it counts as ahead of the API server's; `None` before that has told its time.
    pub(crate) fn ahead(&self, now: Now) -> Option<SignedDuration> {
        let jumped = self.jumped(now);
        self.ahead.map(|ahead| clock_ahead(ahead + jumped))
    }

    /// How far it counts as behind the API server's, as far as that has told its time.
    pub(crate) fn behind(&self, now: Now) -> SignedDuration {
        let jumped = self.jumped(now);
        self.ahead
            .map_or(SignedDuration::ZERO, |ahead| clock_ahead(-(ahead + jumped)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// An answer that took so long, by a clock that is an hour ahead.
    fn answer(took: Duration) -> Reply<()> {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let at = |uptime| Now {
            wall: start + uptime,
            uptime,
        };
        Reply {
            value: Ok(()),
            asked: at(Duration::ZERO),
            answered: at(took),
            date: Some(start + took - SignedDuration::from_hours(1)),
        }
    }

    #[test]
    fn a_slow_answer_says_nothing_about_our_clock() {
        let mut clock = OurClock::default();
        let slow = answer(Duration::from_secs(5));
        clock.steady(slow.answered);
        clock.learn_ahead(&slow);
        assert_eq!(clock.ahead(slow.answered), None);
        let quick = answer(Duration::ZERO);
        clock.learn_ahead(&quick);
        clock.learn_ahead(&slow);
        assert_eq!(clock.ahead(quick.answered), Some(SignedDuration::from_hours(1)));
    }
}
