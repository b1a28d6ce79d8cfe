//! The door for tests: a tower service in this process, without sockets, so that time can be paused.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, header};
use http_body_util::BodyExt;

use super::reply::Body;
use super::server::Shared;

/// A connection to a [`Server`](super::Server) in this process, to build a `kube::Client` on.
///
/// An error stands for a connection that failed.
#[derive(Clone, Debug)]
pub struct Door {
    shared: Arc<Shared>,
    user_agent: Option<HeaderValue>,
}

impl Door {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            user_agent: None,
        }
    }

    /// Names the client in requests that do not name it themselves.
    pub(super) fn with_user_agent(mut self, user_agent: &str) -> Self {
        self.user_agent = HeaderValue::from_str(user_agent).ok();
        self
    }
}

impl<B> tower::Service<Request<B>> for Door
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<tower::BoxError>,
{
    type Response = Response<Body>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let shared = self.shared.clone();
        let user_agent = self.user_agent.clone();
        async move {
            let (mut head, body) = request.into_parts();
            if let Some(user_agent) = user_agent {
                head.headers.entry(header::USER_AGENT).or_insert(user_agent);
            }
            let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
            shared.handle(Request::from_parts(head, body)).await
        }
        .boxed()
    }
}
