//! The innermost layer: which key is processed next, and by one worker at a time.
//!
//! A key is *dirty* when it needs processing and *processing* while a worker has it. It stands in the
//! queue when it is dirty and not processing.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::sync::Mutex;

/// First in, first out; see the module.
pub struct Fifo<K> {
    state: Mutex<State<K>>,
}

struct State<K> {
    queue: VecDeque<K>,
    dirty: HashSet<K>,
    processing: HashSet<K>,
    /// Getters in the order they came; one that is woken leaves the list.
    getters: Waiters,
    drainers: Waiters,
    shutdown: Shutdown,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shutdown {
    No,
    Begun,
    Draining,
}

/// Tasks to wake, each under a ticket of its own.
#[derive(Default)]
struct Waiters {
    last_ticket: u64,
    list: VecDeque<(u64, Waker)>,
}

/// The next key; see [`Fifo::get`].
#[must_use = "futures do nothing unless polled"]
pub struct Get<'a, K: Clone + Eq + Hash> {
    fifo: &'a Fifo<K>,
    ticket: Option<u64>,
}

/// Completes when the queue is drained; see [`Fifo::shut_down_with_drain`].
#[must_use = "futures do nothing unless polled"]
pub struct Drained<'a, K: Clone + Eq + Hash> {
    fifo: &'a Fifo<K>,
    ticket: Option<u64>,
}

impl<K: Clone + Eq + Hash> Fifo<K> {
    /// An empty queue.
    pub fn new() -> Self {
        Self {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                dirty: HashSet::new(),
                processing: HashSet::new(),
                getters: Waiters::default(),
                drainers: Waiters::default(),
                shutdown: Shutdown::No,
            }),
        }
    }

    /// Marks `key` as needing processing. Returns whether that is news.
    pub fn add(&self, key: K) -> bool {
        let wake = {
            let mut state = self.state.lock();
            if state.shutdown != Shutdown::No || !state.dirty.insert(key.clone()) {
                return false;
            }
            if state.processing.contains(&key) {
                return true;
            }
            state.queue.push_back(key);
            state.getters.pop()
        };
        wake_all(wake);
        true
    }

    /// Waits for a key and marks it as processing; `None` once the queue is shut down and empty.
    ///
    /// Cancel safe: a future that is dropped after it was woken passes the wake-up on.
    pub fn get(&self) -> Get<'_, K> {
        Get {
            fifo: self,
            ticket: None,
        }
    }

    /// The processing of `key` is over; if it was added meanwhile, it goes to the end of the queue.
    pub fn done(&self, key: &K) {
        let (wake, drained) = {
            let mut state = self.state.lock();
            state.processing.remove(key);
            if state.dirty.contains(key) {
                state.queue.push_back(key.clone());
                (state.getters.pop(), Vec::new())
            } else if state.is_drained() {
                (None, state.drainers.take())
            } else {
                (None, Vec::new())
            }
        };
        wake_all(wake);
        wake_all(drained);
    }

    /// How many keys wait to be handed out.
    pub fn len(&self) -> usize {
        self.state.lock().queue.len()
    }

    /// Whether no key waits to be handed out.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Refuses new keys from now on, and ends a drain.
    pub fn shut_down(&self) {
        self.begin_shutdown(Shutdown::Begun);
    }

    /// Refuses new keys from now on; completes when every key has been processed.
    pub fn shut_down_with_drain(&self) -> Drained<'_, K> {
        self.begin_shutdown(Shutdown::Draining);
        Drained {
            fifo: self,
            ticket: None,
        }
    }

    /// Whether a shutdown has begun.
    pub fn is_shutting_down(&self) -> bool {
        self.state.lock().shutdown != Shutdown::No
    }

    fn begin_shutdown(&self, shutdown: Shutdown) {
        let (getters, drainers) = {
            let mut state = self.state.lock();
            state.shutdown = shutdown;
            (state.getters.take(), state.drainers.take())
        };
        wake_all(getters);
        wake_all(drainers);
    }
}

impl<K: Clone + Eq + Hash> Default for Fifo<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> State<K> {
    fn is_drained(&self) -> bool {
        self.queue.is_empty() && self.processing.is_empty()
    }
}

impl<K: Clone + Eq + Hash> Future for Get<'_, K> {
    type Output = Option<K>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<K>> {
        let fifo = self.fifo;
        let mut state = fifo.state.lock();
        if let Some(key) = state.queue.pop_front() {
            state.dirty.remove(&key);
            state.processing.insert(key.clone());
            if let Some(ticket) = self.ticket.take() {
                state.getters.leave(ticket);
            }
            return Poll::Ready(Some(key));
        }
        if state.shutdown == Shutdown::No {
            self.ticket = Some(state.getters.wait(self.ticket, cx.waker()));
            return Poll::Pending;
        }
        self.ticket = None;
        Poll::Ready(None)
    }
}

impl<K: Clone + Eq + Hash> Drop for Get<'_, K> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let wake = {
            let mut state = self.fifo.state.lock();
            // Not in the list any more: we were woken for a key that another getter must take now.
            if state.getters.leave(ticket) || state.queue.is_empty() {
                None
            } else {
                state.getters.pop()
            }
        };
        wake_all(wake);
    }
}

impl<K: Clone + Eq + Hash> Future for Drained<'_, K> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let fifo = self.fifo;
        let mut state = fifo.state.lock();
        if state.shutdown == Shutdown::Draining && !state.is_drained() {
            self.ticket = Some(state.drainers.wait(self.ticket, cx.waker()));
            return Poll::Pending;
        }
        self.ticket = None;
        Poll::Ready(())
    }
}

impl<K: Clone + Eq + Hash> Drop for Drained<'_, K> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.fifo.state.lock().drainers.leave(ticket);
        }
    }
}

impl Waiters {
    /// Puts `waker` in the list under `ticket`, or under a new one.
    fn wait(&mut self, ticket: Option<u64>, waker: &Waker) -> u64 {
        if let Some(ticket) = ticket
            && let Some((_, known)) = self.list.iter_mut().find(|(held, _)| *held == ticket)
        {
            known.clone_from(waker);
            return ticket;
        }
        self.last_ticket += 1;
        self.list.push_back((self.last_ticket, waker.clone()));
        self.last_ticket
    }

    /// Takes `ticket` off the list; whether it was there.
    fn leave(&mut self, ticket: u64) -> bool {
        let before = self.list.len();
        self.list.retain(|(held, _)| *held != ticket);
        self.list.len() != before
    }

    fn pop(&mut self) -> Option<Waker> {
        self.list.pop_front().map(|(_, waker)| waker)
    }

    fn take(&mut self) -> Vec<Waker> {
        self.list.drain(..).map(|(_, waker)| waker).collect()
    }
}

/// Outside the lock: a waker may run anything.
fn wake_all(wakers: impl IntoIterator<Item = Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}

impl<K> fmt::Debug for Fifo<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fifo").finish_non_exhaustive()
    }
}
