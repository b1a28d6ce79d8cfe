//! client-go's work queue (CORE-1), layer by layer.
//!
//! | file | contract | client-go |
//! |---|---|---|
//! | [`fifo`] | one worker a key; duplicates collapse; an add while a key is processed is remembered | `queue.go` |
//! | [`delaying`] | a key later: one entry a key, the earliest time wins | `delaying_queue.go` |
//! | [`rate_limiting`] | how much later after a failure | `default_rate_limiters.go` |
//! | [`metrics`] | `workqueue_*` | `metrics.go` |
//!
//! [`WorkQueue`] stacks them. It needs no task of its own: whoever waits for a key also waits for the
//! next delayed one.

pub mod delaying;
pub mod fifo;
pub mod metrics;
pub mod rate_limiting;
mod sync;

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use self::delaying::Delaying;
use self::fifo::Fifo;
pub use self::metrics::QueueMetrics;
pub(crate) use self::rate_limiting::exponential;
pub use self::rate_limiting::{Bucket, DefaultRateLimiter, ItemExponential, MaxOf, RateLimiter, TokenBucket};
use crate::clock::Clock;

/// A queue of keys for a pool of workers. Cheap to clone: clones are the same queue.
pub struct WorkQueue<K>(Arc<Inner<K>>);

struct Inner<K> {
    clock: Clock,
    fifo: Fifo<K>,
    delaying: Delaying<K>,
    limiter: Box<dyn RateLimiter<K>>,
    metrics: QueueMetrics,
    /// Since when each key waits to be processed.
    added: Mutex<HashMap<K, Instant>>,
}

/// A key while it is processed. Dropping it is client-go's `Done`, so that a worker that is cancelled or
/// panics strands no key.
pub struct Processing<K: Clone + Eq + Hash> {
    queue: Arc<Inner<K>>,
    key: K,
    run: u64,
}

impl<K> WorkQueue<K>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
{
    /// An empty queue.
    pub fn new(clock: Clock, limiter: impl RateLimiter<K> + 'static, metrics: QueueMetrics) -> Self {
        Self(Arc::new(Inner {
            fifo: Fifo::new(),
            delaying: Delaying::new(),
            limiter: Box::new(limiter),
            metrics,
            added: Mutex::default(),
            clock,
        }))
    }

    /// Puts `key` at the end, unless it waits already. While it is processed, it is put there when that
    /// ends. Ignored after a shutdown has begun.
    pub fn add(&self, key: K) {
        self.0.add(key);
    }

    /// Adds `key` after `delay`. If it is to be added already, the earlier time counts.
    pub fn add_after(&self, key: K, delay: Duration) {
        let queue = &self.0;
        if queue.fifo.is_shutting_down() {
            return;
        }
        if delay.is_zero() {
            queue.add(key);
        } else {
            // Too far to be represented is never.
            if let Some(at) = queue.clock.instant().checked_add(delay) {
                queue.delaying.insert(key, at);
            }
        }
    }

    /// Records a failure of `key` and adds it after the rate limiter's delay.
    pub fn add_rate_limited(&self, key: K) {
        self.add_rate_limited_not_before(key, Duration::ZERO);
    }

    /// As [`WorkQueue::add_rate_limited`], but no sooner than after `wait`.
    pub fn add_rate_limited_not_before(&self, key: K, wait: Duration) {
        self.0.metrics.retried();
        self.0.limiter.failed(&key);
        let delay = self.0.limiter.delay(&key).max(wait);
        self.add_after(key, delay);
    }

    /// The next key, as soon as there is one; `None` when the queue is shut down and empty. Cancel safe.
    pub async fn get(&self) -> Option<Processing<K>> {
        let queue = &self.0;
        loop {
            // Registered before the heap is read: a key that comes in between is not missed.
            let sooner = queue.delaying.sooner();
            tokio::pin!(sooner);
            sooner.as_mut().enable();
            let next = queue.add_due();
            let due = async {
                match next {
                    Some(at) => queue.clock.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                key = queue.fifo.get() => return key.map(|key| queue.start(key)),
                () = due => {}
                () = sooner => {}
            }
        }
    }

    /// The key succeeded, or is given up: its failures are forgotten. It does not end its processing.
    pub fn forget(&self, key: &K) {
        self.0.limiter.forget(key);
    }

    /// How often `key` has failed since it was last forgotten.
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.0.limiter.num_requeues(key)
    }

    /// How many keys wait to be processed now; delayed ones do not count before their time.
    pub fn len(&self) -> usize {
        self.0.add_due();
        self.0.fifo.len()
    }

    /// Whether no key waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// For how long the key that is processed longest has been; zero when none is.
    pub fn longest_running(&self) -> Duration {
        self.0.metrics.longest_running()
    }

    /// No key is added any more; those that wait are still handed out, then [`WorkQueue::get`] ends.
    pub fn shut_down(&self) {
        self.0.fifo.shut_down();
        self.0.delaying.clear();
    }

    /// As [`WorkQueue::shut_down`]; completes when every key has been processed. A later `shut_down` ends
    /// the wait.
    pub async fn shut_down_with_drain(&self) {
        self.0.delaying.clear();
        self.0.fifo.shut_down_with_drain().await;
    }

    /// Whether a shutdown has begun.
    pub fn is_shutting_down(&self) -> bool {
        self.0.fifo.is_shutting_down()
    }
}

impl<K: Clone + Eq + Hash> Inner<K> {
    fn add(&self, key: K) {
        if self.fifo.add(key.clone()) {
            self.metrics.added();
            self.added.lock().insert(key, self.clock.instant());
        }
    }

    /// Adds every delayed key whose time has come; the time of the next one.
    fn add_due(&self) -> Option<Instant> {
        let now = self.clock.instant();
        while let Some(key) = self.delaying.pop_due(now) {
            self.add(key);
        }
        self.delaying.next()
    }

    fn start(self: &Arc<Self>, key: K) -> Processing<K> {
        let now = self.clock.instant();
        let waited = self
            .added
            .lock()
            .remove(&key)
            .map(|at| now.saturating_duration_since(at));
        let run = self.metrics.started(waited);
        Processing {
            queue: Arc::clone(self),
            key,
            run,
        }
    }
}

impl<K: Clone + Eq + Hash> Processing<K> {
    /// The key.
    pub const fn key(&self) -> &K {
        &self.key
    }
}

impl<K: Clone + Eq + Hash> Deref for Processing<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.key
    }
}

impl<K: Clone + Eq + Hash> Drop for Processing<K> {
    fn drop(&mut self) {
        self.queue.metrics.finished(self.run);
        self.queue.fifo.done(&self.key);
    }
}

impl<K> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> fmt::Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").finish_non_exhaustive()
    }
}

impl<K: Clone + Eq + Hash + fmt::Debug> fmt::Debug for Processing<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Processing").field(&self.key).finish()
    }
}
