//! The state, and which keys a change enqueues.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TAF-6 | `on_change` | `tests/sync/expiry.rs::the_pending_time_moves_with_the_ttl`, `tests/route_table.rs::a_changed_job_is_judged` |
//! | TAF-9 | `on_change`, `State::forget` | `tests/sync/expiry.rs::a_deleted_job_leaves_nothing_behind`, `tests/properties.rs::every_run_ends_with_no_expired_job` |

use std::collections::BTreeSet;
use std::time::Duration;

use controller_core::cache::Change;
use controller_core::controller::{ContextMut, LoopEvent, Requeue, Watches};
use controller_core::meta::ObjectKey;

use crate::TtlAfterFinishedController;
use crate::events::Remark;
use crate::view::JobView;

/// How often the log says that our clock is ahead of the API server's.
const SKEW_NAMED_EVERY: Duration = Duration::from_mins(10);

/// What the controller remembers between actions. When each Job expires is in the queue alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// Jobs whose [`Remark::Undated`] was made.
    undated: BTreeSet<ObjectKey>,
    /// Jobs whose [`Remark::Ahead`] was made.
    ahead: BTreeSet<ObjectKey>,
    /// When [`Remark::Skewed`] was made last.
    skew_named: Option<Duration>,
}

impl Watches<JobView> for TtlAfterFinishedController {
    fn on_change(&self, cx: &mut ContextMut<'_, Self>, change: Change<'_, JobView>) {
        let (Change::Added(job) | Change::Updated { new: job, .. } | Change::Deleted(job)) = change;
        // The previous state of the Job says nothing about its expiry now.
        cx.out.requeue(job.key.clone(), Requeue::Cancel);
        if let Change::Deleted(_) = change {
            cx.state.forget(&job.key);
        } else if cx.leading {
            cx.out.enqueue(job.key.clone());
        }
    }
}

/// Handles every [`LoopEvent`]: all that happens besides changes of Jobs. A standby schedules no Job.
pub(crate) fn observe(
    cx: &mut ContextMut<'_, TtlAfterFinishedController>,
    event: LoopEvent<'_, TtlAfterFinishedController>,
) {
    let requeue = match event {
        LoopEvent::Leading(true) | LoopEvent::Resync => Requeue::Now,
        LoopEvent::Leading(false) => Requeue::Cancel,
        LoopEvent::Synced | LoopEvent::Watching(..) | LoopEvent::Overdue(_) => return,
    };
    for job in cx.stores.snapshot() {
        cx.out.requeue(job.key.clone(), requeue);
    }
}

impl State {
    /// Returns whether `remark` was made and must not be repeated yet.
    pub(crate) fn has_made(&self, remark: &Remark, now: Duration) -> bool {
        match remark {
            Remark::Undated(job, _) => self.undated.contains(job),
            Remark::Ahead(job, _) => self.ahead.contains(job),
            Remark::Skewed(..) => self
                .skew_named
                .is_some_and(|named| now.saturating_sub(named) < SKEW_NAMED_EVERY),
        }
    }

    /// Remembers that `remark` has been made.
    pub(crate) fn make(&mut self, remark: &Remark, now: Duration) {
        match remark {
            Remark::Undated(job, _) => {
                self.undated.insert(job.clone());
            }
            Remark::Ahead(job, _) => {
                self.ahead.insert(job.clone());
            }
            Remark::Skewed(..) => self.skew_named = Some(now),
        }
    }

    /// The number of entries about objects; 0 once no object is left. For tests.
    pub fn held(&self) -> usize {
        self.undated.len() + self.ahead.len()
    }

    fn forget(&mut self, job: &ObjectKey) {
        self.undated.remove(job);
        self.ahead.remove(job);
    }
}
