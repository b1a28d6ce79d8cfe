//! Lists a resource, then watches it: a [`Source`] over HTTP.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::api::{DynamicObject, ListParams, WatchParams};
use kube::client::Body;
use kube::core::{Resource, Status};
use kube::discovery::ApiResource;
use tokio::time::Instant;

use super::Interner;
use super::encoding::{Encoding, Frames, ListPage, WatchEvent};
use super::guard::{Guarded, Presence};
use super::page_size::PageSize;
use super::source::{ErrorKind, Source, SourceError, SourceEvent};
use super::view::Wire;
use crate::api::dated::body_of;
use crate::api::limits::Permitted;
use crate::api::outcome::retry_after;
use crate::clock::Clock;
use crate::error::Chain;

/// A watch that has stood so long is healthy. One that ends sooner has failed, so that a server (or a proxy) that closes
/// every watch is not asked in a hot loop; client-go does the same.
const HEALTHY_AFTER: Duration = Duration::from_secs(5);
/// A watch that is silent for so long may be dead, whatever keeps the connection alive: kube-apiserver sends a bookmark
/// each minute, if anything has changed. The next one goes on from there, or fails.
const SILENT_FOR: Duration = Duration::from_mins(2);

/// Lists in pages, then watches with bookmarks; each object is decoded to a view as it arrives.
///
/// A 410 leads to a new list, whenever it comes. A watch that ends is followed by the next one, which goes on from there.
pub struct ListWatch<W: Wire> {
    client: Client,
    resource: ApiResource,
    interner: Arc<Interner>,
    clock: Clock,
    encoding: Encoding,
    page_size: PageSize,
    step: Step,
    /// What is still to be told.
    ready: VecDeque<SourceEvent<W::View>>,
}

/// What is to be done next.
enum Step {
    Begin,
    /// Read the next page, the first without a token.
    Page(Option<String>),
    /// Open a watch from this version.
    Listed(String),
    Watch(Box<Watch>),
}

/// A watch that stands.
struct Watch {
    version: String,
    body: Body,
    frames: Frames,
    since: Instant,
    heard: Instant,
    is_proven: bool,
}

impl<W: Wire> ListWatch<W> {
    /// Every object of `resource`, in every namespace, asked for in `encoding`.
    ///
    /// `client` must not retry on its own: the informer is the only retrier.
    pub fn new(
        client: Client,
        resource: ApiResource,
        encoding: Encoding,
        interner: Arc<Interner>,
        clock: Clock,
    ) -> Self {
        Self {
            client,
            resource,
            interner,
            clock,
            encoding,
            page_size: PageSize::default(),
            step: Step::Begin,
            ready: VecDeque::new(),
        }
    }

    /// Does one step; what comes of it is in `ready`.
    async fn advance(&mut self) {
        let failed = match &mut self.step {
            Step::Begin => {
                self.ready.push_back(SourceEvent::Init);
                self.step = Step::Page(None);
                return;
            }
            Step::Page(token) => {
                let token = token.clone();
                self.read_page(token)
                    .await
                    .inspect_err(|_| self.step = Step::Begin)
            }
            Step::Listed(version) => {
                let version = version.clone();
                self.open(version).await
            }
            Step::Watch(watch) => {
                let happened = watch.next(&self.clock).await;
                self.happened(happened);
                return;
            }
        };
        if let Err(error) = failed {
            self.failed(error);
        }
    }

    async fn read_page(&mut self, token: Option<String>) -> Result<(), SourceError> {
        let failed = |error: kube::Error| source_error("list", &error);
        let limit = self.page_size.limit(token.is_some());
        let params = ListParams {
            continue_token: token,
            ..ListParams::default().limit(limit)
        };
        let request = self.requests().list(&params);
        let response = self.send(request, true).await.map_err(failed)?;
        let encoding = Encoding::of(response.headers());
        let body = body_of(response).await.map_err(failed)?;
        self.page_size.learn(limit, body.len());
        let unreadable = |why| other(format!("list: {why}"));
        let ListPage {
            version,
            token,
            items,
        } = encoding.page::<W>(&body).map_err(unreadable)?;
        let step = match (token, version) {
            (Some(token), _) => Step::Page(Some(token)),
            (None, Some(version)) => Step::Listed(version),
            (None, None) => return Err(unreadable("it has no resourceVersion".to_owned())),
        };
        let items = items.into_iter().map(|object| initial(object, &self.interner));
        self.ready.extend(items);
        if let Step::Listed(version) = &step {
            let version = Some(Arc::from(version.as_str()));
            self.ready.push_back(SourceEvent::InitDone { version });
        }
        self.step = step;
        Ok(())
    }

    async fn open(&mut self, version: String) -> Result<(), SourceError> {
        let failed = |error: kube::Error| source_error("start the watch", &error);
        let request = self.requests().watch(&WatchParams::default(), &version);
        let response = self.send(request, false).await.map_err(failed)?;
        let encoding = Encoding::of(response.headers());
        if !response.status().is_success() {
            return body_of(response).await.map(drop).map_err(failed);
        }
        let now = self.clock.instant();
        self.step = Step::Watch(Box::new(Watch {
            version,
            body: response.into_body(),
            frames: Frames::new(encoding),
            since: now,
            heard: now,
            is_proven: false,
        }));
        Ok(())
    }

    fn happened(&mut self, happened: Happened) {
        let Step::Watch(watch) = &mut self.step else {
            return;
        };
        match happened {
            Happened::Events => {
                while let Some(event) = watch.frames.next::<W>() {
                    let told = watch.told(event, &self.interner);
                    self.ready.extend(told.event);
                    if let Some(step) = told.step {
                        self.step = step;
                        return;
                    }
                }
            }
            Happened::Proven => self.ready.push_back(SourceEvent::Healthy),
            Happened::Ended => self.step = Step::Listed(std::mem::take(&mut watch.version)),
            Happened::Failed(error) => {
                self.step = Step::Listed(std::mem::take(&mut watch.version));
                self.failed(error);
            }
        }
    }

    fn failed(&mut self, error: SourceError) {
        if error.kind == ErrorKind::Expired {
            self.step = Step::Begin;
        }
        self.ready.push_back(SourceEvent::Failed(error));
    }

    fn requests(&self) -> kube::core::Request {
        kube::core::Request::new(DynamicObject::url_path(&self.resource, None))
    }

    /// The answer; one that refuses protobuf is asked for JSON instead.
    async fn send(
        &mut self,
        request: Result<Request<Vec<u8>>, kube::core::request::Error>,
        is_list: bool,
    ) -> kube::Result<Response<Body>> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        loop {
            let mut request = request.clone().map(Body::from);
            let accept = HeaderValue::try_from(self.encoding.accept::<W>(is_list));
            let accept = accept.map_err(|error| kube::Error::HttpError(error.into()))?;
            request.headers_mut().insert(ACCEPT, accept);
            // One page or one watch at a time needs no limit. It does not wait behind the writes of a mass event either:
            // the continue token of a list expires.
            request.extensions_mut().insert(Permitted);
            let response = self.client.send(request).await?;
            let is_refused = matches!(
                response.status(),
                StatusCode::NOT_ACCEPTABLE | StatusCode::UNSUPPORTED_MEDIA_TYPE
            );
            if !is_refused || self.encoding == Encoding::Json {
                return Ok(response);
            }
            tracing::info!(
                resource = self.resource.plural,
                "no protobuf is served: JSON instead"
            );
            self.encoding = Encoding::Json;
        }
    }
}

impl<W: Wire> Source for ListWatch<W> {
    type View = W::View;

    async fn next(&mut self) -> SourceEvent<W::View> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return event;
            }
            self.advance().await;
        }
    }
}

/// What has happened on a watch.
enum Happened {
    /// Something has come.
    Events,
    /// It has stood for [`HEALTHY_AFTER`].
    Proven,
    Ended,
    Failed(SourceError),
}

/// What an event means.
struct Told<V> {
    event: Option<SourceEvent<V>>,
    /// Where it goes on, if not on this watch.
    step: Option<Step>,
}

impl Watch {
    async fn next(&mut self, clock: &Clock) -> Happened {
        let silent = self.heard + SILENT_FOR;
        let timer = if self.is_proven {
            silent
        } else {
            self.since + HEALTHY_AFTER
        };
        let frame = tokio::select! {
            biased;
            frame = self.body.frame() => frame,
            () = clock.sleep_until(timer) => {
                if self.is_proven {
                    return Happened::Ended;
                }
                self.is_proven = true;
                return Happened::Proven;
            }
        };
        let now = clock.instant();
        let is_early = now.duration_since(self.since) < HEALTHY_AFTER;
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
                Chain(&error)
            ))),
            Some(Err(error)) if !is_end(&error) => {
                Happened::Failed(other(format!("watch: {}", Chain(&error))))
            }
            None | Some(Err(_)) => Happened::Ended,
        }
    }

    fn told<W: Wire>(&mut self, event: Result<WatchEvent<W>, String>, interner: &Interner) -> Told<W::View> {
        let anew = |why: String| Told {
            event: Some(SourceEvent::Failed(other(format!("watch: {why}")))),
            step: Some(Step::Begin),
        };
        match event {
            // What it said is lost.
            Err(why) => anew(why),
            Ok(WatchEvent::Bookmark { version, .. }) => {
                self.version = version;
                Told {
                    event: None,
                    step: None,
                }
            }
            Ok(WatchEvent::Error(status)) => {
                let error = refused("watch", &status);
                let step = if error.kind == ErrorKind::Expired {
                    Step::Begin
                } else {
                    Step::Listed(std::mem::take(&mut self.version))
                };
                Told {
                    event: Some(SourceEvent::Failed(error)),
                    step: Some(step),
                }
            }
            Ok(WatchEvent::Applied(object)) => match object.version() {
                None => anew("an object has no resourceVersion".to_owned()),
                Some(version) => {
                    version.clone_into(&mut self.version);
                    Told {
                        event: Some(applied(object, interner)),
                        step: None,
                    }
                }
            },
            Ok(WatchEvent::Deleted(object)) => match object.version() {
                None => anew("an object has no resourceVersion".to_owned()),
                Some(version) => {
                    version.clone_into(&mut self.version);
                    let removed = object.removed(interner);
                    Told {
                        event: Some(removed.map_or_else(SourceEvent::Skipped, SourceEvent::Deleted)),
                        step: None,
                    }
                }
            },
        }
    }
}

fn initial<W: Wire>(object: Guarded<W>, interner: &Interner) -> SourceEvent<W::View> {
    match applied(object, interner) {
        SourceEvent::Applied(observed) => SourceEvent::InitItem(observed),
        other => other,
    }
}

fn applied<W: Wire>(object: Guarded<W>, interner: &Interner) -> SourceEvent<W::View> {
    match object.observed(interner) {
        Ok(Presence::Kept(observed)) => SourceEvent::Applied(observed),
        Ok(Presence::NotKept(removed)) => SourceEvent::Deleted(removed),
        Err(skipped) => SourceEvent::Skipped(skipped),
    }
}

/// Whether a watch may end so: after some minutes, behind a proxy.
fn is_end(error: &kube::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        if matches!(kind, Some(io::ErrorKind::UnexpectedEof | io::ErrorKind::TimedOut)) {
            return true;
        }
        cause = error.source();
    }
    false
}

fn source_error(action: &str, error: &kube::Error) -> SourceError {
    match error {
        kube::Error::Api(status) => refused(action, status),
        error => other(format!("{action}: {}", Chain(error))),
    }
}

fn refused(action: &str, status: &Status) -> SourceError {
    SourceError {
        kind: kind(status),
        retry_after: retry_after(status),
        message: format!("{action}: {} {}: {}", status.code, status.reason, status.message),
    }
}

const fn other(message: String) -> SourceError {
    SourceError {
        kind: ErrorKind::Other,
        retry_after: None,
        message,
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
