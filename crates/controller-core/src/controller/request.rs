//! A query or a write as a request, and how it is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, HeaderValue};
use jiff::Timestamp;
use kube::Resource;
use kube::client::Body;

use super::{Accepted, Query, Write};
use crate::api::dated::{body_of, date_of};
use crate::api::limits::{AnswerWithin, Permitted};
use crate::api::{Call, CallFailed, Caller, Http, Verb};
use crate::config::Encoding;
use crate::informer::{Wire, read_meta};
use crate::leader::{LeaseLost, Term};

/// A request as data.
#[derive(Debug)]
pub struct Request {
    /// Verb, resource and target, for messages and the classification of the answer.
    pub call: Call,
    /// The request itself, as [`kube::core::Request`] makes it.
    pub http: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    answer_within: Option<Duration>,
    /// The `Accept` header where protobuf is wanted, if the answer can be read in it.
    accept: Option<String>,
}

impl Request {
    /// A request for `target`: an object of `resource`, or what a list selects.
    pub fn new(
        verb: Verb,
        resource: &'static str,
        target: &impl ToString,
        http: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Self {
        let target = target.to_string();
        Self {
            call: Call {
                verb,
                resource,
                target,
            },
            http,
            answer_within: None,
            accept: None,
        }
    }

    /// Limits the time until the answer to `time`, in place of the usual limit.
    #[must_use]
    pub fn answered_within(self, time: Duration) -> Self {
        Self {
            answer_within: Some(time),
            ..self
        }
    }

    /// Accepts the answer in either encoding, as `W` reads objects.
    #[must_use]
    pub fn read_as<W: Wire>(self) -> Self {
        let accept = Encoding::Protobuf.accept::<W>(self.call.verb == Verb::List);
        Self {
            accept: Some(accept),
            ..self
        }
    }
}

/// Makes requests to the objects of `K`, in `namespace` if the kind has any.
pub fn requests_to<K: Resource<DynamicType = ()>>(namespace: Option<&str>) -> kube::core::Request {
    kube::core::Request::new(K::url_path(&(), namespace))
}

/// Sends the requests of a controller.
#[derive(Clone)]
pub struct Sender {
    http: Http,
    pub(super) caller: Caller,
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
        let request = query.request();
        let call = request.call.clone();
        let mut date = None;
        let read = async {
            let (body, said) = self.send(request, Permitted { waited }).await?;
            date = said;
            query.read(&body).map_err(kube::Error::SerdeError)
        };
        let value = self.caller.read(call, read).await;
        (value, date)
    }

    /// Sends a write while `term` lasts; `waited`: time until its permit.
    pub(super) async fn write(
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
            let (body, _) = self.send(request, permitted).await?;
            Ok(accepted(&body))
        };
        self.caller.write(term, call, sent).await
    }

    /// Sends a request; returns the body of the answer and the API server's clock.
    async fn send(&self, request: Request, permitted: Permitted) -> kube::Result<(Bytes, Option<Timestamp>)> {
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
        let date = date_of(response.headers());
        Ok((body_of(response).await?, date))
    }
}

/// The body may also be a `Status`, or what a proxy makes of it: then it says nothing about the object.
fn accepted(body: &[u8]) -> Accepted {
    let meta = std::str::from_utf8(body).map(read_meta).unwrap_or_default();
    Accepted {
        uid: meta.uid,
        version: meta.resource_version.and_then(|version| version.parse().ok()),
        deleting: meta.is_deleting,
    }
}
