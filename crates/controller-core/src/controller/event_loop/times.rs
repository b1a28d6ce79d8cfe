//! When the loop takes its next turn, and what a jump of the wall clock does.

use std::time::Duration;

use super::{Loop, Stage};
use crate::api::CLOCK_TOLERANCE;
use crate::controller::permit_queue::Limit;
use crate::controller::{Controller, LoopEvent, Now};

/// Longest wait before the wall clock is read again, so that a clock that is set delays nothing for longer.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

impl<C: Controller> Loop<C> {
    /// After a jump back of the wall clock, what was scheduled by it would come too late: a leader looks at everything
    /// again.
    pub(super) fn notice_jump(&mut self, now: Now) {
        let start = now.wall_at_start();
        let before = self.wall_at_start.replace(start);
        let has_jumped_back = before.is_some_and(|before| before.duration_since(start) > CLOCK_TOLERANCE);
        if self.leading && has_jumped_back {
            self.on_event(LoopEvent::Resync, now);
        }
    }

    pub(super) fn next_time(&self, now: Now, limit: &dyn Limit) -> Option<Duration> {
        let queues = self.queues.iter();
        let open = queues.filter(|queue| self.stage == Stage::Working && queue.is_open(self.leading));
        let keys = open.filter_map(|queue| queue.next_time(now, &self.retry_share));
        let looks = [
            self.requests.awaited.first(),
            self.plans.next_review(),
            self.deadlines.first(),
        ];
        let looks = looks
            .into_iter()
            .flatten()
            .map(|at| at.saturating_sub(now.uptime));
        let runnable = (!self.runnable.is_empty()).then_some(Duration::ZERO);
        let permitted = (self.line.len() > 0).then(|| limit.wait());
        let times = keys.chain(looks).chain(runnable).chain(permitted);
        times.min().map(|wait| wait.min(LOOK_AGAIN))
    }
}
