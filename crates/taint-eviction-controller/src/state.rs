//! What is remembered, and whom a change wakes.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-6 | `State::forget`, `State::judged` | `tests/sync/replaced.rs::a_pod_of_the_same_name_is_judged_on_its_own` |
//! | TE-15 | `State` | `tests/sync/order.rs::many_waiting_pods_cost_one_timer` |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controller_core::clock::saturating_add;
use controller_core::controller::{ContextMut, LoopEvent, Now, Output, Requeue, Watches};
use controller_core::informer::Change;
use controller_core::log_throttle::LogThrottle;
use controller_core::meta::{ObjectKey, Uid};
use jiff::{SignedDuration, Timestamp};

use crate::TaintEvictionController;
use crate::decide::{
    self, Because, Judgement, PendingEviction, Rules, Sight, TaintMemory, Tolerated, Verdict,
};
use crate::events::Event;
use crate::reconcile::Key;
use crate::route::{self, Effect as Route};
use crate::view::{NodeView, PodView, Toleration};

/// What is remembered between steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    pub(crate) taints: TaintMemory,
    /// Of each tainted node the number of its last change: what was asked before it says nothing.
    node_changes: BTreeMap<Arc<str>, u64>,
    last_change: u64,
    /// Of pods that are bound later than that, or nobody says when.
    first_sights: BTreeMap<ObjectKey, (Uid, Timestamp)>,
    /// Whether we see what happens: we lead, and the watch of the nodes stands.
    leading: bool,
    watching: bool,
    pub(crate) sight: Sight,
    /// The pods that are to be evicted.
    evictions: BTreeMap<ObjectKey, Entry>,
    /// How far our clock is ahead of the API server's, by the last read of a node that told.
    pub(crate) ahead: SignedDuration,
    pub(crate) skew_named: LogThrottle<()>,
    /// Of a pod whose toleration compares numbers, where none is expected.
    compares: Compares,
}

/// Whether tolerations with `Lt` or `Gt` are there that our gate does not expect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Compares {
    #[default]
    None,
    /// This pod has one, and nobody was told.
    Seen(ObjectKey),
    Told,
}

/// A pod that is to be evicted. It lives from the judgement that says so until the pod is kept or gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub(crate) uid: Uid,
    pub(crate) remembered: Box<[Tolerated]>,
    pub(crate) pending: PendingEviction,
    /// Nothing is left to do for it, although the cache still shows it.
    pub(crate) done: bool,
    /// Of a pod whose eviction has been tried: most wait for theirs, and cost no memory for it.
    tries: Option<Box<Tries>>,
}

/// How far an eviction has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tries {
    /// The event has been published.
    pub(crate) announced: bool,
    /// The condition has been written, or refused for good.
    pub(crate) marked: bool,
    failures: u32,
    first_failure: Option<Duration>,
    /// After a failure, not before then.
    not_before: Option<Timestamp>,
    /// Not before then either, for this taint and deadline.
    pub(crate) put_off: Option<Timestamp>,
}

impl Watches<NodeView> for TaintEvictionController {
    fn on_change(&self, cx: &mut ContextMut<'_, Self>, change: Change<'_, NodeView>) {
        let (Change::Added(node) | Change::Updated { new: node, .. } | Change::Deleted(node)) = change;
        let name = &node.key.name;
        let state = &mut *cx.state;
        state.last_change += 1;
        if let Change::Deleted(_) = change {
            state.taints.forget(name);
            state.node_changes.remove(name);
        } else {
            state.taints.observe(name, &node.taints, cx.now.wall);
            state.node_changes.insert(Arc::clone(name), state.last_change);
        }
        cx.out.enqueue(Key::Node(Arc::clone(name)));
    }
}

impl Watches<PodView> for TaintEvictionController {
    fn on_change(&self, cx: &mut ContextMut<'_, Self>, change: Change<'_, PodView>) {
        let (Change::Added(pod) | Change::Updated { new: pod, .. } | Change::Deleted(pod)) = change;
        match route::effect_of(&change) {
            Route::Nothing => {}
            Route::Forget => cx.state.forget(&pod.key, &mut cx.out),
            Route::Judge => {
                cx.state.note_first_sight(pod, cx.now.wall);
                cx.state.note_comparison(pod, &self.rules);
                cx.state.tell_comparison(&mut cx.out);
                // A node that is tainted after this look finds the pod in the store.
                if cx.state.taints.is_tainted(&pod.node) || cx.state.holds(&pod.key) {
                    cx.out.enqueue(Key::Pod(pod.key.clone()));
                }
            }
        }
    }
}

impl State {
    /// Something besides a node or a pod has changed.
    pub(crate) fn observe(
        &mut self,
        observed: LoopEvent<'_, TaintEvictionController>,
        rules: &Rules,
        now: Timestamp,
        out: &mut Output<TaintEvictionController>,
    ) {
        match observed {
            LoopEvent::Leading(leading) => {
                self.leading = leading;
                self.doubt_done(out);
            }
            LoopEvent::Resync => return self.doubt_done(out),
            LoopEvent::Watching("nodes", stands) => self.watching = stands,
            LoopEvent::Synced | LoopEvent::Watching(..) | LoopEvent::Overdue(_) => return,
        }
        self.tell_comparison(out);
        let saw = self.sight.sees();
        self.sight = if self.leading && self.watching {
            self.sight.regained(now)
        } else {
            self.sight.lost(now, rules)
        };
        if self.sight.sees() && !saw {
            for node in self.taints.tainted() {
                out.enqueue(Key::Node(Arc::clone(node)));
            }
        }
    }

    /// How much of it is about objects: 0 once there are none; for tests.
    pub fn held(&self) -> usize {
        self.taints.tainted().count()
            + self.node_changes.len()
            + self.first_sights.len()
            + self.evictions.len()
    }

    fn note_first_sight(&mut self, pod: &PodView, now: Timestamp) {
        if decide::first_sight_counts(pod, now) {
            let seen = || (pod.uid.clone(), now);
            let known = self.first_sights.entry(pod.key.clone()).or_insert_with(seen);
            if known.0 != pod.uid {
                *known = seen();
            }
        }
    }

    fn note_comparison(&mut self, pod: &PodView, rules: &Rules) {
        if self.compares == Compares::None
            && !rules.comparison_operators
            && pod.tolerations.iter().any(Toleration::compares)
        {
            self.compares = Compares::Seen(pod.key.clone());
        }
    }

    /// What was done and is still shown is done again: whoever said that the pod is gone may have been wrong.
    fn doubt_done(&mut self, out: &mut Output<TaintEvictionController>) {
        for (pod, entry) in self.evictions.iter_mut().filter(|(_, entry)| entry.done) {
            entry.done = false;
            out.requeue(Key::Evict(pod.clone()), entry.wake(&entry.pending));
        }
    }

    /// Warns of it, by the leader alone.
    fn tell_comparison(&mut self, out: &mut Output<TaintEvictionController>) {
        if self.leading
            && let Compares::Seen(pod) = &self.compares
        {
            out.record(Event::Compares(pod.clone()));
            self.compares = Compares::Told;
        }
    }

    /// When this pod was seen first, as far as that counts.
    pub(crate) fn first_sight(&self, pod: &PodView, now: Timestamp) -> Timestamp {
        let known = self.first_sights.get(&pod.key);
        known
            .filter(|(uid, _)| *uid == pod.uid)
            .map_or(now, |(_, at)| *at)
    }

    /// The number of the last change of this node.
    pub(crate) fn change_of(&self, node: &str) -> u64 {
        self.node_changes.get(node).copied().unwrap_or(0)
    }

    /// What the judgements of this pod have left to remember.
    pub fn remembered(&self, pod: &PodView) -> &[Tolerated] {
        self.eviction_of(pod).map_or(&[], |entry| &entry.remembered)
    }

    /// Whether the pod of this name is to be evicted.
    pub fn holds(&self, pod: &ObjectKey) -> bool {
        self.evictions.contains_key(pod)
    }

    /// What is known of the eviction of just this pod.
    pub(crate) fn eviction_of(&self, pod: &PodView) -> Option<&Entry> {
        self.evictions.get(&pod.key).filter(|entry| entry.uid == pod.uid)
    }

    /// Lets `change` at the eviction of the pod of this name and uid, if there is one.
    pub(crate) fn change_eviction(&mut self, pod: &ObjectKey, uid: &Uid, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.evictions.get_mut(pod).filter(|entry| entry.uid == *uid) {
            change(entry);
        }
    }

    /// Whether `judgement` of the pod says nothing new. When to act on it depends on whether we see, and is not kept.
    pub(crate) fn knows(&self, pod: &PodView, judgement: &Judgement) -> bool {
        match (&judgement.verdict, self.eviction_of(pod)) {
            (Verdict::Keep(_), _) => !self.holds(&pod.key),
            (Verdict::Evict(_), None) => false,
            (Verdict::Evict(pending), Some(entry)) => {
                entry.pending.is_for_the_same(pending) && *entry.remembered == *judgement.remembered
            }
        }
    }

    /// The pod has been judged: its eviction is scheduled or cancelled.
    pub fn judged(
        &mut self,
        pod: &Arc<PodView>,
        judgement: Judgement,
        out: &mut Output<TaintEvictionController>,
    ) {
        let remembered = judgement.remembered.into();
        match judgement.verdict {
            Verdict::Keep(because) => {
                let was = self.evictions.remove(&pod.key);
                out.requeue(Key::Evict(pod.key.clone()), Requeue::Cancel);
                // Another pod of this name left nothing that counts for this one (TE-6).
                let was =
                    was.filter(|was| was.uid == pod.uid && !was.done && because != Because::BeingDeleted);
                if let Some(Entry { pending, .. }) = was {
                    out.record(Event::Kept(Arc::clone(pod), pending));
                }
            }
            Verdict::Evict(pending) => {
                let known = self.evictions.remove(&pod.key);
                let known = known.filter(|entry| entry.uid == pod.uid);
                let new = || Entry {
                    uid: pod.uid.clone(),
                    remembered: Box::default(),
                    pending: pending.clone(),
                    done: false,
                    tries: None,
                };
                let entry = known.unwrap_or_else(new).judged_again(remembered, pending);
                out.requeue(Key::Evict(pod.key.clone()), entry.wake(&entry.pending));
                self.evictions.insert(pod.key.clone(), entry);
            }
        }
    }

    /// The pod is gone or on its way: nothing of it is left behind.
    fn forget(&mut self, pod: &ObjectKey, out: &mut Output<TaintEvictionController>) {
        self.first_sights.remove(pod);
        if self.evictions.remove(pod).is_some() {
            out.requeue(Key::Evict(pod.clone()), Requeue::Cancel);
        }
    }

    /// How many pods wait for their eviction or are next, and how many evictions keep failing; none while this process
    /// does not lead.
    pub fn counts(&self) -> [i64; 2] {
        let mut counts = [0; 2];
        for entry in self
            .evictions
            .values()
            .filter(|entry| self.leading && !entry.done)
        {
            counts[usize::from(decide::is_overdue(entry.failures()))] += 1;
        }
        counts
    }
}

impl Entry {
    fn judged_again(mut self, remembered: Box<[Tolerated]>, pending: PendingEviction) -> Self {
        if !self.pending.is_for_the_same(&pending)
            && let Some(tries) = &mut self.tries
        {
            tries.put_off = None;
        }
        Self {
            remembered,
            pending,
            ..self
        }
    }

    /// When to evict the pod for what is `pending` now, waits after failures included; `None` while we see nothing.
    pub(crate) fn at(&self, pending: &PendingEviction) -> Option<Timestamp> {
        let is_same = self.pending.is_for_the_same(pending);
        let tries = self.tries.iter();
        let later = tries.flat_map(|tries| [tries.not_before, tries.put_off.filter(|_| is_same)]);
        pending.at.map(|at| later.flatten().fold(at, Timestamp::max))
    }

    /// When to ask about its eviction, for what is `pending` now.
    pub(crate) fn wake(&self, pending: &PendingEviction) -> Requeue {
        let at = self.at(pending).filter(|_| !self.done);
        at.map_or(Requeue::Cancel, Requeue::At)
    }

    pub(crate) fn tries(&mut self) -> &mut Tries {
        self.tries.get_or_insert_default()
    }

    pub(crate) fn is_marked(&self) -> bool {
        self.tries.as_ref().is_some_and(|tries| tries.marked)
    }

    fn failures(&self) -> u32 {
        self.tries.as_ref().map_or(0, |tries| tries.failures)
    }

    /// A try failed, and the API server asks to wait at least `wait` (TE-10). Returns how often it has failed.
    pub(crate) fn failed(&mut self, wait: Duration, now: Now) -> u32 {
        let tries = self.tries();
        tries.failures = tries.failures.saturating_add(1);
        let first = *tries.first_failure.get_or_insert(now.uptime);
        let backoff = decide::retry_wait(tries.failures, now.uptime.saturating_sub(first));
        tries.not_before = Some(saturating_add(now.wall, backoff.max(wait)));
        tries.failures
    }
}
