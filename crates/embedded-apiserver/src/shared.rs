//! The state of a server, which its clones share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

use super::access::Access;
use super::clock::Clock;
use super::connections::Connections;
use super::definitions::Definitions;
use super::faults::Faults;
use super::request::RecordedRequest;
use super::resource::{Resource, SERVED};
use super::signal::Signal;
use super::store::Store;
use super::write::namespaces;

/// Receives each request when it is carried out.
#[derive(Clone)]
pub(super) struct Observer(pub(super) Arc<Tell>);

type Tell = dyn Fn(&Arc<Shared>, &RecordedRequest) + Send + Sync;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) clock: Clock,
    pub(super) store: Mutex<Store>,
    pub(super) served: RwLock<Vec<&'static Resource>>,
    pub(super) requests: Mutex<Vec<RecordedRequest>>,
    pub(super) observer: Mutex<Option<Observer>>,
    started: Instant,
    pub(super) faults: Mutex<Faults>,
    /// The version of the last write.
    pub(super) written: Arc<Signal<u64>>,
    pub(super) connections: Signal<Connections>,
    /// Number of open watches.
    pub(super) watches: AtomicUsize,
    /// Number of requests that will still take effect, although nobody waits for them.
    pub(super) late_effects: AtomicUsize,
    pub(super) access: Mutex<Access>,
    pub(super) definitions: Mutex<Definitions>,
    /// True if the server reads and writes protobuf.
    pub(super) protobuf: AtomicBool,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Tasks that wait for the next write learn that none will come.
        self.written.wake();
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(clock: Clock) -> Self {
        let mut store = Store::new();
        namespaces::create_initial(&mut store, &clock.now(), clock.instant());
        Self {
            started: clock.instant(),
            clock,
            written: Arc::new(Signal::new(store.version())),
            store: Mutex::new(store),
            served: RwLock::new(SERVED.to_vec()),
            requests: Mutex::default(),
            observer: Mutex::default(),
            faults: Mutex::default(),
            connections: Signal::default(),
            watches: AtomicUsize::new(0),
            late_effects: AtomicUsize::new(0),
            access: Mutex::default(),
            definitions: Mutex::default(),
            protobuf: AtomicBool::new(true),
        }
    }

    /// Changes the store, and wakes the tasks that wait for a change.
    pub(super) fn write<T>(&self, change: impl FnOnce(&mut Store) -> T) -> T {
        let mut store = self.store.lock();
        let result = change(&mut store);
        self.definitions
            .lock()
            .settle(&mut store, &self.served, &self.clock);
        let version = store.version();
        self.written.update(|written| *written = version);
        result
    }

    /// Time since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.clock.instant() - self.started
    }
}
