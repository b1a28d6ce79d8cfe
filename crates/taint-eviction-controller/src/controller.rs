//! The loop: change → node or pod → views → judge → agenda. Judging needs no term, for it writes nothing: a
//! standby judges too, and knows what a leader knows when it becomes one.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-12 | `Lanes` | `src/controller.rs::a_node_and_its_pods_go_to_one_worker_the_node_first` |

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use controller_core::clock::Clock;
use controller_core::informer::{Change, Handler, InformerState, Store};
use controller_core::leader::Term;
use controller_core::meta::{ObjectKey, Uid};
use controller_core::runtime::Env;
use controller_core::workers::{Lane, Next, Reconciler, SyncFailures};
use controller_core::workqueue::WorkQueue;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::agenda::{Agenda, Step};
use crate::apply::Apply;
use crate::config::Config;
use crate::decide::{self, Eviction, Now, Rules, Seen, Sight, TaintMemory, Verdict};
use crate::live::{LiveNodes, Reading};
use crate::metrics::{Counts, Evictions};
use crate::notes::Notes;
use crate::route::{self, Wake};
use crate::view::{NodeView, PodView};

/// Evicts pods from nodes whose `NoExecute` taints they do not tolerate.
pub struct Controller {
    pub(crate) clock: Clock,
    rules: Rules,
    pub(crate) pods: Store<PodView>,
    lanes: Lanes,
    taints: Mutex<TaintMemory>,
    /// Of pods that are bound later than that, or nobody says when.
    first_sights: Mutex<HashMap<ObjectKey, (Uid, Timestamp)>>,
    looking: Mutex<Looking>,
    leading: AtomicBool,
    pub(crate) agenda: Agenda,
    pub(crate) live: LiveNodes,
    pub(crate) apply: Apply,
    evictions: Evictions,
    pub(crate) failures: SyncFailures,
    pub(crate) notes: Notes,
}

/// What is judged: a pod, or a node with all its pods.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// By name.
    Node(Arc<str>),
    /// By namespace and name.
    Pod(ObjectKey),
}

/// The queues: two for each worker, nodes before pods (TE-12).
#[derive(Clone, Debug)]
pub struct Lanes(Vec<Lane<Key>>);

/// Whether we see what happens.
struct Looking {
    leading: bool,
    /// The watch of the nodes stands.
    watching: bool,
    sight: Sight,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => f.write_str(name),
            Self::Pod(key) => key.fmt(f),
        }
    }
}

impl Lanes {
    /// `workers` pairs of queues, made by `nodes` and `pods`.
    pub fn new(
        workers: usize,
        nodes: impl Fn() -> WorkQueue<Key>,
        pods: impl Fn() -> WorkQueue<Key>,
    ) -> Self {
        Self((0..workers).map(|_| Lane(vec![nodes(), pods()])).collect())
    }

    /// For the workers.
    pub fn all(&self) -> &[Lane<Key>] {
        &self.0
    }

    fn add(&self, node: &str, key: Key) {
        let urgency = match key {
            Key::Node(_) => 0,
            Key::Pod(_) => 1,
        };
        let lane = self.0.get(route::shard(node, self.0.len()));
        if let Some(queue) = lane.and_then(|lane| lane.0.get(urgency)) {
            queue.add(key);
        }
    }
}

impl Handler<NodeView> for Controller {
    fn on_change(&self, change: Change<'_, NodeView>, _: &Store<NodeView>) {
        let (Change::Added(node) | Change::Updated { new: node, .. } | Change::Deleted(node)) = change;
        let name = &node.key.name;
        match change {
            Change::Deleted(_) => self.taints.lock().forget(name),
            Change::Added(new) | Change::Updated { new, .. } => {
                let now = self.clock.now();
                self.taints.lock().observe(name, &new.taints, now);
            }
        }
        self.live.forget(name);
        self.lanes.add(name, Key::Node(Arc::clone(name)));
    }
}

impl Handler<PodView> for Controller {
    fn on_change(&self, change: Change<'_, PodView>, _: &Store<PodView>) {
        let wake = route::wake(&change);
        let (Change::Added(pod) | Change::Updated { new: pod, .. } | Change::Deleted(pod)) = change;
        match wake {
            Wake::Nothing => {}
            Wake::Forget => {
                self.agenda.forget(&pod.key);
                self.first_sights.lock().remove(&pod.key);
            }
            Wake::Judge => {
                self.note_first_sight(pod);
                // A node that is tainted after this look finds the pod in the store.
                if self.taints.lock().is_tainted(&pod.node) || self.agenda.holds(&pod.key) {
                    self.lanes.add(&pod.node, Key::Pod(pod.key.clone()));
                }
            }
        }
    }
}

impl Reconciler for Controller {
    type Key = Key;
    type Error = Infallible;

    fn begin(&self) {
        self.judge_all();
    }

    fn end(&self) {}

    async fn sync(&self, key: &Key, _: &Term) -> Result<Next, Infallible> {
        match key {
            Key::Node(name) => {
                let taints = self.taints.lock().of(name);
                if !taints.is_empty() || !self.agenda.is_empty() {
                    for pod in self.pods.by_index(name) {
                        self.judge_on(&pod, &taints);
                    }
                }
            }
            Key::Pod(key) => {
                if let Some(pod) = self.pods.get(key) {
                    self.judge(&pod);
                }
            }
        }
        Ok(Next::Settled)
    }
}

impl Controller {
    /// A controller that reads `pods` and takes its keys from `lanes`.
    ///
    /// Fails when the registry has its metrics already.
    pub fn new(config: &Config, env: &Env, pods: Store<PodView>, lanes: Lanes) -> prometheus::Result<Self> {
        Ok(Self {
            clock: env.clock.clone(),
            rules: config.rules(),
            pods,
            lanes,
            taints: Mutex::default(),
            first_sights: Mutex::default(),
            looking: Mutex::new(Looking {
                leading: false,
                watching: false,
                sight: Sight::none(),
            }),
            leading: AtomicBool::new(false),
            agenda: Agenda::new(env.clock.clone()),
            live: LiveNodes::new(env.client.clone(), env.caller.clone(), env.clock.clone()),
            apply: Apply::new(env, config.common.dry_run),
            evictions: Evictions::register(&env.registry)?,
            failures: SyncFailures::register(&env.registry)?,
            notes: Notes::new(env.events.clone(), env.clock.clone()),
        })
    }

    /// Notes, for ever, whether the watch of the nodes stands.
    pub async fn watch_the_watch(&self, mut nodes: watch::Receiver<InformerState>) {
        loop {
            let watching = {
                let state = nodes.borrow_and_update();
                state.synced && state.last_error.is_none()
            };
            self.look(|looking| looking.watching = watching);
            if nodes.changed().await.is_err() {
                // The informer is gone, and with it the process.
                std::future::pending::<()>().await;
            }
        }
    }

    /// How many evictions this process has to make; none while it does not lead.
    pub fn counts(&self) -> Counts {
        if self.leading.load(Ordering::SeqCst) {
            self.agenda.counts()
        } else {
            Counts::default()
        }
    }

    /// A term begins or is over.
    pub(crate) fn leads(&self, leading: bool) {
        self.leading.store(leading, Ordering::SeqCst);
        self.look(|looking| looking.leading = leading);
    }

    fn look(&self, change: impl FnOnce(&mut Looking)) {
        let now = self.clock.now();
        let sees_again = {
            let mut looking = self.looking.lock();
            change(&mut looking);
            let saw = looking.sight.sees();
            looking.sight = if looking.leading && looking.watching {
                looking.sight.regained(now)
            } else {
                looking.sight.lost(now, &self.rules)
            };
            looking.sight.sees() && !saw
        };
        if sees_again {
            self.judge_all();
        }
    }

    fn judge_all(&self) {
        for node in self.taints.lock().tainted() {
            self.lanes.add(node, Key::Node(Arc::clone(node)));
        }
    }

    /// The time of a judgement, when our clock is known to be so far ahead.
    pub(crate) fn now(&self, ahead: SignedDuration) -> Now {
        Now {
            ours: self.clock.now(),
            ahead,
            sight: self.looking.lock().sight,
        }
    }

    /// Judges a pod on the cache, and schedules or cancels its eviction.
    pub(crate) fn judge(&self, pod: &PodView) -> Step {
        let taints = self.taints.lock().of(&pod.node);
        self.judge_on(pod, &taints)
    }

    fn judge_on(&self, pod: &PodView, taints: &[Seen]) -> Step {
        let now = self.now(SignedDuration::ZERO);
        let bound = decide::bound(pod, self.first_sight(pod, now.ours));
        let step = self.agenda.settle(pod, |remembered| {
            decide::judge(pod, bound, taints, remembered, &now, &self.rules)
        });
        if let Step::Spared(condemned) = &step
            && self.leading.load(Ordering::SeqCst)
        {
            self.evictions.cancelled();
            self.notes.spared(pod, condemned);
        }
        step
    }

    /// Judges a pod on the taints that the API server has; nothing of it is remembered but which of the known ones it lacks.
    pub(crate) fn judge_fresh(&self, pod: &PodView, reading: &Reading, now: &Now) -> Verdict {
        let known = {
            let mut taints = self.taints.lock();
            if let Some(node) = &reading.node {
                taints.read(&pod.node, &node.taints, now.ours);
            }
            taints.of(&pod.node)
        };
        let bound = decide::bound(pod, self.first_sight(pod, now.ours));
        let remembered = self.agenda.remembered(pod);
        let judge =
            |taints: &[Seen]| decide::judge(pod, bound, taints, &remembered, now, &self.rules).verdict;
        match &reading.node {
            None => judge(&known),
            Some(node) => {
                // What the cache has not shown yet is remembered under no stay.
                let mut unknown = u64::MAX;
                judge(&decide::seen(&known, &node.taints, now.ours, || {
                    unknown -= 1;
                    unknown
                }))
            }
        }
    }

    fn note_first_sight(&self, pod: &PodView) {
        let now = self.clock.now();
        if decide::first_sight_counts(pod, now) {
            let mut first_sights = self.first_sights.lock();
            let known = first_sights
                .entry(pod.key.clone())
                .or_insert_with(|| (pod.uid.clone(), now));
            if known.0 != pod.uid {
                *known = (pod.uid.clone(), now);
            }
        }
    }

    fn first_sight(&self, pod: &PodView, now: Timestamp) -> Timestamp {
        let first_sights = self.first_sights.lock();
        let known = first_sights.get(&pod.key).filter(|(uid, _)| *uid == pod.uid);
        known.map_or(now, |(_, first_sight)| *first_sight)
    }

    /// A delete was accepted.
    pub(crate) fn deleted(&self, eviction: &Eviction) {
        let lag = self.clock.now().duration_since(eviction.deadline);
        self.evictions
            .deleted(Duration::try_from(lag).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use controller_core::workqueue::{DefaultRateLimiter, QueueMetrics};
    use prometheus::Registry;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_node_and_its_pods_go_to_one_worker_the_node_first() {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let queue = || {
            let metrics = QueueMetrics::register(&Registry::new(), clock.clone(), "test").unwrap();
            WorkQueue::new(clock.clone(), DefaultRateLimiter::new(clock.clone()), metrics)
        };
        let lanes = Lanes::new(8, queue, queue);
        for name in ["p", "q"] {
            lanes.add("foobar", Key::Pod(ObjectKey::namespaced("ns", name)));
        }
        lanes.add("foobar", Key::Node("foobar".into()));
        let waiting: Vec<Vec<_>> = lanes
            .all()
            .iter()
            .map(|lane| lane.0.iter().map(WorkQueue::len).collect())
            .collect();
        // FNV-1a of `foobar` is 0xbf9cf968.
        assert_eq!(waiting[0], [1, 2]);
        assert!(waiting[1..].iter().all(|lane| *lane == [0, 0]), "{waiting:?}");
    }
}
