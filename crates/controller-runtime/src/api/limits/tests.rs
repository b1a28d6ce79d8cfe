use std::convert::Infallible;

use controller_core::api::{AnswerClass, Verb};
use http::Method;
use prometheus::Registry;
use serde_json::json;

use super::*;
use crate::api::classify;

fn clock() -> Clock {
    Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap())
}

fn client_of<F, Fut>(answer: F, limits: Limits) -> kube::Client
where
    F: Fn(Request<Body>) -> Fut + Send + Sync + Clone + 'static,
    Fut: Future<Output = Response<Body>> + Send + 'static,
{
    client_with(&Registry::new(), answer, limits)
}

fn client_with<F, Fut>(registry: &Registry, answer: F, limits: Limits) -> kube::Client
where
    F: Fn(Request<Body>) -> Fut + Send + Sync + Clone + 'static,
    Fut: Future<Output = Response<Body>> + Send + 'static,
{
    let service = tower::service_fn(move |request| {
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let metrics = RequestMetrics::register(registry).unwrap();
    limited(
        Http::new(service),
        Permits::new(limits, &clock()),
        &clock(),
        &metrics,
        "test".into(),
    )
    .client()
}

const UNLIMITED: Limits = Limits { qps: 0.0, burst: 0 };

fn get(path: &str) -> Request<Vec<u8>> {
    Request::get(path).body(Vec::new()).unwrap()
}

async fn wait_asked_for(code: u16, body: &'static str) -> AnswerClass {
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
    let seven = AnswerClass::Throttled(Duration::from_secs(7));
    assert_eq!(
        wait_asked_for(429, "Too many requests, please try again later.").await,
        seven
    );
    let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"m","reason":"TooManyRequests","details":{"retryAfterSeconds":1},"code":429}"#;
    assert_eq!(wait_asked_for(429, status).await, seven);
    let (fate_unknown, wait) = (true, Duration::from_secs(7));
    assert_eq!(
        wait_asked_for(503, "apiserver is shutting down").await,
        AnswerClass::Retry { fate_unknown, wait }
    );
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

/// The sums and counts of `rest_client_rate_limiter_duration_seconds` after `requests` under `limits`.
async fn waits(limits: Limits, requests: impl IntoIterator<Item = Request<Body>>) -> Vec<String> {
    let registry = Registry::new();
    let client = client_with(&registry, |_| async { Response::new(Body::empty()) }, limits);
    for request in requests {
        client.send(request).await.unwrap();
    }
    let text = crate::metrics::encode(&registry).unwrap();
    let waits = text
        .lines()
        .filter_map(|line| line.strip_prefix("rest_client_rate_limiter_duration_seconds_"));
    waits
        .filter(|line| !line.starts_with("bucket"))
        .map(str::to_owned)
        .collect()
}

fn empty(method: Method, path: &str, permitted: Option<Permitted>) -> Request<Body> {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .body(Body::empty())
        .unwrap();
    if let Some(permitted) = permitted {
        request.extensions_mut().insert(permitted);
    }
    request
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_the_limit_is_measured_wherever_it_was_waited_for() {
    let one_a_second = Limits { qps: 1.0, burst: 1 };
    let of_the_loop = Permitted {
        waited: Some(Duration::from_secs(30)),
    };
    let requests = || {
        [
            empty(Method::GET, "/api/v1/nodes/a", None),
            empty(Method::GET, "/api/v1/nodes/b", None),
            empty(Method::PATCH, "/api/v1/nodes/b", Some(of_the_loop)),
            // None of these counts against the limit.
            empty(Method::GET, "/api/v1/nodes", Some(Permitted { waited: None })),
            empty(Method::GET, "/api/v1/nodes?watch=true", None),
            empty(
                Method::PUT,
                "/apis/coordination.k8s.io/v1/namespaces/a/leases/b",
                None,
            ),
        ]
    };
    assert_eq!(
        waits(one_a_second, requests()).await,
        [
            "sum{host=\"test\",verb=\"GET\"} 1",
            "count{host=\"test\",verb=\"GET\"} 2",
            "sum{host=\"test\",verb=\"PATCH\"} 30",
            "count{host=\"test\",verb=\"PATCH\"} 1",
        ]
    );
    assert_eq!(waits(UNLIMITED, requests()).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn watches_leases_and_events_are_not_limited() {
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
        client
            .request_text(get("/apis/events.k8s.io/v1/namespaces/a/events/b"))
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
    assert_eq!(classify(Verb::Patch, &error), AnswerClass::retry(true));
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
        Http::new(service),
        Permits::new(UNLIMITED, &clock()),
        &clock(),
        &metrics,
        "test".into(),
    )
    .client()
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
        Http::new(service),
        Permits::new(UNLIMITED, &clock()),
        &clock(),
        &metrics,
        "10.0.0.1:6443".into(),
    )
    .client();
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
        text.contains("rest_client_requests_total{code=\"<error>\",host=\"10.0.0.1:6443\",method=\"GET\"} 1"),
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
        Http::new(service),
        Permits::new(UNLIMITED, &clock()),
        &clock(),
        &metrics,
        "test".into(),
    )
    .client();
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
