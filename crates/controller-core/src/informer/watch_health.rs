//! How long a watch has stood, and for how long it has been silent.
//!
//! kube's `watcher` hides a watch that ends: it starts the next one at once. So a server (or a proxy) that
//! accepts every watch and closes it would be asked in a hot loop. Here a watch that ends too soon is made
//! to fail, as client-go does it, so that the informer backs off. One that sends nothing for two minutes, not even
//! the bookmark of each minute, ends: who is behind it may be gone, whatever keeps the connection alive. The next one
//! goes on from there, or fails.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::OptionFuture;
use http::Request;
use http_body::Frame;
use http_body_util::Either;
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};
use tower::BoxError;

use super::page_size::PageSize;
use crate::api::limits::{Permitted, is_watch};
use crate::clock::Clock;
use crate::error::Chain;

/// A watch that has stood so long is healthy.
pub(super) const HEALTHY_AFTER: Duration = Duration::from_secs(5);
/// A watch that is silent for so long may be dead: kube-apiserver sends a bookmark each minute, if anything has changed.
const SILENT_FOR: Duration = Duration::from_mins(2);

/// Since when the watch stands, if one does.
pub(super) struct WatchHealth {
    clock: Clock,
    since: watch::Receiver<Option<Instant>>,
    /// The watch that was already said to be healthy.
    told: Option<Instant>,
}

/// The answer to a watch request. Fails if it ends before [`HEALTHY_AFTER`]; ends once it is silent for [`SILENT_FOR`].
struct TimedBody {
    body: Body,
    clock: Clock,
    since: Instant,
    heard: Instant,
    silence: Pin<Box<Sleep>>,
    standing: Arc<watch::Sender<Option<Instant>>>,
    ended: bool,
}

/// The cause is part of the message and no `source`: kube treats a body that failed with an unexpected
/// end of file anywhere in the chain as one that ended well.
#[derive(Debug, thiserror::Error)]
enum EndedEarly {
    #[error("the server closed the watch within {HEALTHY_AFTER:?}")]
    Closed,
    #[error("the watch broke within {HEALTHY_AFTER:?}: {0}")]
    Broken(String),
}

impl WatchHealth {
    /// The same client, its watches timed, and the record of them.
    pub(super) fn observe(client: Client, clock: Clock) -> (Client, Self) {
        let standing = Arc::new(watch::Sender::new(None));
        let health = Self {
            since: standing.subscribe(),
            clock: clock.clone(),
            told: None,
        };
        let namespace = client.default_namespace().to_owned();
        let pages = PageSize::default();
        let service = tower::service_fn(move |mut request: Request<Body>| {
            // One page or one watch at a time needs no limit. It does not wait behind the writes of a mass event either:
            // the continue token of a list expires.
            request.extensions_mut().insert(Permitted);
            let (client, clock, standing) = (client.clone(), clock.clone(), Arc::clone(&standing));
            let pages = pages.clone();
            async move {
                let is_watch = is_watch(&request);
                let limit = pages.limit(&mut request);
                let response = client.send(request).await?;
                let is_success = response.status().is_success();
                Ok::<_, kube::Error>(response.map(|body| match limit.filter(|_| is_success) {
                    _ if is_watch && is_success => Either::Left(TimedBody::new(body, clock, standing)),
                    Some(limit) => Either::Right(Either::Left(pages.count(body, limit))),
                    None => Either::Right(Either::Right(body)),
                }))
            }
        });
        (Client::new(service, namespace), health)
    }

    /// Completes when a watch has stood for [`HEALTHY_AFTER`]; once for each watch. Cancel safe.
    pub(super) async fn proven(&mut self) {
        loop {
            let since = *self.since.borrow_and_update();
            let untold = since.filter(|_| since != self.told);
            let proven = untold.map(|since| self.clock.sleep_until(since + HEALTHY_AFTER));
            tokio::select! {
                biased;
                changed = self.since.changed() => if changed.is_err() {
                    // The client is gone, and every watch with it.
                    std::future::pending::<()>().await;
                },
                Some(()) = OptionFuture::from(proven) => {
                    self.told = since;
                    return;
                }
            }
        }
    }
}

impl TimedBody {
    fn new(body: Body, clock: Clock, standing: Arc<watch::Sender<Option<Instant>>>) -> Self {
        let since = clock.instant();
        standing.send_replace(Some(since));
        Self {
            body,
            clock,
            since,
            heard: since,
            silence: Box::pin(tokio::time::sleep_until(since + SILENT_FOR)),
            standing,
            ended: false,
        }
    }
}

impl TimedBody {
    /// Ready once nothing has come for [`SILENT_FOR`]. The timer is set anew when it fires, not for each frame.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            std::task::ready!(self.silence.as_mut().poll(cx));
            let until = self.heard + SILENT_FOR;
            if until <= self.silence.deadline() {
                return Poll::Ready(());
            }
            self.silence.as_mut().reset(until);
        }
    }
}

impl http_body::Body for TimedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let frame = match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.heard = self.clock.instant();
                return Poll::Ready(Some(Ok(frame)));
            }
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                std::task::ready!(self.poll_silence(cx));
                self.ended = true;
                return Poll::Ready(None);
            }
        };
        self.ended = true;

        let early = self.clock.instant().duration_since(self.since) < HEALTHY_AFTER;
        Poll::Ready(match frame {
            Some(Err(error)) if early => Some(Err(EndedEarly::Broken(Chain(&error).to_string()).into())),
            None if early => Some(Err(EndedEarly::Closed.into())),
            frame => frame.map(|frame| frame.map_err(Into::into)),
        })
    }
}

impl Drop for TimedBody {
    fn drop(&mut self) {
        self.standing.send_if_modified(|standing| {
            let mine = *standing == Some(self.since);
            if mine {
                *standing = None;
            }
            mine
        });
    }
}
