//! Actors: other components of a cluster that change objects of the embedded server.
//!
//! An actor is a task that runs after every write to the store. It writes directly to the store, under the rules of the
//! API and its own field manager, so its writes are not requests: they are not recorded, meet no faults, and continue
//! while the server is down. Its delays follow tokio's clock, so time can be paused. Its actions depend on the objects
//! only, never on chance.
//!
//! If two actors write at the same instant, the one that was added first writes first.

mod follower;
mod garbage_collector;
mod kubelet;
mod pod_status;
mod stage;

use std::fmt;
use std::sync::{Arc, Weak};

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::shared::Shared;
use stage::Stage;

pub use kubelet::KubeletOptions;

/// The actors to run.
///
/// ```no_run
/// # async fn example(server: embedded_apiserver::Server) {
/// use embedded_apiserver::{Actors, KubeletOptions};
/// let _acting = server.run(Actors::new().garbage_collector().kubelet(KubeletOptions::new()));
/// # }
/// ```
#[derive(Default)]
#[must_use]
pub struct Actors {
    actors: Vec<Box<dyn Actor>>,
}

/// Running actors; dropping it stops them.
#[derive(Debug)]
#[must_use = "dropping it stops the actors"]
pub struct Acting {
    _tasks: JoinSet<()>,
}

/// A component of the cluster.
trait Actor: Send {
    /// The field manager of its writes.
    fn manager(&self) -> &'static str;

    /// Does what is due now. Returns when to call again if nothing is written until then.
    fn act(&mut self, stage: &Stage) -> Option<Instant>;
}

impl Actors {
    /// No actors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the garbage collector. It deletes objects whose owners are gone, and releases owners that are being deleted
    /// in the foreground or orphan their dependents. It assumes that owners of kinds that are not served exist; the
    /// owners of seeded pods do not.
    pub fn garbage_collector(self) -> Self {
        self.with(garbage_collector::GarbageCollector::default())
    }

    /// Adds a kubelet for each node. Kubelets run bound pods and end deleted ones.
    pub fn kubelet(self, options: KubeletOptions) -> Self {
        self.with(kubelet::Kubelet::new(options))
    }

    fn with(mut self, actor: impl Actor + 'static) -> Self {
        self.actors.push(Box::new(actor));
        self
    }
}

impl fmt::Debug for Actors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Actors").field(&self.actors.len()).finish()
    }
}

impl Actors {
    /// Runs the actors until the result is dropped.
    pub(super) fn act_on(self, shared: &Arc<Shared>) -> Acting {
        let mut tasks = JoinSet::new();
        for actor in self.actors {
            tasks.spawn(work(Arc::downgrade(shared), actor));
        }
        Acting { _tasks: tasks }
    }
}

async fn work(shared: Weak<Shared>, mut actor: Box<dyn Actor>) {
    let Some(written) = shared.upgrade().map(|shared| shared.written.clone()) else {
        return;
    };
    loop {
        // Every later write, including the actor's own, starts another round.
        let seen = written.get();
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let next = actor.act(&Stage::new(shared, actor.manager()));
        let due = async {
            match next {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = written.changed_from(seen) => {}
            () = due => {}
        }
    }
}
