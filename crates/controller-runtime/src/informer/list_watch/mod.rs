//! Lists a resource, then watches it: a [`Source`] over HTTP.

mod failure;
mod watch;

use std::collections::VecDeque;
use std::sync::Arc;

use controller_core::cache::{ErrorKind, ListPage, SourceError, SourceEvent, Wire};
use controller_core::config::Encoding;
use http::header::{ACCEPT, HeaderValue};
use http::{Request, Response, StatusCode};
use kube::api::{DynamicObject, ListParams, WatchParams};
use kube::client::Body;
use kube::core::Resource;
use kube::discovery::ApiResource;

use self::failure::{other, source_error};
use self::watch::{Happened, Watch, initial};
use super::page_size::PageSize;
use super::source::Source;
use crate::api::dated::body_of;
use crate::api::http::{AnswerBody, Http};
use crate::api::limits::Permitted;
use crate::clock::Clock;

/// Lists, then watches with bookmarks; decodes each object to a view as it arrives.
///
/// A list is a watch that begins with the existing objects and ends after them (a streaming list). If the API server
/// does not serve streaming lists, the list comes in pages. A 410 leads to a new list, whenever it comes. When a watch
/// ends, the next one continues from its version.
pub struct ListWatch<W: Wire> {
    http: Http,
    resource: ApiResource,
    clock: Clock,
    encoding: Encoding,
    /// Field selector.
    fields: Option<&'static str>,
    lists: Lists,
    /// How many streams have ended in good order since the last complete one.
    ends: u32,
    page_size: PageSize,
    step: Step,
    /// Events that are still to be delivered.
    ready: VecDeque<SourceEvent<W::View>>,
}

/// kube-apiserver ends a stream in good order when it shuts down, when the reader is slow, and when what it sent is
/// void. This many in a row say that no bookmark ends the existing objects: the API server does not know streaming
/// lists, and serves them like any watch.
const ENDS_IN_A_ROW: u32 = 2;

/// How the next list comes.
#[derive(Clone, Copy)]
enum Lists {
    /// As a stream, as far as we know.
    Streamed,
    /// In pages, since a stream failed; the next list is a stream again.
    PagedOnce,
    /// In pages, since no stream is served.
    Paged,
}

/// What to do next.
enum Step {
    Begin,
    /// Open a watch that begins with the existing objects.
    Stream,
    /// Read the next page, the first without a token.
    Page(Option<String>),
    /// Open a watch from this version.
    Listed(String),
    Watch(Box<Watch>),
}

impl<W: Wire> ListWatch<W> {
    /// Every object of `resource`, in every namespace, requested in `encoding`.
    ///
    /// `http` must not retry on its own: the informer is the only retrier.
    pub fn new(http: impl Into<Http>, resource: ApiResource, encoding: Encoding, clock: Clock) -> Self {
        Self {
            http: http.into(),
            resource,
            clock,
            encoding,
            fields: None,
            lists: Lists::Streamed,
            ends: 0,
            page_size: PageSize::default(),
            step: Step::Begin,
            ready: VecDeque::new(),
        }
    }

    /// Only the objects that match this field selector.
    #[must_use]
    pub fn with_fields(self, fields: Option<&'static str>) -> Self {
        Self { fields, ..self }
    }

    /// Does one step; its events go to `ready`.
    async fn advance(&mut self) {
        let failed = match &mut self.step {
            Step::Begin => {
                self.ready.push_back(SourceEvent::Init);
                (self.step, self.lists) = match self.lists {
                    Lists::Streamed => (Step::Stream, Lists::Streamed),
                    Lists::PagedOnce => (Step::Page(None), Lists::Streamed),
                    Lists::Paged => (Step::Page(None), Lists::Paged),
                };
                return;
            }
            Step::Stream => self.open(None).await,
            Step::Page(token) => {
                let token = token.clone();
                self.read_page(token).await
            }
            Step::Listed(version) => {
                let version = version.clone();
                self.open(Some(version)).await
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
            field_selector: self.fields.map(str::to_owned),
            ..ListParams::default().limit(limit)
        };
        let request = self.requests().list(&params);
        let response = self.send(request, true).await.map_err(failed)?;
        let encoding = Encoding::of(response.headers());
        let body = body_of(response).await.map_err(failed)?;
        self.page_size.adapt(limit, body.len());
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
        self.ready.extend(items.into_iter().map(initial));
        if let Step::Listed(version) = &step {
            let version = Some(Arc::from(version.as_str()));
            self.ready.push_back(SourceEvent::InitDone { version });
        }
        self.step = step;
        Ok(())
    }

    /// Opens a watch, from `version` or with the existing objects.
    async fn open(&mut self, version: Option<String>) -> Result<(), SourceError> {
        let is_list = version.is_none();
        let action = if is_list { "list" } else { "start the watch" };
        let failed = |error: kube::Error| source_error(action, &error);
        let params = WatchParams {
            send_initial_events: is_list,
            field_selector: self.fields.map(str::to_owned),
            ..WatchParams::default()
        };
        // Without a version it is as recent as the API server's answer to a list.
        let version = version.unwrap_or_default();
        let request = self.requests().watch(&params, &version);
        let response = self.send(request, false).await.map_err(failed)?;
        let encoding = Encoding::of(response.headers());
        let status = response.status();
        if is_list && matches!(status, StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY) {
            tracing::debug!(resource = self.resource.plural, %status, "no streaming lists: pages instead");
            self.lists = Lists::Paged;
            self.step = Step::Page(None);
            return Ok(());
        }
        if !status.is_success() {
            return body_of(response).await.map(drop).map_err(failed);
        }
        let watch = Watch::new(
            version,
            is_list,
            response.into_body(),
            encoding,
            self.clock.instant(),
        );
        self.step = Step::Watch(Box::new(watch));
        Ok(())
    }

    fn happened(&mut self, happened: Happened) {
        let Step::Watch(watch) = &mut self.step else {
            return;
        };
        let (is_list, version) = (watch.is_list, watch.version.clone());
        match happened {
            Happened::Events => return self.read_events(),
            Happened::Proven => return self.ready.push_back(SourceEvent::Healthy),
            Happened::Ended if is_list => {
                self.failed(other("list: it ended before it was complete".to_owned()));
                self.ends += 1;
                if self.ends >= ENDS_IN_A_ROW {
                    self.lists = Lists::Paged;
                }
            }
            Happened::Ended => {}
            Happened::Failed(error) => self.failed(error),
        }
        self.step = if is_list {
            Step::Begin
        } else {
            Step::Listed(version)
        };
    }

    fn read_events(&mut self) {
        let Step::Watch(watch) = &mut self.step else {
            return;
        };
        while let Some(event) = watch.frames.next_event::<W>() {
            let told = watch.told(event);
            self.ready.extend(told.event);
            if let Some(step) = told.step {
                match step {
                    Step::Begin if watch.is_list => self.lists = Lists::PagedOnce,
                    Step::Listed(_) if watch.is_list => self.ends = 0,
                    _ => {}
                }
                self.step = step;
                return;
            }
        }
    }

    fn failed(&mut self, error: SourceError) {
        let is_stream = match &self.step {
            Step::Stream => true,
            Step::Watch(watch) => watch.is_list,
            _ => false,
        };
        // The fault may last: kube-apiserver with an old etcd fails each stream, and serves pages. client-go falls back
        // to pages as well.
        if is_stream && !matches!(error.kind, ErrorKind::Unreachable | ErrorKind::Throttled) {
            self.lists = Lists::PagedOnce;
        }
        if is_stream || matches!(self.step, Step::Page(_)) || error.kind == ErrorKind::Expired {
            self.step = Step::Begin;
        }
        self.ready.push_back(SourceEvent::Failed(error));
    }

    fn requests(&self) -> kube::core::Request {
        kube::core::Request::new(DynamicObject::url_path(&self.resource, None))
    }

    /// Sends a request; one whose answer refuses protobuf is sent again for JSON.
    async fn send(
        &mut self,
        request: Result<Request<Vec<u8>>, kube::core::request::Error>,
        is_list: bool,
    ) -> kube::Result<Response<AnswerBody>> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        loop {
            let mut request = request.clone().map(Body::from);
            let accept = HeaderValue::try_from(self.encoding.accept::<W>(is_list));
            let accept = accept.map_err(|error| kube::Error::HttpError(error.into()))?;
            request.headers_mut().insert(ACCEPT, accept);
            // One page or one watch at a time needs no limit. Nor does it wait behind the writes of a mass event: the
            // continue token of a list expires.
            request.extensions_mut().insert(Permitted { waited: None });
            let response = self.http.send(request).await?;
            if !Encoding::is_refused(response.status()) || self.encoding == Encoding::Json {
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

    fn list_again(&mut self) {
        self.ready.clear();
        self.step = Step::Begin;
    }
}
