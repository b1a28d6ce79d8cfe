//! client-go's request metrics (CORE-9), under client-go's names and buckets
//! (`component-base/metrics/prometheus/restclient`), and counts of refused requests.

use std::time::Duration;

use controller_core::metrics::register;
use http::{Method, StatusCode, Uri};
use jiff::Timestamp;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry};

/// Status codes that refuse a request.
const REFUSALS: [StatusCode; 2] = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN];
/// The methods that the client uses.
const METHODS: [Method; 5] = [
    Method::DELETE,
    Method::GET,
    Method::PATCH,
    Method::POST,
    Method::PUT,
];

/// Counts and times every request of the client, and counts the refused ones.
#[derive(Clone, Debug)]
pub struct RequestMetrics {
    requests: IntCounterVec,
    refused: IntCounterVec,
    duration: HistogramVec,
    wait: HistogramVec,
    /// A vector without labels, so that it is hidden until it is set.
    certificate: IntGaugeVec,
}

/// Upper bounds in seconds.
const BUCKETS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

impl RequestMetrics {
    /// Makes the families and registers them; fails if the registry already has one of them.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let requests = IntCounterVec::new(
            Opts::new(
                "rest_client_requests_total",
                "Number of HTTP requests, partitioned by status code, method, and host.",
            ),
            &["code", "method", "host"],
        );
        let seconds = |name, help| {
            let options = HistogramOpts::new(name, help).buckets(BUCKETS.to_vec());
            register(registry, HistogramVec::new(options, &["verb", "host"]))
        };
        let refused = IntCounterVec::new(
            Opts::new(
                "controller_requests_refused_total",
                "Number of requests that the API server refused with 401 or 403, by code and method. Those into a \
                 namespace that is being deleted do not count.",
            ),
            &["code", "method"],
        );
        let refused = register(registry, refused)?;
        let certificate = IntGaugeVec::new(
            Opts::new(
                "controller_client_certificate_expiration_timestamp_seconds",
                "When the client certificate of the kubeconfig expires, in seconds since 1970; none without one.",
            ),
            &[],
        );
        // `increase()` misses the first count of a series that did not exist before.
        for code in &REFUSALS {
            for method in &METHODS {
                refused.with_label_values(&[code.as_str(), method.as_str()]);
            }
        }
        Ok(Self {
            requests: register(registry, requests)?,
            refused,
            certificate: register(registry, certificate)?,
            duration: seconds(
                "rest_client_request_duration_seconds",
                "Request latency in seconds. Broken down by verb, and host.",
            )?,
            wait: seconds(
                "rest_client_rate_limiter_duration_seconds",
                "Client side rate limiter latency in seconds. Broken down by verb, and host.",
            )?,
        })
    }

    /// Records when the client certificate in use expires.
    pub fn certificate_expires(&self, at: Timestamp) {
        self.certificate
            .with_label_values::<&str>(&[])
            .set(at.as_second());
    }

    /// Records how long a request has waited for the client-side limit.
    pub(super) fn observe_wait(&self, method: &Method, host: &str, waited: Duration) {
        self.wait
            .with_label_values(&[method.as_str(), host])
            .observe(waited.as_secs_f64());
    }

    /// Records a finished request; without an answer, the code is `<error>` as in client-go.
    pub(super) fn observe(&self, method: &Method, host: &str, code: Option<u16>, took: Duration) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        self.requests
            .with_label_values(&[code.as_str(), method.as_str(), host])
            .inc();
        self.duration
            .with_label_values(&[method.as_str(), host])
            .observe(took.as_secs_f64());
    }

    /// Counts the answer if it refuses its request. Not for requests in a namespace that is being deleted.
    pub(super) fn answered(&self, method: &Method, code: StatusCode) {
        if REFUSALS.contains(&code) {
            self.refused
                .with_label_values(&[code.as_str(), method.as_str()])
                .inc();
        }
    }
}

/// The `host` label for the server at `url`: host and port.
pub(super) fn host_label(url: &Uri) -> String {
    url.authority()
        .map_or_else(String::new, |authority| match authority.port() {
            Some(port) => format!("{}:{port}", authority.host()),
            None => authority.host().to_owned(),
        })
}
