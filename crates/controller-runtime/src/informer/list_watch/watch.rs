//! One watch: its events, and how it ends.

use std::time::Duration;

use controller_core::cache::{
    ErrorKind, Frames, Lenient, Presence, SourceError, SourceEvent, WatchEvent, Wire,
};
use controller_core::config::Encoding;
use controller_core::error::Chain;
use http_body_util::BodyExt;
use tokio::time::Instant;

use super::Step;
use super::failure::{is_end, other, refused};
use crate::api::http::AnswerBody;
use crate::clock::Clock;

/// A watch that has lasted this long is healthy. One that ends sooner has failed, so that a server (or a proxy) that
/// closes every watch is not called in a hot loop; client-go does the same.
const HEALTHY_AFTER: Duration = Duration::from_secs(5);
/// A watch that is silent for this long may be dead, whatever keeps the connection alive: kube-apiserver sends a
/// bookmark each minute, if anything has changed. The next watch continues from its version, or fails.
const SILENT_FOR: Duration = Duration::from_mins(2);
/// The limit of silence while the watch delivers the existing objects: then it has something to send.
const STALLED_FOR: Duration = Duration::from_secs(30);

/// An established watch.
pub(super) struct Watch {
    /// The version that it has reached.
    pub(super) version: String,
    /// True while it delivers the existing objects.
    pub(super) is_list: bool,
    body: AnswerBody,
    pub(super) frames: Frames,
    since: Instant,
    heard: Instant,
    is_proven: bool,
}

/// What has happened on a watch.
pub(super) enum Happened {
    /// Bytes have arrived.
    Events,
    /// The watch has lasted for [`HEALTHY_AFTER`].
    Proven,
    Ended,
    Failed(SourceError),
}

/// What an event means.
pub(super) struct Told<V> {
    pub(super) event: Option<SourceEvent<V>>,
    /// The next step, if it is not on this watch.
    pub(super) step: Option<Step>,
}

impl<V> Told<V> {
    const fn event(event: SourceEvent<V>) -> Self {
        Self {
            event: Some(event),
            step: None,
        }
    }

    /// An event is lost: a new list makes up for it.
    fn anew(why: &str) -> Self {
        Self {
            event: Some(SourceEvent::Failed(other(format!("watch: {why}")))),
            step: Some(Step::Begin),
        }
    }
}

impl Watch {
    pub(super) fn new(
        version: String,
        is_list: bool,
        body: AnswerBody,
        encoding: Encoding,
        now: Instant,
    ) -> Self {
        Self {
            version,
            is_list,
            body,
            frames: Frames::new(encoding),
            since: now,
            heard: now,
            is_proven: false,
        }
    }

    pub(super) async fn next(&mut self, clock: &Clock) -> Happened {
        let timer = match (self.is_list, self.is_proven) {
            (true, _) => self.heard + STALLED_FOR,
            (false, false) => self.since + HEALTHY_AFTER,
            (false, true) => self.heard + SILENT_FOR,
        };
        let frame = tokio::select! {
            biased;
            frame = self.body.frame() => frame,
            () = clock.sleep_until(timer) => {
                if self.is_list || self.is_proven {
                    return Happened::Ended;
                }
                self.is_proven = true;
                return Happened::Proven;
            }
        };
        let now = clock.instant();
        let is_early = !self.is_list && now.duration_since(self.since) < HEALTHY_AFTER;
        match frame {
            Some(Ok(frame)) => {
                self.heard = now;
                if let Some(data) = frame.data_ref() {
                    self.frames.push(data);
                }
                Happened::Events
            }
            None if is_early => Happened::Failed(other(format!(
                "watch: the server closed it within {HEALTHY_AFTER:?}"
            ))),
            Some(Err(error)) if is_early => Happened::Failed(other(format!(
                "watch: it broke within {HEALTHY_AFTER:?}: {}",
                Chain(error.as_ref())
            ))),
            // Only its bookmark may end a list.
            Some(Err(error)) if self.is_list || !is_end(error.as_ref()) => {
                Happened::Failed(other(format!("watch: {}", Chain(error.as_ref()))))
            }
            None | Some(Err(_)) => Happened::Ended,
        }
    }

    pub(super) fn told<W: Wire>(&mut self, event: Result<WatchEvent<W>, String>) -> Told<W::View> {
        match event {
            Err(why) => Told::anew(&why),
            Ok(WatchEvent::Bookmark {
                version,
                ends_initial_events: true,
            }) if self.is_list => Told {
                event: Some(SourceEvent::InitDone {
                    version: Some(version.as_str().into()),
                }),
                // Another watch continues, over HTTP/2 (`api/transport.rs`).
                step: Some(Step::Listed(version)),
            },
            Ok(WatchEvent::Bookmark { version, .. }) => {
                self.version = version;
                Told {
                    event: None,
                    step: None,
                }
            }
            Ok(WatchEvent::Error(status)) => {
                let error = refused("watch", &status);
                let step = if self.is_list || error.kind == ErrorKind::Expired {
                    Step::Begin
                } else {
                    Step::Listed(std::mem::take(&mut self.version))
                };
                Told {
                    event: Some(SourceEvent::Failed(error)),
                    step: Some(step),
                }
            }
            Ok(WatchEvent::Applied(object) | WatchEvent::Deleted(object))
                if !self.is_list && object.version().is_none() =>
            {
                Told::anew("an object has no resourceVersion")
            }
            Ok(WatchEvent::Applied(object)) if self.is_list => Told::event(initial(object)),
            Ok(WatchEvent::Applied(object)) => {
                self.has_come_to(&object);
                Told::event(applied(object))
            }
            Ok(WatchEvent::Deleted(object)) => {
                self.has_come_to(&object);
                let removed = object.removed();
                Told::event(removed.map_or_else(SourceEvent::Skipped, SourceEvent::Deleted))
            }
        }
    }

    fn has_come_to<W: Wire>(&mut self, object: &Lenient<W>) {
        self.version.clear();
        self.version.push_str(object.version().unwrap_or_default());
    }
}

pub(super) fn initial<W: Wire>(object: Lenient<W>) -> SourceEvent<W::View> {
    match applied(object) {
        SourceEvent::Applied(observed) => SourceEvent::InitItem(observed),
        other => other,
    }
}

fn applied<W: Wire>(object: Lenient<W>) -> SourceEvent<W::View> {
    match object.observed() {
        Ok(Presence::Kept(observed)) => SourceEvent::Applied(observed),
        Ok(Presence::NotKept(removed)) => SourceEvent::Deleted(removed),
        Err(skipped) => SourceEvent::Skipped(skipped),
    }
}
