//! The loop: change → keys → views → plan → writes.
//!
//! | file | what it does |
//! |---|---|
//! | `changes` | whom a change of an object wakes |
//! | `claimants` | the sync of a pod and of a `PodGroup` |
//! | `claims` | the sync of a claim |
//! | `rivals` | what is not written again at once, because another keeps undoing it |

mod changes;
mod claimants;
mod claims;
mod rivals;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use controller_core::clock::Clock;
use controller_core::informer::Interner;
use controller_core::leader::Term;
use controller_core::meta::ObjectKey;
use controller_core::rival::Rivals;
use controller_core::runtime::Env;
use controller_core::workers::{Next, Reconciler};
use controller_core::workqueue::WorkQueue;
use parking_lot::Mutex;

use self::rivals::Deed;
use crate::apply::Apply;
use crate::caches::Caches;
use crate::config::Config;
use crate::decide::{Gates, Quiet, group_needs_work, group_of, pod_needs_work};
use crate::error::Error;
use crate::live::Live;
use crate::metrics::Creates;
use crate::notes::Notes;
use crate::queues::Key;
use crate::turns::Turns;
use crate::view::{PodGroupView, PodView};

/// How many requests of one sync are on their way at a time.
const SIDE_BY_SIDE: usize = 8;

/// Gives pods their claims and takes them back.
pub struct Controller {
    clock: Clock,
    gates: Gates,
    caches: Caches,
    queue: WorkQueue<Key>,
    /// Whether a term is on: outside of one, changes wake nobody.
    leading: AtomicBool,
    turns: Turns,
    quiet: Mutex<Quiet>,
    rivals: Rivals<Deed>,
    live: Live,
    apply: Apply,
    creates: Creates,
    notes: Notes,
}

impl Reconciler for Controller {
    type Key = Key;
    type Error = Error;

    fn begin(&self) {
        self.leading.store(true, Ordering::SeqCst);
        let (pods, claims, groups) = self.caches.stores();
        for claim in claims.snapshot() {
            self.queue.add(Key::Claim(claim.key.clone()));
        }
        for group in groups.iter().flat_map(|groups| groups.snapshot()) {
            self.wake_group(&group.key);
        }
        for pod in pods.snapshot() {
            self.wake_pod(&pod);
        }
    }

    fn end(&self) {
        self.leading.store(false, Ordering::SeqCst);
    }

    async fn sync(&self, key: &Key, term: &Term) -> Result<Next, Error> {
        match key {
            Key::Pod(key) => self.sync_pod(key, term).await,
            Key::PodGroup(key) => self.sync_group(key, term).await,
            Key::Claim(key) => self.sync_claim(key, term).await,
        }
    }
}

impl Controller {
    /// A controller that knows `caches` and takes its keys from `queue`.
    ///
    /// Fails when the registry has its metrics already.
    pub fn new(
        config: &Config,
        env: &Env,
        gates: Gates,
        interner: Arc<Interner>,
        caches: Caches,
        queue: WorkQueue<Key>,
    ) -> prometheus::Result<Self> {
        Ok(Self {
            clock: env.clock.clone(),
            gates,
            caches,
            queue,
            leading: AtomicBool::new(false),
            turns: Turns::default(),
            quiet: Mutex::default(),
            rivals: Rivals::register(&env.registry)?,
            live: Live::new(env.client.clone(), env.caller.clone(), Arc::clone(&interner)),
            apply: Apply::new(env, interner, config.common.dry_run),
            creates: Creates::register(&env.registry)?,
            notes: Notes::new(env.events.clone()),
        })
    }

    fn leads(&self) -> bool {
        self.leading.load(Ordering::SeqCst)
    }

    /// The group of the pod, where groups count.
    fn group_of(&self, pod: &PodView) -> Option<Arc<PodGroupView>> {
        let name = pod.group.as_ref()?;
        self.caches.group(&crate::view::beside(&pod.key, name))
    }

    /// Queues the pod if it needs work.
    fn wake_pod(&self, pod: &Arc<PodView>) {
        if self.pod_needs_work(pod) {
            self.queue.add(Key::Pod(pod.key.clone()));
        }
    }

    /// Queues the pod if it needs work, and what failed before counts no more.
    fn wake_pod_afresh(&self, pod: &Arc<PodView>) {
        if self.pod_needs_work(pod) {
            let key = Key::Pod(pod.key.clone());
            self.queue.forget(&key);
            self.queue.add(key);
        }
    }

    fn pod_needs_work(&self, pod: &Arc<PodView>) -> bool {
        let pod = self.caches.with_recorded(Arc::clone(pod));
        let group = self.group_of(&pod);
        let group = group_of(&pod, group.as_deref(), self.gates);
        pod_needs_work(&pod, group, &self.caches, self.gates)
    }

    /// Queues the group of this name if it needs work, and what failed before counts no more.
    fn wake_group(&self, key: &ObjectKey) {
        if let Some(group) = self.caches.group(key)
            && group_needs_work(&group, &self.caches, self.gates)
        {
            let key = Key::PodGroup(key.clone());
            self.queue.forget(&key);
            self.queue.add(key);
        }
    }
}
