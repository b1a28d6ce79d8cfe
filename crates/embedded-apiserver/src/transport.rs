//! The transport for tests: a tower service in this process, without sockets, so that time can be paused.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, header};
use http_body_util::BodyExt;

use super::access::User;
use super::reply::Body;
use super::shared::Shared;

/// A connection to a [`Server`](super::Server) in this process, on which a `kube::Client` can be built.
///
/// An error means that the connection failed.
#[derive(Clone, Debug)]
pub struct Transport {
    shared: Arc<Shared>,
    user_agent: Option<HeaderValue>,
    /// The user of requests without a token.
    user: User,
}

impl Transport {
    /// The transport for tests: every user is an administrator.
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            user_agent: None,
            user: User::admin(),
        }
    }

    /// The transport for other processes: every user is anonymous.
    pub(super) fn from_outside(shared: Arc<Shared>) -> Self {
        Self::new(shared).as_user(User::anonymous())
    }

    /// Makes `user` the user of requests without a token.
    #[must_use]
    pub fn as_user(mut self, user: User) -> Self {
        self.user = user;
        self
    }

    /// Sets the `User-Agent` of requests without one.
    #[must_use]
    pub fn with_user_agent(mut self, user_agent: &str) -> Self {
        self.user_agent = HeaderValue::from_str(user_agent).ok();
        self
    }
}

impl<B> tower::Service<Request<B>> for Transport
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
        let user = self.user.clone();
        async move {
            let (mut head, body) = request.into_parts();
            if let Some(user_agent) = user_agent {
                head.headers.entry(header::USER_AGENT).or_insert(user_agent);
            }
            head.extensions.insert(user);
            let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
            shared.handle(Request::from_parts(head, body)).await
        }
        .boxed()
    }
}
