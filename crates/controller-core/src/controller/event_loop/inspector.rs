//! What a running loop shows to metrics that are computed at scrape time.

use std::sync::Arc;

use derive_where::derive_where;
use parking_lot::Mutex;

use super::super::{Controller, Now};
use super::Loop;

/// Reads a loop that runs. Cheap to clone.
#[derive_where(Clone)]
pub struct Inspector<C: Controller> {
    event_loop: Arc<Mutex<Loop<C>>>,
    now: Arc<dyn Fn() -> Now + Send + Sync>,
}

impl<C: Controller> Inspector<C> {
    /// Reads `event_loop`, at the time that `now` returns.
    pub fn new(event_loop: Arc<Mutex<Loop<C>>>, now: impl Fn() -> Now + Send + Sync + 'static) -> Self {
        let now = Arc::new(now);
        Self { event_loop, now }
    }

    /// What `read` computes from the state and the stores.
    pub fn scrape<T>(&self, read: impl FnOnce(&C::State, &C::Stores) -> T) -> T {
        let event_loop = self.event_loop.lock();
        read(event_loop.state(), event_loop.stores())
    }

    /// How many keys of the queue with this index come back at a set time.
    pub fn scheduled(&self, queue: usize) -> usize {
        self.event_loop.lock().scheduled(queue)
    }

    /// How many keys have writes that a dry run has planned for more than 5 minutes.
    pub fn undone(&self) -> usize {
        self.event_loop.lock().undone()
    }

    /// The current time.
    pub fn now(&self) -> Now {
        (self.now)()
    }
}
