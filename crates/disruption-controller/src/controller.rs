//! The loop: change → budgets → numbers → status, and pods whose disruption did not come.
//!
//! | rule | function | test |
//! |---|---|---|
//! | DIS-12 | `Controller::wake_owned_by`, `Controller::keep_time` | `tests/sync/scales.rs::a_change_of_the_replicas_changes_the_budget_at_once`, `tests/sync/scales.rs::the_scale_of_a_custom_resource_is_read_again_every_30_seconds` |
//! | DIS-16 | `Controller::forget` | `tests/sync/budgets.rs::a_deleted_budget_leaves_nothing_behind` |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use controller_core::api::limits::StillWanted;
use controller_core::clock::Clock;
use controller_core::informer::{Change, Handler, Interner, Store};
use controller_core::leader::Term;
use controller_core::meta::{ObjectKey, OwnerRef, Uid};
use controller_core::rival::{Rivals, Verdict};
use controller_core::runtime::Env;
use controller_core::timed_workers::TimedWorkers;
use controller_core::workers::{Next, Reconciler};

use crate::apply::{Applied, Apply};
use crate::budgets::{Budgets, Snapshot, States};
use crate::config::Config;
use crate::decide::{Decision, Demand, Plan, Scales, Situation, Stale, Write, decide, demand, stale};
use crate::error::Error;
use crate::live::LiveScales;
use crate::metrics::{Lag, ScaleRequests};
use crate::notes::Notes;
use crate::queues::{Key, Queues};
use crate::route::{self, COALESCE};
use crate::scales::{Finder, Read, Workloads};
use crate::view::{PdbView, PodView, WorkloadView};

/// Keeps the status of every budget true.
pub struct Controller {
    clock: Clock,
    pods: Store<PodView>,
    queues: Queues,
    budgets: Arc<Budgets>,
    /// Budgets to look at again, by wall time.
    rechecks: TimedWorkers<ObjectKey>,
    /// Pods whose condition is stale from then on.
    stale: TimedWorkers<ObjectKey>,
    /// Whether a term is on: outside of one, changes only move the counts.
    leading: AtomicBool,
    finder: Finder,
    rivals: Rivals<ObjectKey>,
    apply: Apply,
    lag: Lag,
    notes: Notes,
}

impl Handler<PodView> for Controller {
    fn on_change(&self, change: Change<'_, PodView>, _: &Store<PodView>) {
        let (key, new) = match change {
            Change::Added(new) | Change::Updated { new, .. } => (&new.key, Some(new)),
            Change::Deleted(last) => (&last.key, None),
        };
        match new.map_or(Stale::Never, |pod| stale(pod)) {
            Stale::From(at) => self.stale.schedule(key.clone(), at),
            Stale::Never => {
                self.stale.cancel(key);
            }
        }
        let changed = self.budgets.pod_changed(key, new, self.clock.instant());
        if !self.leads() {
            return;
        }
        if let (Some(pod), false) = (new, changed.overlapping.is_empty()) {
            self.notes.overlap(pod, &changed.overlapping);
        }
        for woken in changed.woken {
            let key = Key::Budget(woken.pdb);
            if woken.urgent {
                self.queues.budgets.add(key);
            } else {
                self.queues.budgets.add_after(key, COALESCE);
            }
        }
    }
}

impl Handler<PdbView> for Controller {
    fn on_change(&self, change: Change<'_, PdbView>, _: &Store<PdbView>) {
        let (key, new) = match change {
            Change::Added(new) | Change::Updated { new, .. } => (&new.key, Some(new)),
            Change::Deleted(last) => (&last.key, None),
        };
        let leads = self.leads();
        let changed = self.budgets.pdb_changed(key, new, leads);
        if new.is_none() {
            self.forget(key);
        }
        if !leads {
            return;
        }
        if let Some((pod, pdbs)) = changed.overlapping {
            self.notes.overlap(&pod, &pdbs);
        }
        if changed.wakes {
            self.queues.budgets.add(Key::Budget(key.clone()));
        }
    }
}

impl Handler<WorkloadView> for Controller {
    /// Every change of the view concerns the budgets of its pods: nothing else is in it.
    fn on_change(&self, change: Change<'_, WorkloadView>, _: &Store<WorkloadView>) {
        let (Change::Added(workload) | Change::Updated { new: workload, .. } | Change::Deleted(workload)) =
            change;
        if self.leads() {
            self.wake_owned_by(&workload.uid);
        }
    }
}

impl Reconciler for Controller {
    type Key = Key;
    type Error = Error;

    fn begin(&self) {
        self.leading.store(true, Ordering::SeqCst);
        for key in self.budgets.keys() {
            self.queues.budgets.add(Key::Budget(key));
        }
        for pod in self.pods.snapshot() {
            if let Stale::From(at) = stale(&pod) {
                self.stale.schedule(pod.key.clone(), at);
            }
        }
    }

    fn end(&self) {
        self.leading.store(false, Ordering::SeqCst);
    }

    async fn sync(&self, key: &Key, term: &Term) -> Result<Next, Error> {
        match key {
            Key::Budget(key) => self.compute(key, term).await,
            Key::Recheck(key) => {
                // Not computed here: another worker may be at it (one PDB is computed by one worker at a time).
                self.queues.budgets.add(Key::Budget(key.clone()));
                Ok(Next::Settled)
            }
            Key::StalePod(key) => self.reset_if_stale(key, term).await,
        }
    }
}

impl Controller {
    /// A controller that reads `pods` and `workloads` and takes its keys from `queues`.
    ///
    /// Fails when the registry has its metrics already.
    pub fn new(
        config: &Config,
        env: &Env,
        interner: Arc<Interner>,
        pods: Store<PodView>,
        workloads: Workloads,
        queues: Queues,
    ) -> prometheus::Result<Self> {
        let requests = ScaleRequests::register(&env.registry)?;
        let (client, clock) = (env.client.clone(), env.clock.clone());
        let live = LiveScales::new(client, env.caller.clone(), clock.clone(), requests);
        Ok(Self {
            pods,
            queues,
            budgets: Arc::default(),
            rechecks: TimedWorkers::new(clock.clone()),
            stale: TimedWorkers::new(clock.clone()),
            leading: AtomicBool::new(false),
            finder: Finder::new(workloads, live),
            rivals: Rivals::register(&env.registry)?,
            apply: Apply::new(env, interner, config.common.dry_run),
            lag: Lag::register(&env.registry)?,
            notes: Notes::new(env.events.clone()),
            clock,
        })
    }

    /// How many budgets are in which state.
    pub fn states(&self) -> States {
        self.budgets.states()
    }

    /// Queues budgets and pods when their time has come, for ever.
    pub async fn keep_time(&self) {
        loop {
            let due = tokio::select! {
                biased;
                due = self.rechecks.next_due() => (&self.queues.rechecks, Key::Recheck(due.key().clone())),
                due = self.stale.next_due() => (&self.queues.stale_pods, Key::StalePod(due.key().clone())),
            };
            // The next term begins with everything.
            if let (true, (queue, key)) = (self.leads(), due) {
                queue.add(key);
            }
        }
    }

    fn leads(&self) -> bool {
        self.leading.load(Ordering::SeqCst)
    }

    /// Wakes the budgets whose pods belong to this workload, or to a `ReplicaSet` of it (DIS-12).
    fn wake_owned_by(&self, workload: &Uid) {
        for uid in self.finder.below(workload) {
            for key in self.budgets.owned_by(&uid) {
                self.budgets.scale_changed(&key);
                self.queues.budgets.add(Key::Budget(key));
            }
        }
    }

    async fn compute(&self, key: &ObjectKey, term: &Term) -> Result<Next, Error> {
        let mut read = Read::new();
        loop {
            let Some(snapshot) = self.budgets.snapshot(key) else {
                self.forget(key);
                return Ok(Next::Settled);
            };
            // Nothing is waited for between these numbers and their write.
            match self.finder.scales(&snapshot, &read) {
                Ok(scales) => {
                    if let Some(next) = self.settle(&snapshot, &scales, &read, term).await? {
                        return Ok(next);
                    }
                    // What was read is old by now, too.
                    read.clear();
                }
                Err(unread) => read.extend(self.finder.read(key, unread).await),
            }
        }
    }

    /// Computes a budget and writes its status; nothing when its pods changed before the write was sent.
    async fn settle(
        &self,
        snapshot: &Snapshot,
        scales: &Scales,
        read: &Read,
        term: &Term,
    ) -> Result<Option<Next>, Error> {
        let pdb = &*snapshot.pdb;
        let key = &pdb.key;
        let situation = Situation {
            pdb,
            counts: &snapshot.counts,
            entries: &snapshot.entries,
            scales,
        };
        let smallest_pod = |owners: &[&OwnerRef]| self.budgets.smallest_pod(key, owners);
        let decision = decide(&situation, smallest_pod, self.clock.now());
        let by_scale = demand(pdb).is_ok_and(Demand::needs_scales);
        self.budgets.computed(snapshot, &decision, by_scale);
        match decision.look_again {
            Some(at) => self.rechecks.schedule(key.clone(), at),
            None => {
                self.rechecks.cancel(key);
            }
        }
        let wrote = match &decision.plan {
            Plan::Leave => {
                self.budgets.catch_up(key);
                false
            }
            Plan::Write(write) => {
                if let Some(wait) = self.contested(snapshot, write) {
                    return Ok(Some(Next::After(wait)));
                }
                match self.write(snapshot, write, term).await? {
                    Applied::Written(_) => true,
                    Applied::Planned | Applied::Gone => false,
                    Applied::Withdrawn => return Ok(None),
                }
            }
        };
        self.notes.computed(snapshot, &decision, wrote);
        match failed(decision, read) {
            Some(error) => Err(error),
            None => Ok(Some(Next::Settled)),
        }
    }

    /// How long to leave a budget whose status another writer keeps undoing (CORE-17). The eviction API, which takes
    /// from what is allowed, is none.
    fn contested(&self, snapshot: &Snapshot, write: &Write) -> Option<Duration> {
        let ours = snapshot.ours.as_ref()?;
        if !route::undoes(ours, &snapshot.pdb.status) || !route::says_again(ours, write) {
            return None;
        }
        let now = self.clock.instant();
        match self.rivals.undone(&snapshot.pdb.key, now) {
            Verdict::Write => None,
            Verdict::BackOff { wait, first } => {
                let manager = snapshot.pdb.written_by.as_deref();
                let manager = manager.unwrap_or("an unknown field manager");
                if first && self.rivals.may_warn(manager, now) {
                    self.notes.rival(&snapshot.pdb, manager);
                }
                Some(wait)
            }
        }
    }

    async fn write(&self, snapshot: &Snapshot, write: &Write, term: &Term) -> Result<Applied, Error> {
        let key = &snapshot.pdb.key;
        let allowed = i64::from(write.allowed());
        self.budgets.sending(key, allowed);
        let behind = self.budgets.catch_up(key);
        let (budgets, pdb) = (Arc::clone(&self.budgets), key.clone());
        let wanted = StillWanted(Arc::new(move || !budgets.allows_too_much(&pdb, allowed)));
        match self.apply.write(write, wanted, term).await {
            Ok(applied) => {
                if let Applied::Written(written) = &applied {
                    self.budgets.wrote(&snapshot.pdb.version, written);
                    let now = self.clock.instant();
                    self.rivals.wrote(key, now);
                    if let Some(since) = behind {
                        self.lag.observe(now - since);
                    }
                } else {
                    self.budgets.refused(key);
                    self.budgets.fell_behind(key, behind);
                }
                Ok(applied)
            }
            Err(failed) => {
                self.budgets.fell_behind(key, behind);
                if !failed.fate_unknown() {
                    self.budgets.refused(key);
                }
                Err(Error::Write(failed))
            }
        }
    }

    async fn reset_if_stale(&self, key: &ObjectKey, term: &Term) -> Result<Next, Error> {
        let Some(pod) = self.pods.get(key) else {
            return Ok(Next::Settled);
        };
        let (Stale::From(at), Some(target)) = (stale(&pod), &pod.target) else {
            return Ok(Next::Settled);
        };
        let now = self.clock.now();
        if now < at {
            self.stale.schedule(key.clone(), at);
            return Ok(Next::Settled);
        }
        let reset = self.apply.reset(&pod, target, now, term).await;
        reset.map_err(Error::Reset)?;
        Ok(Next::Settled)
    }

    /// Leaves nothing of a budget behind (DIS-16).
    fn forget(&self, key: &ObjectKey) {
        self.rechecks.cancel(key);
        self.rivals.forget(key);
        self.notes.forget(key);
    }
}

/// What the queue is to try again soon.
fn failed(decision: Decision, read: &Read) -> Option<Error> {
    let failure = decision.result.err().filter(|failure| failure.transient)?;
    let wait = read.values().filter_map(|reading| reading.wait).max();
    Some(Error::Failed { failure, wait })
}
