//! Sends the queries and writes of a controller, which are data.

mod caller;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use controller_core::api::{CallFailed, LeaseLost};
use controller_core::config::Encoding;
use controller_core::controller::{Accepted, Query, Request, Write};
use http::header::{ACCEPT, HeaderValue};
use jiff::Timestamp;
use kube::client::Body;

pub use self::caller::Caller;
use crate::api::Http;
use crate::api::dated::{body_of, date_of};
use crate::api::limits::{AnswerWithin, Permitted};
use crate::leader::Term;

/// Sends the requests of a controller.
#[derive(Clone)]
pub struct Sender {
    http: Http,
    pub(crate) caller: Caller,
    asks_for_protobuf: Arc<AtomicBool>,
}

impl Sender {
    /// Sends through `http`; `caller` classifies the answers. Requests objects in `encoding`, and in JSON once protobuf
    /// was refused.
    pub fn new(http: impl Into<Http>, caller: Caller, encoding: Encoding) -> Self {
        Self {
            http: http.into(),
            caller,
            asks_for_protobuf: Arc::new(AtomicBool::new(encoding == Encoding::Protobuf)),
        }
    }

    /// Sends a query; returns the answer and the API server's clock. `waited`: time until its permit, if the limit
    /// applies.
    pub(crate) async fn ask<Q: Query>(
        &self,
        query: &Q,
        waited: Option<Duration>,
    ) -> (Result<Q::Answer, CallFailed>, Option<Timestamp>) {
        let (body, date) = self.fetch(query, waited).await;
        (self.decode(query, body).await, date)
    }

    /// Sends a query, as [`ask`](Self::ask) does; returns the body of the answer.
    pub(crate) async fn fetch(
        &self,
        query: &impl Query,
        waited: Option<Duration>,
    ) -> (Result<Bytes, CallFailed>, Option<Timestamp>) {
        let request = query.request();
        let call = request.call.clone();
        let mut date = None;
        let body = self.send(request, Permitted { waited }, &mut date);
        let body = self.caller.read(call, body).await;
        (body, date)
    }

    /// Decodes the body of the answer to `query`.
    pub(crate) async fn decode<Q: Query>(
        &self,
        query: &Q,
        body: Result<Bytes, CallFailed>,
    ) -> Result<Q::Answer, CallFailed> {
        let body = body?;
        let read = async { query.read(&body).map_err(kube::Error::SerdeError) };
        self.caller.read(query.request().call, read).await
    }

    /// Sends a write while `term` lasts; `waited`: time until its permit.
    pub(crate) async fn write(
        &self,
        write: &impl Write,
        term: Option<&Term>,
        waited: Duration,
    ) -> Result<Accepted, CallFailed> {
        let request = write.request();
        let call = request.call.clone();
        let Some(term) = term else {
            return Err(CallFailed::LeaseLost {
                call,
                source: LeaseLost,
            });
        };
        let sent = async {
            let permitted = Permitted { waited: Some(waited) };
            let body = self.send(request, permitted, &mut None).await?;
            Accepted::read(&body).map_err(kube::Error::SerdeError)
        };
        self.caller.write(term, call, sent).await
    }

    /// Sends a request; returns the body of a success. Any answer sets `date` to the API server's clock.
    async fn send(
        &self,
        request: Request,
        permitted: Permitted,
        date: &mut Option<Timestamp>,
    ) -> kube::Result<Bytes> {
        let mut http = request.http.map_err(kube::Error::BuildRequest)?;
        http.extensions_mut().insert(permitted);
        if let Some(within) = request.answer_within {
            http.extensions_mut().insert(AnswerWithin(within));
        }
        let mut response = None;
        let asks_for_protobuf = self.asks_for_protobuf.load(Ordering::Relaxed);
        if let Some(accept) = request.accept.filter(|_| asks_for_protobuf) {
            let mut in_protobuf = http.clone().map(Body::from);
            let accept = HeaderValue::try_from(accept);
            let accept = accept.map_err(|error| kube::Error::HttpError(error.into()))?;
            in_protobuf.headers_mut().insert(ACCEPT, accept);
            let answer = self.http.send(in_protobuf).await?;
            if Encoding::is_refused(answer.status()) {
                self.asks_for_protobuf.store(false, Ordering::Relaxed);
                // The first request has counted the wait.
                http.extensions_mut().insert(Permitted { waited: None });
            } else {
                response = Some(answer);
            }
        }
        let response = match response {
            Some(response) => response,
            None => self.http.send(http.map(Body::from)).await?,
        };
        *date = date_of(response.headers());
        body_of(response).await
    }
}
