//! Sends requests to the API server.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use tower::{BoxError, Service, ServiceExt, service_fn};

/// The body of an answer, not yet read.
pub type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// Sends each request on the caller's task, with no task in between, unlike a [`kube::Client`]. Cheap to clone; clones
/// share the connections.
#[derive(Clone)]
pub struct Http(Arc<Way>);

type Way = dyn Fn(Request<Body>) -> Sending + Send + Sync;
pub(super) type Sending = BoxFuture<'static, kube::Result<Response<AnswerBody>>>;

/// Request extension: use connections that no other request uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aside;

impl Http {
    /// Sends through `service`, which is cloned for each request.
    pub fn new<S, B>(service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send,
        B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        Self::by(move |request| {
            let sent = service.clone().oneshot(request);
            let answered = sent.map(|answer| match answer {
                Ok(answer) => Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync())),
                Err(error) => Err(error_of(error.into())),
            });
            answered.boxed()
        })
    }

    /// Sends each request through `way`.
    pub(super) fn by(way: impl Fn(Request<Body>) -> Sending + Send + Sync + 'static) -> Self {
        Self(Arc::new(way))
    }

    /// Sends a request; an answer with any status is `Ok`.
    pub async fn send(&self, request: Request<Body>) -> kube::Result<Response<AnswerBody>> {
        (self.0)(request).await
    }

    /// Sends to the same API server over separate connections, so that callers who poll the shared ones slowly cannot
    /// hold these up.
    #[must_use]
    pub fn aside(&self) -> Self {
        let Self(way) = self.clone();
        Self::by(move |mut request| {
            request.extensions_mut().insert(Aside);
            way(request)
        })
    }

    /// A [`kube::Client`] over this, for code written to kube's interface. It spawns a task on the current runtime that
    /// forwards the requests.
    pub fn client(&self) -> kube::Client {
        let http = self.clone();
        let service = service_fn(move |request| (http.0)(request));
        kube::Client::new(service, "default")
    }
}

/// For the client of a test.
impl From<kube::Client> for Http {
    fn from(client: kube::Client) -> Self {
        Self::new(service_fn(move |request| {
            let client = client.clone();
            async move { client.send(request).await }
        }))
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Http")
    }
}

/// A body that is already complete.
pub(super) fn whole(bytes: impl Into<Bytes>) -> AnswerBody {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// The error as kube's type: a layer may have failed with kube's own.
pub(super) fn error_of(error: BoxError) -> kube::Error {
    match error.downcast::<kube::Error>() {
        Ok(error) => *error,
        Err(error) => kube::Error::Service(error),
    }
}
