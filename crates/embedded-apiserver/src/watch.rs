//! Watches: a cursor into the history of a resource, woken by every write.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::connections::{self, Connections};
use super::encoding::Encoding;
use super::failure::StatusError;
use super::fault_plan::ReadFaults;
use super::options::ListOptions;
use super::resource::Resource;
use super::shared::Shared;
use super::store::{Change, Stored};
use super::view::View;

/// Interval of bookmarks for a watch that asked for them.
const BOOKMARK_PERIOD: Duration = Duration::from_mins(1);
/// Time before its end at which a watch gets its last bookmark.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// Length of a watch that names no timeout: the API server's `--min-request-timeout`.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(30);

pub(super) struct Watching {
    shared: Arc<Shared>,
    resource: &'static Resource,
    prefix: String,
    options: ListOptions,
    view: View,
    /// The version from which the watch starts; bookmarks must be newer.
    origin: u64,
    /// The version up to which the client has been informed.
    cursor: u64,
    pending: VecDeque<Event>,
    next_bookmark: Option<Instant>,
    /// When the first lagging event is due.
    next_due: Option<Instant>,
    deadline: Instant,
    opened: Connections,
    read_faults: ReadFaults,
    over: bool,
}

/// An event for the client; rendered when it is read, so that waiting events share the store's bytes.
enum Event {
    Object(&'static str, Stored),
    Bookmark { version: u64, ends_initial_events: bool },
    Error(StatusError),
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.shared.watches.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Watching {
    /// Opens a watch; existing objects are shown as of `latest`. The server must have reached the version that the
    /// options ask for.
    pub(super) fn open(
        shared: Arc<Shared>,
        resource: &'static Resource,
        prefix: String,
        options: ListOptions,
        view: View,
        read_faults: ReadFaults,
        latest: u64,
    ) -> Self {
        let now = shared.clock.instant();
        let deadline = now + options.timeout.unwrap_or(DEFAULT_TIMEOUT);
        shared.watches.fetch_add(1, Ordering::Relaxed);
        let mut watching = Self {
            opened: shared.connections.get(),
            resource,
            prefix,
            view,
            origin: 0,
            cursor: 0,
            pending: VecDeque::new(),
            next_bookmark: next_bookmark(now, deadline).filter(|_| options.bookmarks),
            next_due: None,
            deadline,
            over: read_faults.ends,
            read_faults,
            options,
            shared,
        };
        watching.start(latest);
        watching
    }

    /// An error event with the reason why the watch cannot be served, which ends it.
    pub(super) fn refused(failure: &StatusError, encoding: Encoding) -> Bytes {
        encoding.event("ERROR", &failure.to_status())
    }

    /// The lines of the watch, or its frames in protobuf.
    pub(super) fn into_stream(self) -> impl Stream<Item = io::Result<Bytes>> + Send {
        futures::stream::unfold(self, async |mut watching| {
            let line = watching.next().await?;
            Some((line, watching))
        })
    }

    fn start(&mut self, latest: u64) {
        let asked = self.options.version.unwrap_or_default();
        let store = self.shared.store.lock();
        if !self.options.initial_events {
            // Without initial events, a watch from no particular version starts now.
            self.cursor = if asked == 0 { store.version() } else { asked };
            self.origin = self.cursor;
            return;
        }
        self.cursor = latest.min(store.version());
        self.origin = self.cursor;
        // History reaches so far: its version was taken from there.
        let all = store.at_version(self.resource, &self.prefix, None, self.cursor);
        let all = all.into_iter().flatten();
        let selected = all.filter(|(_, stored)| self.view.is_selected(&self.options, stored));
        let added = selected.map(|(_, stored)| Event::Object("ADDED", stored.clone()));
        self.pending.extend(added);
        if self.options.bookmarks {
            self.pending.push_back(Event::Bookmark {
                version: self.cursor,
                ends_initial_events: true,
            });
        }
    }

    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if self.over {
                return None;
            }
            if self.read_faults.silent {
                return Some(Err(self.cut().await));
            }
            match self.shared.connections.get().since(self.opened) {
                connections::Since::Broken => {
                    self.over = true;
                    return Some(Err(connections::reset()));
                }
                connections::Since::Closed => return None,
                connections::Since::Open => {}
            }
            if let Some(event) = self.pending.pop_front() {
                return Some(Ok(self.render(event)));
            }
            let seen = self.shared.written.get();
            self.collect();
            if !self.pending.is_empty() {
                continue;
            }
            let (bookmark, opened) = (self.next_bookmark, self.opened);
            tokio::select! {
                biased;
                () = self.shared.connections.wait_for(|now| now.since(opened) != connections::Since::Open) => {}
                () = self.shared.written.wait_for(|written| written != seen) => {}
                () = sleep_until(self.next_due.unwrap_or(self.deadline)), if self.next_due.is_some() => {}
                () = sleep_until(bookmark.unwrap_or(self.deadline)), if bookmark.is_some() => {
                    self.next_bookmark = bookmark.and_then(|at| next_bookmark(at, self.deadline));
                    if self.cursor > self.origin {
                        self.pending.push_back(Event::Bookmark {
                            version: self.cursor,
                            ends_initial_events: false,
                        });
                    }
                }
                () = sleep_until(self.deadline) => return None,
            }
        }
    }

    /// Completes when the connection is cut.
    async fn cut(&mut self) -> io::Error {
        let opened = self.opened;
        self.shared
            .connections
            .wait_for(|now| now.since(opened) == connections::Since::Broken)
            .await;
        self.over = true;
        connections::reset()
    }

    fn render(&mut self, event: Event) -> Bytes {
        match event {
            Event::Object(kind, stored) => self.view.event(kind, &stored),
            Event::Bookmark {
                version,
                ends_initial_events,
            } => self.view.bookmark(version, ends_initial_events),
            Event::Error(failure) => {
                self.over = true;
                Self::refused(&failure, self.view.encoding())
            }
        }
    }

    /// Takes over what was written since the cursor.
    fn collect(&mut self) {
        let (changes, version) = {
            let store = self.shared.store.lock();
            (store.changes_since(self.resource, self.cursor), store.version())
        };
        match changes {
            Ok(mut changes) => {
                let seen_until = self.shared.clock.instant();
                let due = |change: &Change| change.at + self.read_faults.lag;
                let late = changes.split_off(changes.partition_point(|change| due(change) <= seen_until));
                self.next_due = late.first().map(due);
                let version = late.first().map_or(version, |change| change.version - 1);
                let events = changes
                    .iter()
                    .filter(|change| change.key.starts_with(&self.prefix))
                    .filter_map(|change| self.event_of(change));
                self.pending.extend(events.collect::<Vec<_>>());
                // A watch from a future version waits for it.
                self.cursor = self.cursor.max(version);
            }
            Err(compacted) => {
                let failure = StatusError::watch_expired(self.cursor, compacted.oldest);
                self.pending.push_back(Event::Error(failure));
            }
        }
    }

    /// The event that a write means to a client that sees only selected objects.
    fn event_of(&self, change: &Change) -> Option<Event> {
        let selects = |stored: &Stored| self.view.is_selected(&self.options, stored);
        let was = change.before.as_ref().filter(|before| selects(before));
        let is = !change.deleted && selects(&change.object);
        match (was, is) {
            (None, false) => None,
            (None, true) => Some(Event::Object("ADDED", change.object.clone())),
            (Some(_), true) => Some(Event::Object("MODIFIED", change.object.clone())),
            (Some(_), false) if change.deleted => Some(Event::Object("DELETED", change.object.clone())),
            // The object left the selection: its last selected state, under the version of the write.
            (Some(before), false) => Some(Event::Object("DELETED", at_version(before, change.version))),
        }
    }
}

/// The next bookmark after `now`: every minute, and shortly before the end, so that the client can resume from it.
fn next_bookmark(now: Instant, deadline: Instant) -> Option<Instant> {
    let last = deadline.checked_sub(LAST_BOOKMARK)?;
    (now < last).then(|| (now + BOOKMARK_PERIOD).min(last))
}

fn at_version(stored: &Stored, version: u64) -> Stored {
    let mut object: Value = serde_json::from_slice(&stored.body).unwrap_or_default();
    object["metadata"]["resourceVersion"] = json!(version.to_string());
    Stored {
        version,
        body: object.to_string().into(),
    }
}
