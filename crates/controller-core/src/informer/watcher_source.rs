//! The source over kube's `watcher`, with JSON views.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::core::Status;
use kube::discovery::ApiResource;
use kube::runtime::watcher;
use kube::{Api, Client};

use super::guard::{Guarded, Presence};
use super::source::{ErrorKind, Skipped, Source, SourceError, SourceEvent};
use super::view::Wire;
use super::watch_health::WatchHealth;
use super::{Interner, page_size};
use crate::api::outcome::retry_after;
use crate::clock::Clock;
use crate::error::Chain;

/// Lists in pages, then watches with bookmarks; each object is decoded to a view as it arrives.
///
/// A 410 leads to a new list, whenever it comes. A watch that ends within 5 s of its start is a failure,
/// so that a server that closes every watch is not asked in a hot loop.
pub struct WatcherSource<W: Wire> {
    client: Client,
    resource: ApiResource,
    interner: Arc<Interner>,
    health: WatchHealth,
    /// Made at the first use, and again when only a new list helps.
    watcher: Option<Watcher<W>>,
}

type Watcher<W> = BoxStream<'static, watcher::Result<watcher::Event<Guarded<W>>>>;

impl<W: Wire> WatcherSource<W> {
    /// Every object of `resource`, in every namespace. Must be called within a tokio runtime.
    ///
    /// `client` must not retry on its own: the informer is the only retrier.
    pub fn new(client: Client, resource: ApiResource, interner: Arc<Interner>, clock: Clock) -> Self {
        let (client, health) = WatchHealth::observe(client, clock);
        Self {
            client,
            resource,
            interner,
            health,
            watcher: None,
        }
    }

    fn start(&self) -> Watcher<W> {
        let client = self.client.clone();
        let config = watcher::Config::default().page_size(page_size::MOST);
        watcher(Api::all_with(client, &self.resource), config).boxed()
    }

    fn event(&self, event: watcher::Event<Guarded<W>>) -> SourceEvent<W::View> {
        let interner = &self.interner;
        let event: Result<_, Skipped> = match event {
            watcher::Event::Init => Ok(SourceEvent::Init),
            watcher::Event::InitApply(object) => object.observed(interner).map(|presence| match presence {
                Presence::Kept(observed) => SourceEvent::InitItem(observed),
                Presence::NotKept(removed) => SourceEvent::Deleted(removed),
            }),
            watcher::Event::InitDone => Ok(SourceEvent::InitDone { version: None }),
            watcher::Event::Apply(object) => object.observed(interner).map(|presence| match presence {
                Presence::Kept(observed) => SourceEvent::Applied(observed),
                Presence::NotKept(removed) => SourceEvent::Deleted(removed),
            }),
            watcher::Event::Delete(object) => object.removed(interner).map(SourceEvent::Deleted),
        };
        event.unwrap_or_else(SourceEvent::Skipped)
    }
}

impl<W: Wire> Source for WatcherSource<W> {
    type View = W::View;

    async fn next(&mut self) -> SourceEvent<W::View> {
        let watcher = match self.watcher.take() {
            Some(watcher) => watcher,
            None => self.start(),
        };
        let watcher = self.watcher.insert(watcher);
        tokio::select! {
            biased;
            item = watcher.next() => match item {
                Some(Ok(event)) => self.event(event),
                Some(Err(error)) => {
                    let failure = source_error(&error);
                    if failure.kind == ErrorKind::Expired || has_lost_an_event(&error) {
                        self.watcher = None;
                    }
                    SourceEvent::Failed(failure)
                }
                // kube's stream has no end; were it to get one, a new stream is the way on.
                None => {
                    self.watcher = None;
                    SourceEvent::Failed(SourceError {
                        kind: ErrorKind::Other,
                        retry_after: None,
                        message: "the watcher ended".to_owned(),
                    })
                }
            },
            () = self.health.proven() => SourceEvent::Healthy,
        }
    }
}

/// A line of a watch that is no watch event at all: kube would go on behind it, without what it said.
fn has_lost_an_event(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchFailed(kube::Error::SerdeError(_)))
}

fn source_error(error: &watcher::Error) -> SourceError {
    let (action, status) = what_failed(error);
    SourceError {
        kind: status.map_or(ErrorKind::Other, kind),
        retry_after: status.and_then(retry_after),
        message: match status {
            // kube's text has the status twice, once as a dump.
            Some(status) => format!("{action}: {} {}: {}", status.code, status.reason, status.message),
            None => Chain(error).to_string(),
        },
    }
}

/// What was being done, and the API server's answer if there was one.
fn what_failed(error: &watcher::Error) -> (&'static str, Option<&Status>) {
    use watcher::Error::{InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed};
    let (action, cause) = match error {
        InitialListFailed(cause) => ("list", cause),
        WatchStartFailed(cause) => ("start the watch", cause),
        WatchFailed(cause) => ("watch", cause),
        WatchError(status) => return ("watch", Some(status)),
        NoResourceVersion => return ("list", None),
    };
    match cause {
        kube::Error::Api(status) => (action, Some(status)),
        _ => (action, None),
    }
}

fn kind(status: &Status) -> ErrorKind {
    match status.code {
        410 => ErrorKind::Expired,
        403 => ErrorKind::Forbidden,
        429 => ErrorKind::Throttled,
        404 => ErrorKind::NotServed,
        // An event of a watch need not carry the code.
        _ if matches!(status.reason.as_str(), "Expired" | "Gone") => ErrorKind::Expired,
        _ => ErrorKind::Other,
    }
}
