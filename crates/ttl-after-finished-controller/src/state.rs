//! The state, and which keys a change enqueues.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TAF-6 | `on_change` | `tests/sync/expiry.rs::the_pending_time_moves_with_the_ttl`, `tests/route_table.rs::a_changed_job_is_judged` |
//! | TAF-9 | `on_change`, `State::forget` | `tests/sync/expiry.rs::a_deleted_job_leaves_nothing_behind`, `tests/properties.rs::every_run_ends_with_no_expired_job` |

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use controller_core::cache::Change;
use controller_core::controller::{ContextMut, LoopEvent, Requeue, Watches};
use controller_core::meta::ObjectKey;

use crate::events::{Event, Remark};
use crate::policy::state::PolicyState;
use crate::policy::view::{Candidate, InNamespace, NamespaceView};
use crate::policy::{FinishedKind, Policies};
use crate::view::JobView;
use crate::{Stores, TtlAfterFinishedController};

/// How often the log says that our clock is ahead of the API server's.
const SKEW_NAMED_EVERY: Duration = Duration::from_mins(10);

/// A Job or a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub kind: FinishedKind,
    pub object: ObjectKey,
}

/// What the controller remembers between actions. When each Job expires is in the queue alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    pub policies: PolicyState,
    /// Objects whose [`Remark::Undated`] was made.
    undated: BTreeSet<Key>,
    /// Objects whose [`Remark::Ahead`] was made.
    ahead: BTreeSet<Key>,
    /// Objects whose [`Remark::Finalizers`] was made.
    finalizers: BTreeSet<Key>,
    /// When [`Remark::Skewed`] was made last.
    skew_named: Option<Duration>,
}

/// A change of the state that needs no request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateChange {
    /// The remark is made.
    Remark(Remark),
    /// The config file has these policies.
    Policies(Arc<Policies>),
}

impl Key {
    /// The key of a Job.
    pub const fn job(object: ObjectKey) -> Self {
        Self {
            kind: FinishedKind::Job,
            object,
        }
    }

    pub fn of(object: &Candidate) -> Self {
        Self {
            kind: object.kind,
            object: object.object.key.clone(),
        }
    }
}

/// A Job prints as `namespace/name`.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            FinishedKind::Job => self.object.fmt(f),
            FinishedKind::Pod => write!(f, "pod/{}", self.object),
        }
    }
}

impl Watches<JobView> for TtlAfterFinishedController {
    fn on_change(&self, cx: &mut ContextMut<'_, Self>, change: Change<'_, JobView>) {
        let (Change::Added(job) | Change::Updated { new: job, .. } | Change::Deleted(job)) = change;
        let is_gone = matches!(change, Change::Deleted(_));
        changed(cx, Key::job(job.key.clone()), is_gone);
    }
}

impl Watches<Candidate> for TtlAfterFinishedController {
    fn on_change(&self, cx: &mut ContextMut<'_, Self>, change: Change<'_, Candidate>) {
        let (old, new) = sides(&change);
        let Some(object) = new.or(old) else {
            return;
        };
        let policies = Arc::clone(cx.state.policies.current(&self.policies));
        let namespace = namespace_of(cx.stores, &object.object.key);
        let others = &mut cx.state.policies;
        let others = others.candidate_changed(&policies, (old, new), namespace.as_deref(), cx.now);
        changed(cx, Key::of(object), new.is_none());
        enqueue(cx, others);
    }
}

impl Watches<NamespaceView> for TtlAfterFinishedController {
    fn on_change(&self, cx: &mut ContextMut<'_, Self>, change: Change<'_, NamespaceView>) {
        let (old, new) = sides(&change);
        let Some(namespace) = new.or(old) else {
            return;
        };
        let policies = Arc::clone(cx.state.policies.current(&self.policies));
        let inside = InNamespace(Arc::clone(&namespace.key.name));
        for kind in [FinishedKind::Job, FinishedKind::Pod] {
            let objects = cx.stores.candidates_of(kind).by_index(&inside);
            let state = &mut cx.state.policies;
            let others = state.namespace_changed(&policies, (old, new), &objects, cx.now);
            enqueue(cx, others);
        }
    }
}

/// The object before and after a change.
fn sides<'a, V>(change: &Change<'a, V>) -> (Option<&'a V>, Option<&'a V>) {
    match *change {
        Change::Added(new) => (None, Some(new)),
        Change::Updated { old, new } => (Some(old), Some(new)),
        Change::Deleted(old) => (Some(old), None),
    }
}

/// The namespace of an object, as far as it is known.
pub(crate) fn namespace_of(stores: &Stores, object: &ObjectKey) -> Option<Arc<NamespaceView>> {
    let name = object.namespace.clone()?;
    stores.namespaces.get(&ObjectKey::cluster(name))
}

fn changed(cx: &mut ContextMut<'_, TtlAfterFinishedController>, key: Key, is_gone: bool) {
    // The previous state of the object says nothing about its expiry now.
    cx.out.requeue(key.clone(), Requeue::Cancel);
    if is_gone {
        cx.state.forget(&key);
    } else if cx.leading {
        cx.out.enqueue(key);
    }
}

fn enqueue(cx: &mut ContextMut<'_, TtlAfterFinishedController>, keys: Vec<Key>) {
    for key in keys.into_iter().filter(|_| cx.leading) {
        cx.out.enqueue(key);
    }
}

/// Handles every [`LoopEvent`]: all that happens besides changes of objects. A standby schedules no object.
pub(crate) fn observe(
    controller: &TtlAfterFinishedController,
    cx: &mut ContextMut<'_, TtlAfterFinishedController>,
    event: LoopEvent<'_, TtlAfterFinishedController>,
) {
    if let LoopEvent::Leading(true) = event {
        let grace = cx.state.policies.current(&controller.policies).grace;
        cx.state.policies.lead(grace, cx.now.uptime);
    }
    let requeue = match event {
        LoopEvent::Leading(true) | LoopEvent::Resync => Requeue::Now,
        LoopEvent::Leading(false) => Requeue::Cancel,
        // The file may have changed since the start.
        LoopEvent::Synced => return begin(cx, &Arc::clone(cx.state.policies.current(&controller.policies))),
        LoopEvent::Watching(..) | LoopEvent::SetBack | LoopEvent::Overdue(_) => return,
    };
    requeue_all(cx, requeue);
}

/// Takes the policies of a changed file. The same ones again change nothing.
pub(crate) fn take(cx: &mut ContextMut<'_, TtlAfterFinishedController>, policies: &Arc<Policies>) {
    if cx.state.policies.loaded() == Some(policies) {
        return;
    }
    begin(cx, policies);
    cx.out.record(Event::PoliciesChanged(policies.list.len()));
    if cx.leading {
        requeue_all(cx, Requeue::Now);
    }
}

fn begin(cx: &mut ContextMut<'_, TtlAfterFinishedController>, policies: &Arc<Policies>) {
    let objects = cx.stores.candidates.iter().chain(cx.stores.pods.iter());
    let objects = objects.map(|object| (&**object, namespace_of(cx.stores, &object.object.key)));
    cx.state.policies.begin(policies, cx.now, objects);
}

fn requeue_all(cx: &mut ContextMut<'_, TtlAfterFinishedController>, requeue: Requeue) {
    for job in cx.stores.jobs.snapshot() {
        cx.out.requeue(Key::job(job.key.clone()), requeue);
    }
    let objects = cx.stores.candidates.iter().chain(cx.stores.pods.iter());
    for object in objects {
        cx.out.requeue(Key::of(object), requeue);
    }
}

impl State {
    /// Returns whether `remark` was made and must not be repeated yet.
    pub(crate) fn has_made(&self, remark: &Remark, now: Duration) -> bool {
        match remark {
            Remark::Undated(object, _) => self.undated.contains(object),
            Remark::Ahead(object, _) => self.ahead.contains(object),
            Remark::Finalizers { object, .. } => self.finalizers.contains(object),
            Remark::BrakeEngaged { policy, .. } => self.policies.brakes.is_engaged(policy),
            Remark::Skewed(..) => self
                .skew_named
                .is_some_and(|named| now.saturating_sub(named) < SKEW_NAMED_EVERY),
        }
    }

    /// Remembers that `remark` has been made.
    pub(crate) fn make(&mut self, remark: &Remark, now: Duration) {
        match remark {
            Remark::Undated(object, _) => {
                self.undated.insert(object.clone());
            }
            Remark::Ahead(object, _) => {
                self.ahead.insert(object.clone());
            }
            Remark::Finalizers { object, .. } => {
                self.finalizers.insert(object.clone());
            }
            Remark::BrakeEngaged { policy, .. } => self.policies.brakes.engage(policy),
            Remark::Skewed(..) => self.skew_named = Some(now),
        }
    }

    /// Each policy, and whether its brake is engaged.
    pub fn brakes(&self) -> Vec<(Arc<str>, bool)> {
        let policies = self.policies.loaded().map(|policies| policies.list.iter());
        let names = policies.into_iter().flatten().map(|policy| &policy.name);
        names
            .map(|name| (Arc::clone(name), self.policies.brakes.is_engaged(name)))
            .collect()
    }

    /// The number of entries about objects; 0 once no object is left. For tests.
    pub fn held(&self) -> usize {
        self.undated.len() + self.ahead.len() + self.finalizers.len() + self.policies.held()
    }

    fn forget(&mut self, key: &Key) {
        self.undated.remove(key);
        self.ahead.remove(key);
        self.finalizers.remove(key);
    }
}
