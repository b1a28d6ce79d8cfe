//! The state, and which keys a change enqueues.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-6 | `State::forget`, `State::judged` | `tests/sync/replaced.rs::a_pod_of_the_same_name_is_judged_on_its_own` |
//! | TE-15 | `State` | `tests/sync/order.rs::many_waiting_pods_cost_one_timer` |

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use controller_core::cache::Change;
use controller_core::controller::{ContextMut, LoopEvent, Now, Output, Requeue, Watches};
use controller_core::log_throttle::LogThrottle;
use controller_core::meta::{ObjectKey, Uid};
use jiff::Timestamp;

use crate::TaintEvictionController;
use crate::brake::Brake;
use crate::clock::OurClock;
use crate::decide::{self, Judgement, KeepReason, Rules, Sight, TaintMemory, Tolerated, Verdict};
use crate::entry::Entry;
use crate::events::Event;
use crate::route::{self, PodChange as Route};
use crate::through::Through;
use crate::view::{NodeView, PodView, Toleration};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// Judge a node with all its pods.
    Node(Arc<str>),
    /// Judge a pod.
    Pod(ObjectKey),
    /// Decide for the brake.
    Brake,
    /// Show a pod to the brake when its time has come.
    Due(ObjectKey),
    /// Evict a pod when its time has come; with a brake, once that lets it go.
    Evict(ObjectKey),
    /// Try once more to evict a pod that a budget has refused.
    Again(ObjectKey),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => f.write_str(name),
            Self::Brake => f.write_str("brake"),
            Self::Pod(key) | Self::Due(key) | Self::Evict(key) | Self::Again(key) => key.fmt(f),
        }
    }
}

/// What the controller remembers between actions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    pub(crate) taints: TaintMemory,
    /// The number of each tainted node's last change: answers from before it do not count.
    node_changes: BTreeMap<Arc<str>, u64>,
    last_change: u64,
    pub(crate) clock: OurClock,
    /// When a pod was seen first, for pods whose binding is dated later than that, or not at all.
    first_sights: BTreeMap<ObjectKey, (Uid, Timestamp)>,
    /// We see what happens if both are true: we lead, and the watch of nodes is established.
    leading: bool,
    watching: bool,
    pub(crate) sight: Sight,
    /// The pods that must be evicted.
    evictions: BTreeMap<ObjectKey, Entry>,
    pub(crate) skew_named: LogThrottle<()>,
    /// The first pod with `Lt` or `Gt` although the gate is off.
    compares: Compares,
    pub(crate) brake: Brake,
    pub(crate) through: Through,
}

/// Whether a toleration with `Lt` or `Gt` was seen that our gate does not expect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Compares {
    #[default]
    None,
    /// This pod has one; nothing was logged yet.
    Seen(ObjectKey),
    Told,
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
            let now = state.clock.steady(cx.now);
            state.taints.observe(name, &node.taints, now);
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
            Route::Forget => cx.state.forget(&pod.key, cx.now, &mut cx.out),
            Route::Judge => {
                let now = cx.state.clock.steady(cx.now);
                cx.state.note_first_sight(pod, now);
                cx.state.note_comparison(pod, &self.rules);
                cx.state.tell_comparison(&mut cx.out);
                // If the node becomes tainted later, its key finds the pod in the store.
                if cx.state.taints.is_tainted(&pod.node) || cx.state.holds(&pod.key) {
                    cx.out.enqueue(Key::Pod(pod.key.clone()));
                }
            }
        }
    }
}

impl State {
    /// Handles every [`LoopEvent`]: all that happens besides changes of nodes and pods.
    pub(crate) fn observe(
        &mut self,
        event: LoopEvent<'_, TaintEvictionController>,
        rules: &Rules,
        now: Now,
        out: &mut Output<TaintEvictionController>,
    ) {
        match event {
            LoopEvent::Leading(leading) => {
                self.leading = leading;
                self.brake.turn(leading, now);
                if leading && self.brake.held() > 0 {
                    out.enqueue(Key::Brake);
                }
                self.through = Through::default();
                self.doubt_done(out);
            }
            LoopEvent::Resync => {
                self.look_again(now, out);
                return self.enqueue_tainted(out);
            }
            LoopEvent::Watching("nodes", stands) => self.watching = stands,
            LoopEvent::Synced | LoopEvent::Watching(..) | LoopEvent::SetBack | LoopEvent::Overdue(_) => {
                return;
            }
        }
        self.tell_comparison(out);
        let saw = self.sight.sees();
        let now = self.clock.steady(now);
        self.sight = if self.leading && self.watching {
            self.sight.regained(now)
        } else {
            self.sight.lost(now, rules)
        };
        // Which taint evicts a pod first depends on it.
        if self.sight.sees() != saw {
            self.enqueue_tainted(out);
        }
    }

    fn enqueue_tainted(&self, out: &mut Output<TaintEvictionController>) {
        for node in self.taints.tainted() {
            out.enqueue(Key::Node(Arc::clone(node)));
        }
    }

    /// The number of entries about objects; 0 once no object is left. For tests.
    pub fn held(&self) -> usize {
        self.taints.tainted().count()
            + self.node_changes.len()
            + self.first_sights.len()
            + self.evictions.len()
            + self.brake.held()
            + self.through.held()
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

    /// Retries evictions that are done while the cache still shows their pods: the answer that a pod is gone may have
    /// been wrong.
    fn doubt_done(&mut self, out: &mut Output<TaintEvictionController>) {
        for (pod, entry) in self.evictions.iter_mut().filter(|(_, entry)| entry.done) {
            entry.done = false;
            out.requeue(self.brake.first_key(pod), entry.requeue(&entry.pending));
        }
    }

    /// Retries all evictions, whose waits are by a clock that may have jumped back.
    fn look_again(&mut self, now: Now, out: &mut Output<TaintEvictionController>) {
        for (pod, entry) in &mut self.evictions {
            entry.forget_waits();
            out.requeue(self.brake.first_key(pod), entry.requeue(&entry.pending));
        }
        for (pod, requeue) in self.through.requeues(now) {
            out.requeue(Key::Again(pod.clone()), requeue);
        }
    }

    /// Warns of the toleration, but only from the leader.
    fn tell_comparison(&mut self, out: &mut Output<TaintEvictionController>) {
        if self.leading
            && let Compares::Seen(pod) = &self.compares
        {
            out.record(Event::Compares(pod.clone()));
            self.compares = Compares::Told;
        }
    }

    /// When this pod was seen first, or `now` if nothing depends on it.
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

    /// What earlier judgements of this pod left to remember.
    pub fn remembered(&self, pod: &PodView) -> &[Tolerated] {
        self.eviction_of(pod).map_or(&[], |entry| &entry.remembered)
    }

    /// True while the brake holds pods back.
    pub const fn is_braked(&self) -> bool {
        self.brake.engaged.is_some()
    }

    /// Returns whether the pod of this name must be evicted.
    pub fn holds(&self, pod: &ObjectKey) -> bool {
        self.evictions.contains_key(pod)
    }

    /// The eviction of this very pod, by its uid.
    pub(crate) fn eviction_of(&self, pod: &PodView) -> Option<&Entry> {
        self.evictions.get(&pod.key).filter(|entry| entry.uid == pod.uid)
    }

    /// Applies `change` to the eviction of the pod with this name and uid, if one exists.
    pub(crate) fn change_eviction(&mut self, pod: &ObjectKey, uid: &Uid, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.evictions.get_mut(pod).filter(|entry| entry.uid == *uid) {
            change(entry);
        }
    }

    /// True if `judgement` of the pod says nothing new. When to act on it depends on whether we see, and is not kept.
    pub(crate) fn knows(&self, pod: &PodView, judgement: &Judgement) -> bool {
        match (&judgement.verdict, self.eviction_of(pod)) {
            (Verdict::Keep(_), _) => !self.holds(&pod.key),
            (Verdict::Evict(_), None) => false,
            (Verdict::Evict(pending), Some(entry)) => {
                entry.pending.is_for_the_same(pending) && *entry.remembered == *judgement.remembered
            }
        }
    }

    /// Schedules or cancels the eviction of a pod that has been judged.
    pub fn judged(
        &mut self,
        pod: &Arc<PodView>,
        judgement: Judgement,
        now: Now,
        out: &mut Output<TaintEvictionController>,
    ) {
        let remembered = judgement.remembered.into();
        match judgement.verdict {
            Verdict::Keep(because) => {
                self.stop_waiting(&pod.key, because == KeepReason::BeingDeleted, now, out);
                let was = self.evictions.remove(&pod.key);
                self.cancel(&pod.key, out);
                // An entry of another pod with this name does not count for this one (TE-6).
                let was =
                    was.filter(|was| was.uid == pod.uid && !was.done && because != KeepReason::BeingDeleted);
                if let Some(Entry { pending, .. }) = was {
                    out.record(Event::Kept(Arc::clone(pod), pending));
                }
            }
            Verdict::Evict(pending) => {
                let known = self.evictions.remove(&pod.key);
                let known = known.filter(|entry| entry.uid == pod.uid);
                if !known
                    .as_ref()
                    .is_some_and(|known| known.pending.is_for_the_same(&pending))
                {
                    self.stop_waiting(&pod.key, false, now, out);
                }
                let new = || Entry {
                    uid: pod.uid.clone(),
                    remembered: Box::default(),
                    pending: pending.clone(),
                    done: false,
                    tries: None,
                };
                let entry = known.unwrap_or_else(new).judged_again(remembered, pending);
                out.requeue(self.brake.first_key(&pod.key), entry.requeue(&entry.pending));
                self.evictions.insert(pod.key.clone(), entry);
            }
        }
    }

    /// False once the pod is gone, is another one, or may stay.
    pub(crate) fn is_to_evict(&self, pod: &ObjectKey, uid: &Uid) -> bool {
        self.evictions.get(pod).is_some_and(|entry| entry.uid == *uid)
    }

    /// Drops all entries about a pod that is gone or on its way.
    fn forget(&mut self, pod: &ObjectKey, now: Now, out: &mut Output<TaintEvictionController>) {
        self.first_sights.remove(pod);
        self.stop_waiting(pod, true, now, out);
        if self.evictions.remove(pod).is_some() {
            self.cancel(pod, out);
        }
    }

    fn cancel(&self, pod: &ObjectKey, out: &mut Output<TaintEvictionController>) {
        out.requeue(Key::Evict(pod.clone()), Requeue::Cancel);
        if self.brake.is_on {
            out.requeue(Key::Due(pod.clone()), Requeue::Cancel);
        }
    }

    /// Nothing holds this pod back any more: it is gone, or stays.
    pub(crate) fn stop_waiting(
        &mut self,
        pod: &ObjectKey,
        is_gone: bool,
        now: Now,
        out: &mut Output<TaintEvictionController>,
    ) {
        if self.brake.left(pod, is_gone, now.uptime) {
            // Until it counts no more.
            out.enqueue(Key::Brake);
        }
        if self.through.left(pod) {
            out.requeue(Key::Again(pod.clone()), Requeue::Cancel);
        }
    }

    /// The eviction of this pod is next, now that the brake lets it go.
    pub(crate) fn wake(&self, pod: &ObjectKey, now: Now, out: &mut Output<TaintEvictionController>) {
        if let Some(entry) = self.evictions.get(pod) {
            // In the order of their deadlines; their passes know whether they must wait longer.
            out.requeue(Key::Evict(pod.clone()), Requeue::At(entry.pending.deadline));
            if let Some(refused) = self.through.of(pod, &entry.uid) {
                out.requeue(Key::Again(pod.clone()), refused.requeue(now));
            }
        }
    }

    /// The number of pods that wait for their eviction or are next, and of evictions that keep failing, and 1 while the
    /// brake holds evictions back; all 0 while this process does not lead.
    pub fn counts(&self) -> [i64; 3] {
        let mut counts = [0, 0, self.brake.engaged.is_some().into()];
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
