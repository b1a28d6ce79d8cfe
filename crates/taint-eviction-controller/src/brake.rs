//! What the brake remembers: the pods that wait for it, and those that have gone within the window.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-18 | `Brake` | `tests/sync/brake.rs::a_trickle_stops_at_the_limit_and_goes_on_as_the_window_moves`, `tests/sync/brake.rs::a_delete_without_an_answer_counts_once_the_pod_is_gone`, `tests/sync/brake.rs::a_hold_that_ended_by_itself_lets_no_later_mistake_go`, `tests/sync/brake.rs::each_pod_has_been_due_for_two_seconds_before_it_goes` |

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use controller_core::controller::Now;
use controller_core::meta::{ObjectKey, Uid};
use controller_core::metrics::Samples;
use controller_core::time::saturating_add;
use jiff::Timestamp;

use crate::decide::{Because, PodsAndNodes};
use crate::state::Key;
use crate::view::PodView;

/// How long after a pod is due the brake decides on it: what makes many pods due does so within this time.
pub const DECIDES_AFTER: Duration = Duration::from_secs(2);
/// How often the brake looks again while it holds pods back.
pub const LOOKS_AGAIN: Duration = Duration::from_secs(5);
/// For how long ahead a leader says on the Lease that it may evict.
pub const SAYS_AHEAD: Duration = Duration::from_secs(90);
/// A delete takes effect within this time of being sent, or never: then the client gives up.
pub const EFFECT_WITHIN: Duration = Duration::from_secs(30);
/// Pods are let go only if they have this much time until the last delete.
const LEAVES_ENOUGH: Duration = Duration::from_secs(15);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Brake {
    /// There is a limit.
    pub(crate) is_on: bool,
    waiting: BTreeMap<ObjectKey, Waiting>,
    /// When pods went within the window, or go at the latest, by uptime, oldest first, and from which nodes.
    evicted: VecDeque<(Duration, Arc<str>)>,
    /// How many of `waiting` and `evicted` each node has.
    nodes: BTreeMap<Arc<str>, usize>,
    pub(crate) engaged: Option<Engaged>,
    /// The held pods were released, and the demand has exceeded the limits since then.
    pub(crate) released: bool,
    /// What this term has written on the Lease.
    pub(crate) noted: Note,
    /// The times that this process has written, or may have.
    ours: BTreeSet<Timestamp>,
    /// Since when this process leads, by uptime.
    pub(crate) leading_since: Duration,
    /// The limits at the last decision.
    pub(crate) limits: Option<PodsAndNodes>,
    /// The annotation that was refused, which is reported once.
    pub(crate) refused: Option<String>,
    /// Reported: until then nobody knows what another leader has evicted.
    pub(crate) waits_until: Option<Timestamp>,
}

/// Pods are held back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Engaged {
    pub(crate) since: Now,
    /// The nodes that have an event about it.
    told: BTreeSet<Arc<str>>,
}

/// What a leader says of its brake, as annotations of the Lease. Times are by the API server's clock, which no other
/// process can mistake.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Note {
    /// Until when it may evict; `None` before it lets anything go.
    pub evicting_until: Option<Timestamp>,
    /// Since when it holds pods back.
    pub engaged_since: Option<Timestamp>,
    /// The same as `evicting_until` for this process: the last delete is sent by then, in uptime, which never jumps.
    pub last_delete: Duration,
}

/// The API server's time, and when it was asked for it, in uptime.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) time: Timestamp,
    pub(crate) at: Duration,
}

/// A pod that is due.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    uid: Uid,
    node: Arc<str>,
    /// When it was due, by uptime.
    due: Duration,
    is_admitted: bool,
    /// Deletes that the API server has, or may have, carried out.
    deletes: u32,
    /// When the last of them was sent, by uptime.
    sent: Duration,
}

/// What the brake says of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The brake does not know the pod yet.
    Unknown,
    /// It was let go, and that counts no more: the brake must decide again.
    Expired,
    /// It waits for the brake's next decision.
    Waits,
    /// It may go.
    Admitted,
}

impl Waiting {
    /// When the brake decides on it, by uptime; `None` if it has.
    fn decided_at(&self) -> Option<Duration> {
        (!self.is_admitted).then(|| self.due.saturating_add(DECIDES_AFTER))
    }
}

impl Brake {
    /// The key of a pod whose time has come: the brake sees it before its eviction is paced, or its node read.
    pub(crate) fn first_key(&self, pod: &ObjectKey) -> Key {
        if self.is_on {
            Key::Due(pod.clone())
        } else {
            Key::Evict(pod.clone())
        }
    }

    /// What is known of this pod.
    pub(crate) fn admission(&self, pod: &PodView, has_lease: bool, now: Duration) -> Admission {
        let may_evict = !has_lease || now < self.noted.last_delete;
        match self.waiting.get(&pod.key).filter(|known| known.uid == pod.uid) {
            Some(known) if !known.is_admitted => Admission::Waits,
            Some(_) if may_evict => Admission::Admitted,
            Some(_) => Admission::Expired,
            None => Admission::Unknown,
        }
    }

    /// The pod is due.
    pub(crate) fn due(&mut self, pod: &PodView, now: Duration) {
        let known = self.waiting.get_mut(&pod.key);
        if let Some(known) = known.filter(|known| known.uid == pod.uid) {
            known.is_admitted = false;
            return;
        }
        self.left(&pod.key, true, now);
        // What is due from now on is another mistake.
        let demand = self.demand();
        self.released &= !self.limits.is_some_and(|limits| demand.is_within(limits));
        *self.nodes.entry(Arc::clone(&pod.node)).or_default() += 1;
        let waiting = Waiting {
            uid: pod.uid.clone(),
            node: Arc::clone(&pod.node),
            due: now,
            is_admitted: false,
            deletes: 0,
            sent: Duration::ZERO,
        };
        self.waiting.insert(pod.key.clone(), waiting);
    }

    /// A delete of this pod is being sent.
    pub(crate) fn sending(&mut self, pod: &ObjectKey, uid: &Uid, now: Duration) {
        if let Some(known) = self.waiting.get_mut(pod).filter(|known| known.uid == *uid) {
            known.deletes = known.deletes.saturating_add(1);
            known.sent = now;
        }
    }

    /// The API server has refused a delete of this pod.
    pub(crate) fn refused(&mut self, pod: &ObjectKey, uid: &Uid) {
        if let Some(known) = self.waiting.get_mut(pod).filter(|known| known.uid == *uid) {
            known.deletes = known.deletes.saturating_sub(1);
        }
    }

    /// The pod is gone, or stays: it counts on only if we may have deleted it. Returns whether it does. As long as the
    /// pod is there, a delete that was sent may still come.
    pub(crate) fn left(&mut self, pod: &ObjectKey, is_gone: bool, now: Duration) -> bool {
        let Some(known) = self.waiting.remove(pod) else {
            return false;
        };
        let counts_on = known.deletes > 0;
        if counts_on {
            let at = if is_gone {
                now
            } else {
                now.max(known.sent + EFFECT_WITHIN)
            };
            let place = self.evicted.partition_point(|(other, _)| *other <= at);
            self.evicted.insert(place, (at, known.node));
        } else {
            self.leave_node(&known.node);
        }
        counts_on
    }

    /// Forgets the pods that went longer than `window` ago.
    pub(crate) fn expire(&mut self, window: Duration, now: Duration) {
        while let Some((_, node)) = self.evicted.pop_front_if(|(at, _)| *at + window <= now) {
            self.leave_node(&node);
        }
    }

    /// How long until a pod that has gone counts no more.
    pub(crate) fn expires_in(&self, window: Duration, now: Duration) -> Option<Duration> {
        let (at, _) = self.evicted.front()?;
        Some((*at + window).saturating_sub(now))
    }

    fn leave_node(&mut self, node: &Arc<str>) {
        if let Some(pods) = self.nodes.get_mut(node) {
            *pods -= 1;
            if *pods == 0 {
                self.nodes.remove(node);
            }
        }
    }

    /// Pods that are due, may go now, or have gone within the window.
    pub fn demand(&self) -> PodsAndNodes {
        PodsAndNodes {
            pods: self.waiting.len() + self.evicted.len(),
            nodes: self.nodes.len(),
        }
    }

    /// How long until there is a pod to decide on; zero if there is one.
    pub(crate) fn decides_in(&self, now: Duration) -> Option<Duration> {
        let undecided = self.waiting.values().filter_map(Waiting::decided_at);
        undecided.min().map(|at| at.saturating_sub(now))
    }

    /// What has been due for long enough may go; returns those pods.
    pub(crate) fn admit(&mut self, because: Because, now: Duration) -> Vec<ObjectKey> {
        self.released = because == Because::HeldLongEnough;
        self.engaged = None;
        let waiting = self.waiting.iter_mut();
        let decided = waiting.filter(|(_, pod)| pod.decided_at().is_some_and(|at| at <= now));
        decided
            .map(|(key, pod)| {
                pod.is_admitted = true;
                key.clone()
            })
            .collect()
    }

    /// Holds back whatever waits; returns the nodes whose pods are held back and that have no event about it.
    pub(crate) fn engage(&mut self, now: Now) -> Vec<Arc<str>> {
        let told = BTreeSet::new();
        let engaged = self.engaged.get_or_insert(Engaged { since: now, told });
        let held = self.waiting.values().filter(|pod| !pod.is_admitted);
        let nodes = held.map(|pod| &pod.node);
        nodes
            .filter(|node| engaged.told.insert(Arc::clone(node)))
            .cloned()
            .collect()
    }

    /// True if [`engage`](Self::engage) would change something.
    pub(crate) fn is_news(&self) -> bool {
        let Some(engaged) = &self.engaged else { return true };
        let mut held = self.waiting.values().filter(|pod| !pod.is_admitted);
        held.any(|pod| !engaged.told.contains(&pod.node))
    }

    /// A term has begun or ended.
    pub(crate) fn turn(&mut self, leading: bool, now: Now) {
        let pods: Vec<_> = self.waiting.keys().cloned().collect();
        for pod in &pods {
            self.left(pod, false, now.uptime);
        }
        self.engaged = None;
        self.released = false;
        self.noted = Note::default();
        if leading {
            self.leading_since = now.uptime;
        }
    }

    /// A note is being written.
    pub(crate) fn noting(&mut self, note: &Note) {
        self.ours.extend(note.evicting_until);
    }

    /// The Lease has this note.
    pub(crate) fn noted(&mut self, note: &Note) {
        // The Lease was read before this write.
        let read = std::mem::replace(&mut self.noted, note.clone());
        let both = [read.evicting_until, note.evicting_until];
        self.ours.retain(|until| both.contains(&Some(*until)));
    }

    /// True if this process wrote that time.
    pub(crate) fn is_ours(&self, until: Timestamp) -> bool {
        self.ours.contains(&until)
    }

    /// For the metrics: the demand and the limits, of pods and of nodes; nothing without a brake.
    pub(crate) fn samples(&self) -> Vec<Samples> {
        let Some(limits) = self.limits else {
            return vec![vec![]; 2];
        };
        let samples = |counts: PodsAndNodes| {
            let kinds = [("pods", counts.pods), ("nodes", counts.nodes)];
            let limited = kinds.into_iter().zip([limits.pods, limits.nodes]);
            let limited = limited.filter(|(_, limit)| *limit != usize::MAX);
            let sample = |((kind, count), _)| {
                (
                    vec![Cow::Borrowed(kind)],
                    i64::try_from(count).unwrap_or(i64::MAX),
                )
            };
            limited.map(sample).collect()
        };
        vec![samples(self.demand()), samples(limits)]
    }

    /// The number of entries about objects.
    pub(crate) fn held(&self) -> usize {
        self.waiting.len() + self.evicted.len()
    }
}

impl Note {
    /// The note of a leader that lets pods go at `now`; the times of this one, as long as they leave enough time.
    pub(crate) fn renewed(&self, asked: Asked, now: Duration) -> Self {
        let (evicting_until, last_delete) = if now + LEAVES_ENOUGH < self.last_delete {
            (self.evicting_until, self.last_delete)
        } else {
            let until = saturating_add(asked.time, SAYS_AHEAD);
            (Some(until), asked.at + SAYS_AHEAD.saturating_sub(EFFECT_WITHIN))
        };
        Self {
            evicting_until,
            last_delete,
            engaged_since: None,
        }
    }
}
