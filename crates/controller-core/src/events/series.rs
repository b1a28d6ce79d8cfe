//! Which occurrences become a new Event object, which a longer series of one, and when that is written. One object gets
//! only so many requests, as with client-go's `EventSourceObjectSpamFilter`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::{Dropped, Event, EventMetrics, Occurrence, Reference};
use crate::workqueue::TokenBucket;

/// An event that was not repeated for so long has ended its series. Source: client-go `tools/events`, `finishTime`.
pub(super) const FINISH_TIME: Duration = Duration::from_mins(6);
/// The second occurrence is written at once, the later ones together at most this often; a write that failed is
/// tried again after it.
pub(super) const WRITE_INTERVAL: Duration = Duration::from_mins(1);
/// Series that are remembered, about a kilobyte each.
pub(super) const SERIES_LIMIT: usize = 1024;
/// Requests about one object: one in five minutes, after a burst. Source: client-go `tools/record/events_cache.go`,
/// `defaultSpamQPS` and `defaultSpamBurst`.
const REQUESTS_PER_OBJECT: (f64, u32) = (1.0 / 300.0, 25);
/// Objects whose requests are counted. Source: the same, `maxLruCacheEntries`.
pub(super) const OBJECT_LIMIT: usize = 4096;

/// The events of the last minutes.
#[derive(Debug)]
pub(super) struct Ledger {
    series: HashMap<Arc<Event>, Series>,
    pub(super) objects: HashMap<Reference, Requests>,
    origin: Instant,
    metrics: EventMetrics,
    /// Keeps the names of Event objects apart that are made in the same nanosecond.
    last_stamp: i128,
}

#[derive(Debug)]
struct Series {
    /// Goes into the name of the Event object.
    stamp: i128,
    /// Whether the Event object exists, as far as we know.
    created: bool,
    count: i32,
    first: Timestamp,
    last: Timestamp,
    last_seen: Instant,
    /// No patch before this.
    next_write: Instant,
    /// When to write what is not written yet; `None` when everything is.
    due: Option<Instant>,
}

/// The requests about one object.
#[derive(Debug)]
pub(super) struct Requests {
    tokens: TokenBucket,
    last: Instant,
}

/// A request to be made. Its outcome must be reported to the [`Ledger`].
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Write {
    pub(super) event: Arc<Event>,
    pub(super) stamp: i128,
    /// Whether the Event object must be created; else only its series is patched.
    pub(super) create: bool,
    pub(super) first: Timestamp,
    /// How often it happened and when last, where it did more than once.
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

    /// Takes an occurrence in; what to write about it at once, if anything.
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

    /// A write that has become due.
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

    /// When [`due`](Self::due) next has something.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.series.values().filter_map(|series| series.due).min()
    }

    /// The Event object is as `write` wanted it.
    pub(super) fn written(&mut self, write: &Write) {
        if let Some(series) = self.series.get_mut(&write.event) {
            series.created = true;
        }
    }

    /// The Event object that `write` wanted to patch is no more: what to write instead.
    pub(super) fn lost(&mut self, write: &Write, now: Instant) -> Option<Write> {
        self.series.get_mut(&write.event)?.created = false;
        self.write(&write.event, now)
    }

    /// `write` failed and may succeed later: it becomes due again, unless the series has ended meanwhile.
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

    /// `write` failed for good.
    pub(super) fn refuse(&mut self, write: &Write, reason: Dropped, why: &str) {
        self.metrics.drop(&write.event, reason, why);
        self.forget(write);
    }

    /// `write` is of no use any more: the namespace goes away.
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

    /// Writes what is due of `event`, unless its object has had too many requests: then it is due later.
    fn write_in_turn(&mut self, event: &Event, now: Instant) -> Option<Write> {
        let wait = self.take_token(&event.regarding, now);
        if wait.is_zero() {
            return self.write(event, now);
        }
        self.series.get_mut(event)?.due = Some(now + wait);
        None
    }

    /// Takes a token for a request about `object`, if there is one; else returns how long until there is.
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

    /// Forgets the series that have ended, and when there are too many all the same, the one that was quiet for
    /// the longest time.
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
    /// Whether another occurrence belongs to it.
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
