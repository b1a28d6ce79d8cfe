//! The routes of the admin server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State as Shared;
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http_body::Body as _;
use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;

use super::authorization::{Refusal, bearer};
use super::{AdminState, zpages};
use crate::clock::Clock;
use crate::config::as_flags;
use crate::metrics;
use crate::readiness::ReadinessReport;

const PATHS: [&str; 8] = [
    "/configz", "/flagz", "/healthz", "/livez", METRICS, "/readyz", "/statusz", "/version",
];
const METRICS: &str = "/metrics";

/// State of the handlers.
struct Served {
    state: AdminState,
    clock: Clock,
    started: (Timestamp, Instant),
}

pub(super) fn router(state: AdminState, clock: Clock) -> Router {
    let started = (clock.now(), clock.instant());
    let served = Arc::new(Served {
        state,
        clock,
        started,
    });
    Router::new()
        .route(METRICS, get(metrics_text))
        .route("/configz", get(configz))
        .route("/flagz", get(flagz))
        .route("/statusz", get(statusz))
        // Only for the routes above: kubelets send no token.
        .route_layer(middleware::from_fn_with_state(Arc::clone(&served), authorized))
        .route("/livez", get(livez))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/version", get(version))
        .fallback(unknown)
        .layer(middleware::from_fn(read_only))
        .with_state(served)
}

/// No route takes a body or changes anything, and no answer may be cached.
async fn read_only(request: Request<Body>, next: Next) -> Response {
    let mut response = if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let allow = [(ALLOW, "GET, HEAD")];
        (StatusCode::METHOD_NOT_ALLOWED, allow, "only GET and HEAD\n").into_response()
    } else if request.body().is_end_stream() {
        next.run(request).await
    } else {
        (StatusCode::PAYLOAD_TOO_LARGE, "no body is taken\n").into_response()
    };
    let headers: &mut HeaderMap = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

async fn authorized(Shared(served): Shared<Arc<Served>>, request: Request<Body>, next: Next) -> Response {
    let asker = Asker::of(&request);
    let path = request.uri().path().to_owned();
    match asker.may_read(&served.state, &path).await {
        Err(Refusal::NotLocal) if path == METRICS => next.run(request).await,
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

/// The caller, and the request's verb.
struct Asker {
    peer: IpAddr,
    token: Option<String>,
    verb: String,
}

impl Asker {
    fn of(request: &Request<Body>) -> Self {
        let peer = request.extensions().get::<IpAddr>().copied();
        Self {
            peer: peer.unwrap_or(Ipv6Addr::UNSPECIFIED.into()),
            token: bearer(request.headers()).map(str::to_owned),
            verb: request.method().as_str().to_ascii_lowercase(),
        }
    }

    /// Allows what the API server allows the caller; without an authorizer, allows callers on this host.
    async fn may_read(&self, state: &AdminState, path: &str) -> Result<(), Refusal> {
        match &state.authorizer {
            Some(authorizer) => {
                let token = self.token.as_deref();
                authorizer.authorize(self.peer, token, &self.verb, path).await
            }
            None if [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()].contains(&self.peer) => {
                Ok(())
            }
            None => Err(Refusal::NotLocal),
        }
    }
}

async fn metrics_text(Shared(served): Shared<Arc<Served>>) -> Response {
    match metrics::encode(&served.state.registry) {
        Ok(text) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            tracing::warn!("could not encode the metrics: {error}");
            (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response()
        }
    }
}

async fn livez(Shared(served): Shared<Arc<Served>>, request: Request<Body>) -> Response {
    health("livez", served.state.liveness.report(), &served.state, request).await
}

async fn healthz(Shared(served): Shared<Arc<Served>>, request: Request<Body>) -> Response {
    health("healthz", served.state.liveness.report(), &served.state, request).await
}

async fn readyz(Shared(served): Shared<Arc<Served>>, request: Request<Body>) -> Response {
    health("readyz", served.state.readiness.report(), &served.state, request).await
}

/// Shows reasons to callers who may read the single checks; everybody may read the path itself, by
/// `system:public-info-viewer`.
async fn health(
    endpoint: &str,
    report: ReadinessReport,
    state: &AdminState,
    request: Request<Body>,
) -> Response {
    let asker = Asker::of(&request);
    let verbose = asks_for_details(request.uri());
    drop(request);
    let shows_reasons = verbose || !report.passed();
    let report = if shows_reasons && asker.may_read(state, &format!("/{endpoint}/*")).await.is_err() {
        report.withheld()
    } else {
        report
    };
    let status = if report.passed() {
        StatusCode::OK
    } else {
        StatusCode::INTERNAL_SERVER_ERROR
    };
    (status, report.text(endpoint, verbose)).into_response()
}

/// True for `?verbose`, with or without a value, as in the API server.
fn asks_for_details(uri: &Uri) -> bool {
    uri.query()
        .unwrap_or_default()
        .split('&')
        .any(|parameter| parameter.split('=').next() == Some("verbose"))
}

async fn configz(Shared(served): Shared<Arc<Served>>) -> Response {
    Json(&served.state.config).into_response()
}

async fn flagz(Shared(served): Shared<Arc<Served>>, headers: HeaderMap) -> Response {
    let state = &served.state;
    zpages::flagz(state.component, &as_flags(&state.config)).answer(&headers)
}

async fn statusz(Shared(served): Shared<Arc<Served>>, headers: HeaderMap) -> Response {
    let (state, (started, since)) = (&served.state, served.started);
    let uptime = served.clock.instant() - since;
    zpages::statusz(state.component, started, uptime, state.build.version, &PATHS).answer(&headers)
}

async fn version(Shared(served): Shared<Arc<Served>>) -> Response {
    let state = &served.state;
    Json(json!({
        "version": state.build.version,
        "commit": state.build.commit,
        "kubernetesVersions": state.kubernetes_versions,
    }))
    .into_response()
}

async fn unknown() -> Response {
    let paths = PATHS.join(" ");
    (StatusCode::NOT_FOUND, format!("not found; there are {paths}\n")).into_response()
}
