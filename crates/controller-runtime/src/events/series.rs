//! Decides which occurrences become a new Event object, which extend a series, and when to write it. Limits the
//! requests per object, as client-go's `EventSourceObjectSpamFilter` does.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use controller_core::workqueue::TokenBucket;
use jiff::Timestamp;
use tokio::time::Instant;

use super::{Dropped, Event, EventMetrics, Occurrence, Reference};

/// A series ends after this time without a repeat. Source: client-go `tools/events`, `finishTime`.
pub(super) const FINISH_TIME: Duration = Duration::from_mins(6);
/// The second occurrence is written at once, later ones together at most this often; a failed write is retried after
/// this time.
pub(super) const WRITE_INTERVAL: Duration = Duration::from_mins(1);
/// Most series remembered, about a kilobyte each.
pub(super) const SERIES_LIMIT: usize = 1024;
/// Requests about one object: one in five minutes, after a burst. Source: client-go `tools/record/events_cache.go`,
/// `defaultSpamQPS` and `defaultSpamBurst`.
const REQUESTS_PER_OBJECT: (f64, u32) = (1.0 / 300.0, 25);
/// Most objects whose requests are counted. Source: ditto, `maxLruCacheEntries`.
pub(super) const OBJECT_LIMIT: usize = 4096;

/// The series of the last minutes.
#[derive(Debug)]
pub(super) struct Ledger {
    series: HashMap<Arc<Event>, Series>,
    pub(super) objects: HashMap<Reference, Requests>,
    origin: Instant,
    metrics: EventMetrics,
    /// Keeps the names of Event objects made in the same nanosecond apart.
    last_stamp: i128,
}

#[derive(Debug)]
struct Series {
    /// Part of the Event object's name.
    stamp: i128,
    /// True if the Event object exists, as far as we know.
    created: bool,
    count: i32,
    first: Timestamp,
    last: Timestamp,
    last_seen: Instant,
    /// No patch before this time.
    next_write: Instant,
    /// When to write what is not written yet; `None` if all is written.
    due: Option<Instant>,
}

/// The requests about one object.
#[derive(Debug)]
pub(super) struct Requests {
    tokens: TokenBucket,
    last: Instant,
}

/// A request to send. Its outcome must be reported to the [`Ledger`].
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Write {
    pub(super) event: Arc<Event>,
    pub(super) stamp: i128,
    /// True: create the Event object; false: patch its series only.
    pub(super) create: bool,
    pub(super) first: Timestamp,
    /// Number of occurrences and time of the last, if there are several.
    pub(super) series: Option<(i32, Timestamp)>,
}

impl Ledger {
    pub(super) fn new(metrics: EventMetrics, origin: Instant) -> Self {
        Self {
            series: HashMap::new(),
            objects: HashMap::new(),
            origin,
            metrics,
            last_stamp: 0,
        }
    }

    /// Takes in an occurrence; returns the write that it makes due at once, if any.
    pub(super) fn observe(&mut self, occurrence: Occurrence, now: Instant) -> Option<Write> {
        let Occurrence { event, at } = occurrence;
        let Some(series) = self.series.get_mut(&event).filter(|series| series.goes_on(now)) else {
            if self.take_token(&event.regarding, now).is_zero() {
                return Some(self.begin(Arc::new(event), at, now));
            }
            self.metrics
                .drop(&event, Dropped::TooManyOfObject, "its object has had too many");
            return None;
        };
        series.count = series.count.saturating_add(1);
        series.last = at;
        series.last_seen = now;
        let due = *series.due.get_or_insert(series.next_write);
        if due > now {
            None
        } else {
            self.write_in_turn(&event, now)
        }
    }

    /// A write that is due.
    pub(super) fn due(&mut self, now: Instant) -> Option<Write> {
        let (event, _) = self
            .series
            .iter()
            .find(|(_, series)| series.due.is_some_and(|due| due <= now))?;
        let event = Arc::clone(event);
        self.write_in_turn(&event, now)
    }

    /// A write that would become due later.
    pub(super) fn unwritten(&mut self, now: Instant) -> Option<Write> {
        let (event, _) = self.series.iter().find(|(_, series)| series.due.is_some())?;
        let event = Arc::clone(event);
        self.write(&event, now)
    }

    /// When [`due`](Self::due) next returns a write.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.series.values().filter_map(|series| series.due).min()
    }

    /// Records that `write` succeeded.
    pub(super) fn written(&mut self, write: &Write) {
        if let Some(series) = self.series.get_mut(&write.event) {
            series.created = true;
        }
    }

    /// Records that the Event object that `write` patched is gone; returns what to write instead.
    pub(super) fn lost(&mut self, write: &Write, now: Instant) -> Option<Write> {
        self.series.get_mut(&write.event)?.created = false;
        self.write(&write.event, now)
    }

    /// Records that `write` failed and may succeed later: it becomes due again unless its series has ended.
    pub(super) fn postpone(&mut self, write: &Write, now: Instant, why: &str) {
        if let Some(series) = self.series.get_mut(&write.event) {
            if now.duration_since(series.last_seen) < FINISH_TIME {
                series.next_write = now + WRITE_INTERVAL;
                series.due = Some(series.next_write);
            } else {
                self.refuse(write, Dropped::Refused, why);
            }
        }
    }

    /// Records that `write` failed for good.
    pub(super) fn refuse(&mut self, write: &Write, reason: Dropped, why: &str) {
        self.metrics.drop(&write.event, reason, why);
        self.forget(write);
    }

    /// Drops the series of `write`, whose namespace is being deleted.
    pub(super) fn forget(&mut self, write: &Write) {
        self.series.remove(&write.event);
    }

    fn begin(&mut self, event: Arc<Event>, at: Timestamp, now: Instant) -> Write {
        self.make_room(now);
        self.last_stamp = at.as_nanosecond().max(self.last_stamp.saturating_add(1));
        let series = Series {
            stamp: self.last_stamp,
            created: false,
            count: 1,
            first: at,
            last: at,
            last_seen: now,
            next_write: now,
            due: None,
        };
        let write = series.to_write(Arc::clone(&event));
        self.series.insert(event, series);
        write
    }

    /// Returns the due write of `event`; if its object has had too many requests, postpones it.
    fn write_in_turn(&mut self, event: &Event, now: Instant) -> Option<Write> {
        let wait = self.take_token(&event.regarding, now);
        if wait.is_zero() {
            return self.write(event, now);
        }
        self.series.get_mut(event)?.due = Some(now + wait);
        None
    }

    /// Takes a token for a request about `object`; if there is none, returns how long until there is.
    fn take_token(&mut self, object: &Reference, now: Instant) -> Duration {
        if self.objects.len() >= OBJECT_LIMIT && !self.objects.contains_key(object) {
            let oldest = self.objects.iter().min_by_key(|(_, requests)| requests.last);
            if let Some(oldest) = oldest.map(|(object, _)| object.clone()) {
                self.objects.remove(&oldest);
            }
        }
        let requests = self.objects.entry(object.clone()).or_insert_with(|| {
            let (qps, burst) = REQUESTS_PER_OBJECT;
            Requests {
                tokens: TokenBucket::new(qps, burst),
                last: now,
            }
        });
        requests.last = now;
        let wait = requests.tokens.take(now - self.origin);
        if !wait.is_zero() {
            requests.tokens.give_back();
        }
        wait
    }

    fn write(&mut self, event: &Event, now: Instant) -> Option<Write> {
        let event = Arc::clone(self.series.get_key_value(event)?.0);
        let series = self.series.get_mut(&event)?;
        series.due = None;
        series.next_write = now + WRITE_INTERVAL;
        Some(series.to_write(event))
    }

    /// Forgets ended series and, if there are still too many, the one that was quiet for longest.
    fn make_room(&mut self, now: Instant) {
        if self.series.len() < SERIES_LIMIT {
            return;
        }
        self.series.retain(|_, series| series.goes_on(now));
        if self.series.len() < SERIES_LIMIT {
            return;
        }
        let quietest = self.series.iter().min_by_key(|(_, series)| series.last_seen);
        if let Some(event) = quietest.map(|(event, _)| Arc::clone(event))
            && let Some(series) = self.series.remove(&event)
            && series.due.is_some()
        {
            self.metrics
                .drop(&event, Dropped::TooManySeries, "too many series");
        }
    }
}

impl Series {
    /// True if another occurrence belongs to this series.
    fn goes_on(&self, now: Instant) -> bool {
        self.due.is_some() || now.duration_since(self.last_seen) < FINISH_TIME
    }

    fn to_write(&self, event: Arc<Event>) -> Write {
        Write {
            event,
            stamp: self.stamp,
            create: !self.created,
            first: self.first,
            series: (self.count > 1).then_some((self.count, self.last)),
        }
    }
}
