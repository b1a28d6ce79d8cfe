//! A value that others wait for. Unlike tokio's `watch`, which wakes in a random order to spread its load, it
//! wakes those who wait in the order in which they began to: a run is the same every time.

use parking_lot::Mutex;
use tokio::sync::Notify;

/// A value, and those who wait for it to change.
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

    /// Wakes all who wait, although nothing has changed.
    pub(super) fn wake(&self) {
        self.changed.notify_waiters();
    }

    /// Completes when the value is not `seen` any more, or at a call of [`Self::wake`]. Cancel safe.
    pub(super) async fn changed_from(&self, seen: T) {
        let mut changed = std::pin::pin!(self.changed.notified());
        changed.as_mut().enable();
        if self.get() == seen {
            changed.await;
        }
    }

    /// Completes when the value is as `wanted`. Cancel safe.
    pub(super) async fn wait_for(&self, wanted: impl Fn(T) -> bool) {
        loop {
            // Before the look, so that no change after it is missed.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if wanted(self.get()) {
                return;
            }
            changed.await;
        }
    }
}
