//! What every request passes on its way out and back: the client-side limit, a deadline, `Retry-After`
//! and the request metrics.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use kube::core::Status;
use kube::core::response::StatusDetails;
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::BoxError;

use super::dated::status_of;
use super::metrics::RequestMetrics;
use super::outcome::namespace_terminates;
use crate::clock::Clock;
use crate::controller::{Limit, RetryShare};
use crate::workqueue::TokenBucket;

/// How long one request may take, from the moment it may be sent to the last byte of its answer. A
/// watch has this long to answer its headers.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// An error answer larger than this is not one of the API server's.
const MAX_ERROR_BODY: usize = 1 << 20;

/// The client-side limit on requests; watches and Lease requests do not count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// `--kube-api-qps`: requests a second in the long run; 0 for no limit.
    pub qps: f64,
    /// `--kube-api-burst`: requests that may go at once; 0 for no limit.
    pub burst: u32,
}

/// In the extensions of a request: how long it may take, instead of [`REQUEST_TIMEOUT`]. The wait for the
/// client-side limit does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerWithin(pub Duration);

/// In the extensions of a request: it has its permit already, and does not wait for the limit.
#[derive(Clone, Copy, Debug)]
pub struct Permitted;

/// The permits of [`Limits`]. Cheap to clone: clones share them.
#[derive(Clone, Debug)]
pub struct Permits(Option<Arc<Bucket>>);

/// The part of the limit that keys may take which fail again and again: one in so many requests.
const RETRY_PART: u32 = 4;

#[derive(Debug)]
struct Bucket {
    limits: Limits,
    clock: Clock,
    origin: Instant,
    tokens: Mutex<TokenBucket>,
}

impl Limits {
    /// Its tokens; none where there is no limit.
    pub(crate) fn bucket(self) -> Option<TokenBucket> {
        (self.qps > 0.0 && self.burst > 0).then(|| TokenBucket::new(self.qps, self.burst))
    }
}

impl Permits {
    /// As many as `limits` allow.
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

    /// What keys may take of it that fail again and again.
    pub fn retry_share(&self) -> RetryShare {
        self.0.as_ref().map_or_else(RetryShare::default, |bucket| {
            let Limits { qps, burst } = bucket.limits;
            RetryShare::new(qps / f64::from(RETRY_PART), (burst / RETRY_PART).max(1))
        })
    }
}

impl Limit for Permits {
    fn take(&self) -> Duration {
        self.0.as_ref().map_or(Duration::ZERO, |bucket| {
            let now = bucket.clock.instant() - bucket.origin;
            bucket.tokens.lock().take(now)
        })
    }

    fn give_back(&self) {
        if let Some(bucket) = &self.0 {
            bucket.tokens.lock().give_back();
        }
    }
}

/// A request took longer than it may; whether it had an effect is unknown.
#[derive(Debug, thiserror::Error)]
#[error("no complete answer within {} s", .0.as_secs())]
pub struct TimedOut(Duration);

struct Gate {
    inner: kube::Client,
    permits: Permits,
    clock: Clock,
    metrics: RequestMetrics,
    host: String,
}

/// A client whose every request waits for one of `permits` and then goes through `inner`.
pub fn limited(
    inner: kube::Client,
    permits: Permits,
    clock: &Clock,
    metrics: &RequestMetrics,
    host: String,
) -> kube::Client {
    let namespace = inner.default_namespace().to_owned();
    let gate = Arc::new(Gate {
        inner,
        permits,
        clock: clock.clone(),
        metrics: metrics.clone(),
        host,
    });
    let service = tower::service_fn(move |request| {
        let gate = Arc::clone(&gate);
        async move { gate.send(request).await }
    });
    kube::Client::new(service, namespace)
}

impl Gate {
    async fn send(&self, request: Request<Body>) -> Result<Response<DeadlineBody>, BoxError> {
        let watch = is_watch(&request);
        let is_free = watch || is_lease(&request) || request.extensions().get::<Permitted>().is_some();
        if !is_free {
            self.clock.sleep(self.permits.take()).await;
        }
        let method = request.method().clone();
        let start = self.clock.instant();
        let within = request.extensions().get::<AnswerWithin>();
        let within = within.map_or(REQUEST_TIMEOUT, |within| within.0);
        let deadline = start + within;
        let answered = tokio::time::timeout_at(deadline, self.exchange(request)).await;
        let took = self.clock.instant() - start;
        let result = answered.unwrap_or_else(|_| Err(TimedOut(within).into()));
        let code = result.as_ref().ok().map(|response| response.status().as_u16());
        self.metrics.observe(&method, &self.host, code, took);
        // An event of a watch may come hours later: only its headers have a deadline.
        let rest = (!watch).then(|| Box::pin(tokio::time::sleep_until(deadline)));
        Ok(result?.map(|body| DeadlineBody {
            inner: body,
            deadline: rest,
            within,
        }))
    }

    async fn exchange(&self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
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
        Ok(Response::from_parts(parts, text.into()))
    }
}

async fn error_body(body: Body) -> Result<Bytes, BoxError> {
    Ok(Limited::new(body, MAX_ERROR_BODY).collect().await?.to_bytes())
}

/// Whether the request follows changes: its answer has no end.
pub(crate) fn is_watch<B>(request: &Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query
        .split('&')
        .any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

fn is_lease(request: &Request<Body>) -> bool {
    request.uri().path().contains("/apis/coordination.k8s.io/")
}

fn retry_after_header(response: &Response<Body>) -> Option<u32> {
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

/// Writes the header's wait into the `Status`, which is all that kube's errors keep of an answer.
/// Priority and fairness answers in plain text, so there may be no `Status` yet.
async fn with_retry_after(response: Response<Body>, seconds: u32) -> Result<Response<Body>, BoxError> {
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
    Ok(Response::from_parts(
        parts,
        Body::from(serde_json::to_vec(&status)?),
    ))
}

/// A body that fails when the request's deadline passes before its end.
pub struct DeadlineBody {
    inner: Body,
    deadline: Option<Pin<Box<tokio::time::Sleep>>>,
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
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let passed = self
            .deadline
            .as_mut()
            .is_some_and(|deadline| deadline.as_mut().poll(cx).is_ready());
        if passed {
            Poll::Ready(Some(Err(TimedOut(self.within).into())))
        } else {
            Poll::Pending
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.inner.size_hint()
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use prometheus::Registry;
    use serde_json::json;

    use super::*;
    use crate::api::{Outcome, Verb, classify};

    fn clock() -> Clock {
        Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap())
    }

    fn client_of<F, Fut>(answer: F, limits: Limits) -> kube::Client
    where
        F: Fn(Request<Body>) -> Fut + Send + Sync + Clone + 'static,
        Fut: Future<Output = Response<Body>> + Send + 'static,
    {
        let service = tower::service_fn(move |request| {
            let answer = answer(request);
            async move { Ok::<_, Infallible>(answer.await) }
        });
        let metrics = RequestMetrics::register(&Registry::new()).unwrap();
        limited(
            kube::Client::new(service, "default"),
            Permits::new(limits, &clock()),
            &clock(),
            &metrics,
            "test".into(),
        )
    }

    const UNLIMITED: Limits = Limits { qps: 0.0, burst: 0 };

    fn get(path: &str) -> Request<Vec<u8>> {
        Request::get(path).body(Vec::new()).unwrap()
    }

    async fn wait_asked_for(code: u16, body: &'static str) -> Outcome {
        let client = client_of(
            move |_| async move {
                Response::builder()
                    .status(code)
                    .header("Retry-After", "7")
                    .body(Body::from(body.as_bytes().to_vec()))
                    .unwrap()
            },
            UNLIMITED,
        );
        classify(
            Verb::Patch,
            &client.request_text(get("/api/v1/nodes")).await.unwrap_err(),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_retry_after_header_reaches_the_queue_with_and_without_a_status_body() {
        let seven = Outcome::Throttled(Duration::from_secs(7));
        assert_eq!(
            wait_asked_for(429, "Too many requests, please try again later.").await,
            seven
        );
        let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"m","reason":"TooManyRequests","details":{"retryAfterSeconds":1},"code":429}"#;
        assert_eq!(wait_asked_for(429, status).await, seven);
        assert_eq!(wait_asked_for(503, "apiserver is shutting down").await, seven);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_beyond_the_burst_wait_for_their_turn() {
        let client = client_of(
            |_| async { Response::new(Body::from(b"{}".to_vec())) },
            Limits { qps: 2.0, burst: 3 },
        );
        let start = clock().instant();
        for _ in 0..7 {
            client.request_text(get("/api/v1/nodes")).await.unwrap();
        }
        let took = clock().instant() - start;
        assert!(
            took >= Duration::from_millis(1990) && took <= Duration::from_millis(2020),
            "took {took:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn watches_and_leases_are_not_limited() {
        let client = client_of(
            |_| async { Response::new(Body::from(b"{}".to_vec())) },
            Limits { qps: 0.001, burst: 1 },
        );
        let start = clock().instant();
        for _ in 0..50 {
            client
                .request_text(get("/api/v1/nodes?&watch=true&allowWatchBookmarks=true"))
                .await
                .unwrap();
            client
                .request_text(get("/apis/coordination.k8s.io/v1/namespaces/a/leases/b"))
                .await
                .unwrap();
        }
        assert_eq!(clock().instant() - start, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_never_answers_is_given_up_after_30_seconds() {
        let client = client_of(|_| std::future::pending(), UNLIMITED);
        let start = clock().instant();
        let error = client.request_text(get("/api/v1/nodes")).await.unwrap_err();
        assert_eq!(clock().instant() - start, Duration::from_secs(30));
        assert_eq!(
            classify(Verb::Patch, &error),
            Outcome::Retry { fate_unknown: true }
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_may_ask_for_less_patience_and_its_turn_does_not_count() {
        let client = client_of(|_| std::future::pending(), Limits { qps: 0.1, burst: 1 });
        let clock = clock();
        let start = clock.instant();
        for expected in [Duration::from_secs(1), Duration::from_secs(11)] {
            let mut request = get("/api/v1/nodes/n").map(Body::from);
            request
                .extensions_mut()
                .insert(AnswerWithin(Duration::from_secs(1)));
            client.send(request).await.unwrap_err();
            assert_eq!(clock.instant() - start, expected);
        }
    }

    /// A body that sends one frame and then nothing more.
    struct Stalls(Option<Bytes>);

    impl http_body::Body for Stalls {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.0
                .take()
                .map_or(Poll::Pending, |bytes| Poll::Ready(Some(Ok(Frame::data(bytes)))))
        }
    }

    fn stalling(first: &'static str) -> kube::Client {
        let service = tower::service_fn(move |_: Request<Body>| async move {
            Ok::<_, Infallible>(Response::new(Stalls(Some(Bytes::from_static(first.as_bytes())))))
        });
        let metrics = RequestMetrics::register(&Registry::new()).unwrap();
        limited(
            kube::Client::new(service, "default"),
            Permits::new(UNLIMITED, &clock()),
            &clock(),
            &metrics,
            "test".into(),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_stalls_half_way_is_given_up_but_a_silent_watch_is_not() {
        let start = clock().instant();
        stalling("{\"kind\":")
            .request_text(get("/api/v1/nodes"))
            .await
            .unwrap_err();
        assert_eq!(clock().instant() - start, Duration::from_secs(30));

        let watch = stalling("{}");
        let silent = watch.request_text(get("/api/v1/nodes?watch=true"));
        assert!(
            tokio::time::timeout(Duration::from_hours(1), silent)
                .await
                .is_err(),
            "the watch was cut off"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_counted_by_code_method_and_host() {
        let registry = Registry::new();
        let metrics = RequestMetrics::register(&registry).unwrap();
        let service = tower::service_fn(|request: Request<Body>| async move {
            if request.uri().path() == "/down" {
                return Err("connection refused".to_owned());
            }
            let status = json!({"kind": "Status", "status": "Failure", "code": 404}).to_string();
            Ok(Response::builder()
                .status(404)
                .body(Body::from(status.into_bytes()))
                .unwrap())
        });
        let client = limited(
            kube::Client::new(service, "default"),
            Permits::new(UNLIMITED, &clock()),
            &clock(),
            &metrics,
            "10.0.0.1:6443".into(),
        );
        client.request_text(get("/api/v1/nodes/a")).await.unwrap_err();
        client.request_text(get("/down")).await.unwrap_err();
        let text = prometheus::TextEncoder::new()
            .encode_to_string(&registry.gather())
            .unwrap();
        assert!(
            text.contains("rest_client_requests_total{code=\"404\",host=\"10.0.0.1:6443\",method=\"GET\"} 1"),
            "{text}"
        );
        assert!(
            text.contains(
                "rest_client_requests_total{code=\"<error>\",host=\"10.0.0.1:6443\",method=\"GET\"} 1"
            ),
            "{text}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_is_counted_but_for_namespaces_that_are_being_deleted() {
        let registry = Registry::new();
        let metrics = RequestMetrics::register(&registry).unwrap();
        let service = tower::service_fn(|request: Request<Body>| async move {
            let (code, status) = match request.uri().path() {
                "/no-token" => (401, json!({"kind": "Status", "code": 401})),
                "/terminating" => {
                    let causes = json!([{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]);
                    (
                        403,
                        json!({"kind": "Status", "code": 403, "details": {"causes": causes}}),
                    )
                }
                "/proxy" => (403, json!("not of the API server")),
                _ => (403, json!({"kind": "Status", "code": 403, "message": "no right"})),
            };
            let body = Body::from(status.to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
        });
        let client = limited(
            kube::Client::new(service, "default"),
            Permits::new(UNLIMITED, &clock()),
            &clock(),
            &metrics,
            "test".into(),
        );
        let refused = |code: &str, method: &str| {
            let text = prometheus::TextEncoder::new()
                .encode_to_string(&registry.gather())
                .unwrap();
            let series = format!("controller_requests_refused_total{{code=\"{code}\",method=\"{method}\"}} ");
            let count = text.lines().find_map(|line| line.strip_prefix(&*series));
            count.unwrap().parse::<u32>().unwrap()
        };
        for path in ["/no-token", "/terminating", "/proxy", "/no-right"] {
            let create = Request::post(path).body(Vec::new()).unwrap();
            client.request_text(create).await.unwrap_err();
        }
        assert_eq!((refused("401", "POST"), refused("403", "POST")), (1, 2));
        let error = client.request_text(get("/no-right")).await.unwrap_err();
        assert!(error.to_string().contains("no right"), "{error}");
        assert_eq!((refused("401", "GET"), refused("403", "GET")), (0, 1));
    }
}
