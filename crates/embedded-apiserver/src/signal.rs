//! A value that tasks can wait for. tokio's `watch` wakes waiting tasks in random order to spread load; this wakes them
//! in the order in which they began to wait, so every run is the same.

use parking_lot::Mutex;
use tokio::sync::Notify;

/// A value, and the tasks that wait for a change of it.
#[derive(Debug, Default)]
pub(super) struct Signal<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T: Copy + PartialEq> Signal<T> {
    pub(super) fn new(value: T) -> Self {
        Self {
            value: Mutex::new(value),
            changed: Notify::new(),
        }
    }

    pub(super) fn get(&self) -> T {
        *self.value.lock()
    }

    pub(super) fn update(&self, update: impl FnOnce(&mut T)) {
        let is_news = {
            let mut value = self.value.lock();
            let before = *value;
            update(&mut value);
            *value != before
        };
        if is_news {
            self.changed.notify_waiters();
        }
    }

    /// Wakes all waiting tasks although the value has not changed.
    pub(super) fn wake(&self) {
        self.changed.notify_waiters();
    }

    /// Completes when the value differs from `seen`, or at a call of [`Self::wake`]. Cancel safe.
    pub(super) async fn changed_from(&self, seen: T) {
        let mut changed = std::pin::pin!(self.changed.notified());
        changed.as_mut().enable();
        if self.get() == seen {
            changed.await;
        }
    }

    /// Completes when `wanted` returns true for the value. Cancel safe.
    pub(super) async fn wait_for(&self, wanted: impl Fn(T) -> bool) {
        loop {
            // Registers before reading the value, so that no later change is missed.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if wanted(self.get()) {
                return;
            }
            changed.await;
        }
    }
}
