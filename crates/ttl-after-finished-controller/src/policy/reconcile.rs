//! The next action for an object that goes by a policy.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TAF-15 | `reconcile_policy` | `tests/sync/policies/grace.rs::a_clock_of_ours_that_is_an_hour_fast_deletes_nothing_early` |
//! | TAF-17 | `reconcile_due` | `tests/sync/policies/brake.rs::a_policy_that_would_delete_more_than_its_maximum_stops_and_says_so_once` |

use std::time::Duration;

use controller_core::controller::{Action, Context, Now, Requeue};
use jiff::Timestamp;

use super::brake::Room;
use super::decide::{LeftBecause, ServerDate, Verdict, applying, judge};
use super::view::Candidate;
use crate::TtlAfterFinishedController;
use crate::decide::{By, Deletion};
use crate::events::Remark;
use crate::reconcile::{ServerTime, ahead, delete, done, look_again, server_date, server_time};
use crate::requests::{Answer, Query};
use crate::state::{Key, namespace_of};

/// When to look again at what a request in flight, or the watch of namespaces, decides.
const SOON: Duration = Duration::from_secs(1);

/// True if the namespace has been made anew, and the watch has yet to show that.
fn is_of_another(cx: &Context<'_, TtlAfterFinishedController>, answer: &Answer) -> bool {
    answer.namespace().is_some_and(|found| {
        let known = cx.stores.namespaces.uid(&found.view.key);
        known.is_some_and(|known| *known != found.uid)
    })
}

impl TtlAfterFinishedController {
    /// An object that goes by a policy, if at all.
    pub(crate) fn reconcile_policy(
        &self,
        cx: &Context<'_, Self>,
        key: &Key,
        object: &Candidate,
    ) -> Action<Self> {
        match self.verdict(cx, key, object, cx.now, None) {
            Ok(Verdict::Due { .. } | Verdict::Left(LeftBecause::Finalizers(_))) => {}
            Ok(Verdict::Undated(_)) => {
                let undated = Remark::Undated(key.clone(), object.object.uid.clone());
                return done(cx, key, Some(undated), Requeue::Cancel);
            }
            Ok(Verdict::Waits { finish, due, .. }) => {
                return done(cx, key, ahead(key, finish, cx.now.wall), Requeue::At(due));
            }
            Ok(Verdict::InGrace { left, .. }) => return done(cx, key, None, Requeue::After(left)),
            Ok(Verdict::Left(_)) | Err(_) => return done(cx, key, None, Requeue::Cancel),
        }
        // Only what would go is read again: its namespace may have changed, and our clock may be fast.
        let namespace = Query::Namespace(object.object.key.namespace.clone().unwrap_or_default());
        let mut queries = Vec::new();
        let time = server_time(cx);
        if let ServerTime::Unasked = time {
            queries.push(Query::Time);
        }
        match cx.shared(&namespace).or_else(|| cx.pass.answer(&namespace)) {
            None => queries.push(namespace),
            Some(reply) => match &reply.value {
                Err(_) => return done(cx, key, None, Requeue::Cancel),
                Ok(answer) if is_of_another(cx, answer) => {
                    return done(cx, key, None, Requeue::After(SOON));
                }
                Ok(_) => {}
            },
        }
        if !queries.is_empty() {
            return Action::Read(queries);
        }
        let ServerTime::Known(wall) = time else {
            return done(cx, key, None, Requeue::Cancel);
        };
        let servers = server_date(cx);
        match self.verdict(cx, key, object, Now { wall, ..cx.now }, servers) {
            Ok(Verdict::Due { policy, finish, due }) => self.reconcile_due(cx, object, policy, finish, due),
            Ok(Verdict::Waits { due, .. }) => {
                let after = Duration::try_from(due.duration_since(wall)).unwrap_or_default();
                look_again(cx, key, after)
            }
            Ok(Verdict::Left(LeftBecause::Finalizers(policy))) => {
                let remark = self.finalizers(cx, object, policy);
                done(cx, key, remark, Requeue::Cancel)
            }
            Ok(Verdict::InGrace { left, .. }) => done(cx, key, None, Requeue::After(left)),
            Ok(Verdict::Left(_) | Verdict::Undated(_)) | Err(_) => done(cx, key, None, Requeue::Cancel),
        }
    }

    fn verdict(
        &self,
        cx: &Context<'_, Self>,
        key: &Key,
        object: &Candidate,
        now: Now,
        servers: Option<ServerDate>,
    ) -> Result<Verdict, LeftBecause> {
        let all = cx.state.policies.current(&self.policies);
        let namespace = namespace_of(cx.stores, &object.object.key);
        let index = applying(all, object, namespace.as_deref())?;
        let memory = cx.state.policies.memory(all, index, key, servers);
        Ok(judge(all, index, object, memory, now))
    }

    fn finalizers(&self, cx: &Context<'_, Self>, object: &Candidate, policy: usize) -> Option<Remark> {
        let policy = cx.state.policies.current(&self.policies).list.get(policy)?;
        Some(Remark::Finalizers {
            object: Key::of(object),
            uid: object.object.uid.clone(),
            policy: policy.name.clone(),
            finalizers: object.finalizers.clone()?,
        })
    }

    /// An object that its policy wants deleted now; the brake has the last word.
    fn reconcile_due(
        &self,
        cx: &Context<'_, Self>,
        object: &Candidate,
        index: usize,
        finish: Timestamp,
        due: Timestamp,
    ) -> Action<Self> {
        let (key, state) = (Key::of(object), &cx.state.policies);
        let all = state.current(&self.policies);
        let Some(policy) = all.list.get(index) else {
            return done(cx, &key, None, Requeue::Cancel);
        };
        let deletion = Deletion {
            kind: object.kind,
            object: object.object.key.clone(),
            uid: object.object.uid.clone(),
            version: object.object.version.clone(),
            finish,
            expiry: due,
            by: By::Policy {
                name: policy.name.clone(),
                failed: object.failed,
                allowed: state.memory(all, index, &key, server_date(cx)).allowed(all.grace),
            },
        };
        if let Some(max_per_hour) = policy.max_per_hour
            && cx.pass.outcome(&deletion).is_none()
            && !state.brakes.is_counted(&key, cx.now.uptime)
        {
            match state.brakes.room(&policy.name, max_per_hour, cx.now.uptime) {
                Room::Left => {}
                Room::Unsure => return done(cx, &key, None, Requeue::After(SOON)),
                Room::None => {
                    let engaged = Remark::BrakeEngaged {
                        policy: policy.name.clone(),
                        max_per_hour,
                        object: key.clone(),
                        uid: object.object.uid.clone(),
                    };
                    return done(cx, &key, Some(engaged), Requeue::Cancel);
                }
            }
        }
        delete(cx, &key, deletion)
    }
}
