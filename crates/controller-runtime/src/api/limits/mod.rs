//! The layers that every request passes on its way out and back: client-side limit, deadline, `Retry-After` and request
//! metrics.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use controller_core::api::namespace_terminates;
use controller_core::controller::{Limit, RetryShare};
use controller_core::workqueue::TokenBucket;
use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use kube::core::Status;
use kube::core::response::StatusDetails;
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep_until};
use tower::BoxError;

use super::dated::status_of;
use super::http::{AnswerBody, Http, error_of, whole};
use super::metrics::RequestMetrics;
use crate::clock::Clock;

/// Longest time for one request, from the moment it may be sent to the last byte of its answer. For a watch, to the
/// headers of its answer.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Larger error answers do not come from the API server.
const MAX_ERROR_BODY: usize = 1 << 20;

/// The client-side limit on requests; watches, Lease requests and events do not count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// `--kube-api-qps`: requests a second in the long run; 0 for no limit.
    pub qps: f64,
    /// `--kube-api-burst`: requests that may be sent at once; 0 for no limit.
    pub burst: u32,
}

/// Request extension: the deadline for this request, instead of [`REQUEST_TIMEOUT`]. The wait for the client-side limit
/// does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerWithin(pub Duration);

/// Request extension: send without waiting for the limit.
#[derive(Clone, Copy, Debug)]
pub struct Permitted {
    /// Time already spent waiting for the permit; `None` if the request needs no permit.
    pub waited: Option<Duration>,
}

/// The permits of [`Limits`]. Cheap to clone: clones share them.
#[derive(Clone, Debug)]
pub struct Permits(Option<Arc<Bucket>>);

/// Share of the client-side limit for keys that keep failing: one request in `RETRY_PART`.
const RETRY_PART: u32 = 4;

#[derive(Debug)]
struct Bucket {
    limits: Limits,
    clock: Clock,
    origin: Instant,
    tokens: Mutex<TokenBucket>,
}

impl Limits {
    /// A token bucket of this size; `None` if there is no limit.
    pub(crate) fn bucket(self) -> Option<TokenBucket> {
        (self.qps > 0.0 && self.burst > 0).then(|| TokenBucket::new(self.qps, self.burst))
    }
}

impl Permits {
    /// A full bucket of permits.
    pub fn new(limits: Limits, clock: &Clock) -> Self {
        Self(limits.bucket().map(|tokens| {
            Arc::new(Bucket {
                limits,
                clock: clock.clone(),
                origin: clock.instant(),
                tokens: Mutex::new(tokens),
            })
        }))
    }

    /// Takes a permit and returns how long to wait until it is valid.
    fn reserve(&self) -> Duration {
        self.0
            .as_ref()
            .map_or(Duration::ZERO, |bucket| bucket.tokens.lock().take(bucket.now()))
    }

    const fn is_limited(&self) -> bool {
        self.0.is_some()
    }

    /// The share of the permits for keys that keep failing.
    pub fn retry_share(&self) -> RetryShare {
        self.0.as_ref().map_or_else(RetryShare::default, |bucket| {
            let Limits { qps, burst } = bucket.limits;
            RetryShare::new(qps / f64::from(RETRY_PART), (burst / RETRY_PART).max(1))
        })
    }
}

impl Bucket {
    fn now(&self) -> Duration {
        self.clock.instant() - self.origin
    }
}

impl Limit for Permits {
    fn wait(&self) -> Duration {
        self.0
            .as_ref()
            .map_or(Duration::ZERO, |bucket| bucket.tokens.lock().wait(bucket.now()))
    }

    fn take(&self) {
        self.reserve();
    }
}

/// A request exceeded its deadline; whether it had an effect is unknown.
#[derive(Debug, thiserror::Error)]
#[error("no complete answer within {} s", .0.as_secs())]
pub struct TimedOut(Duration);

struct Gate {
    inner: Http,
    permits: Permits,
    clock: Clock,
    metrics: RequestMetrics,
    host: String,
}

/// Makes every request wait for one of `permits`, then sends it through `inner`.
pub fn limited(
    inner: impl Into<Http>,
    permits: Permits,
    clock: &Clock,
    metrics: &RequestMetrics,
    host: String,
) -> Http {
    let gate = Arc::new(Gate {
        inner: inner.into(),
        permits,
        clock: clock.clone(),
        metrics: metrics.clone(),
        host,
    });
    Http::by(move |request| {
        let gate = Arc::clone(&gate);
        async move { gate.send(request).await.map_err(error_of) }.boxed()
    })
}

impl Gate {
    async fn send(&self, request: Request<Body>) -> Result<Response<AnswerBody>, BoxError> {
        let watch = is_watch(&request);
        let method = request.method().clone();
        let is_free = watch || has_its_own_pace(&request) || !self.permits.is_limited();
        let waited = match request.extensions().get::<Permitted>() {
            _ if is_free => None,
            Some(permitted) => permitted.waited,
            None => {
                let wait = self.permits.reserve();
                self.clock.sleep(wait).await;
                Some(wait)
            }
        };
        if let Some(waited) = waited {
            self.metrics.observe_wait(&method, &self.host, waited);
        }
        let start = self.clock.instant();
        let within = request.extensions().get::<AnswerWithin>();
        let within = within.map_or(REQUEST_TIMEOUT, |within| within.0);
        let mut deadline = Box::pin(sleep_until(start + within));
        let result = tokio::select! {
            biased;
            result = self.exchange(request) => result,
            () = &mut deadline => Err(TimedOut(within).into()),
        };
        let took = self.clock.instant() - start;
        let code = result.as_ref().ok().map(|response| response.status().as_u16());
        self.metrics.observe(&method, &self.host, code, took);
        // Events of a watch may come hours later: only the headers have a deadline.
        Ok(result?.map(|inner| {
            if watch {
                return inner;
            }
            let body = DeadlineBody {
                inner,
                deadline,
                within,
            };
            body.boxed_unsync()
        }))
    }

    async fn exchange(&self, request: Request<Body>) -> Result<Response<AnswerBody>, BoxError> {
        let method = request.method().clone();
        let response = self.inner.send(request).await?;
        let response = match retry_after_header(&response) {
            Some(seconds) => with_retry_after(response, seconds).await?,
            None => response,
        };
        let code = response.status();
        if code != StatusCode::FORBIDDEN {
            self.metrics.answered(&method, code);
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let text = error_body(body).await?;
        if !status_of(&text).is_some_and(|status| namespace_terminates(&status)) {
            self.metrics.answered(&method, code);
        }
        Ok(Response::from_parts(parts, whole(text)))
    }
}

fn error_body(body: AnswerBody) -> BoxFuture<'static, Result<Bytes, BoxError>> {
    let collected = Limited::new(body, MAX_ERROR_BODY).collect();
    collected.map_ok(http_body_util::Collected::to_bytes).boxed()
}

/// True if the request follows changes: its answer has no end.
pub(crate) fn is_watch<B>(request: &Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query
        .split('&')
        .any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

/// True for leader election, paced by its retry period, and for events, paced by `--event-qps`.
fn has_its_own_pace(request: &Request<Body>) -> bool {
    let path = request.uri().path();
    let groups = ["/apis/coordination.k8s.io/", "/apis/events.k8s.io/"];
    groups.iter().any(|group| path.contains(group))
}

fn retry_after_header(response: &Response<AnswerBody>) -> Option<u32> {
    if !(response.status().is_client_error() || response.status().is_server_error()) {
        return None;
    }
    response
        .headers()
        .get(RETRY_AFTER)?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// Writes the header's wait into the `Status`, the only part of an answer that kube's errors keep. Priority and
/// fairness answers in plain text, so a `Status` may have to be made.
async fn with_retry_after(
    response: Response<AnswerBody>,
    seconds: u32,
) -> Result<Response<AnswerBody>, BoxError> {
    let (mut parts, body) = response.into_parts();
    let text = error_body(body).await?;
    let mut status = status_of(&text).unwrap_or_else(|| {
        let reason = if parts.status.as_u16() == 429 {
            "TooManyRequests"
        } else {
            "ServiceUnavailable"
        };
        Status::failure(String::from_utf8_lossy(&text).trim(), reason).with_code(parts.status.as_u16())
    });
    let details = status.details.get_or_insert_with(|| StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    });
    details.retry_after_seconds = details.retry_after_seconds.max(seconds);
    parts
        .headers
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(Response::from_parts(parts, whole(serde_json::to_vec(&status)?)))
}

/// A body that fails if the request's deadline passes before the body ends.
struct DeadlineBody {
    inner: AnswerBody,
    deadline: Pin<Box<Sleep>>,
    within: Duration,
}

impl http_body::Body for DeadlineBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        let passed = self.deadline.as_mut().poll(cx);
        passed.map(|()| Some(Err(TimedOut(self.within).into())))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.inner.size_hint()
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}

#[cfg(test)]
mod tests;
