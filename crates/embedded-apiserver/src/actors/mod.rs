//! Actors: what other components of a cluster do to the objects of the embedded server.
//!
//! An actor is a task that looks at the store after every write and does what is to be done. It writes past the
//! doors, under the rules of the API and under a field manager of its own, so its writes are no requests: they are
//! neither recorded nor hit by faults, and they go on while the server is down. Its delays are tokio's, so time can
//! be paused. What it does depends on the objects alone, never on chance.
//!
//! Which of two actors writes first at one instant is the order in which they were added.

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

/// Which actors run.
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

/// Actors at work; dropping it stops them.
#[derive(Debug)]
#[must_use = "dropping it stops the actors"]
pub struct Acting {
    _tasks: JoinSet<()>,
}

/// A component of the cluster.
trait Actor: Send {
    /// The field manager of its writes.
    fn manager(&self) -> &'static str;

    /// Does what is to be done now, and says when there will be more to do if nothing is written until then.
    fn act(&mut self, stage: &Stage) -> Option<Instant>;
}

impl Actors {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// The garbage collector: deletes what has lost its owners, and lets go of owners that are deleted in
    /// the foreground or leave orphans. Owners of a kind that is not served are taken to exist; those of
    /// seeded pods do not.
    pub fn garbage_collector(self) -> Self {
        self.with(garbage_collector::GarbageCollector::default())
    }

    /// The kubelets of all nodes that there are: they run bound pods and end deleted ones.
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
    /// Lets them work on a server until the result is dropped.
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
        // What is written from here on, by the actor itself too, makes it look again.
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
