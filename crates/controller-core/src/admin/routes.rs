//! What is answered to which request.

use std::net::{IpAddr, Ipv6Addr};
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
use serde_json::json;

use super::State;
use super::authorization::bearer;
use crate::metrics;
use crate::readiness::Report;

const PATHS: &str = "/configz /healthz /livez /metrics /readyz /version";

pub(super) fn router(state: State) -> Router {
    let state = Arc::new(state);
    Router::new()
        .route("/metrics", get(metrics_text))
        .route("/configz", get(configz))
        // Of the routes above alone: kubelets show no token.
        .route_layer(middleware::from_fn_with_state(Arc::clone(&state), authorized))
        .route("/livez", get(livez))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/version", get(version))
        .fallback(unknown)
        .layer(middleware::from_fn(read_only))
        .with_state(state)
}

/// Nothing here takes a body or changes anything, and no answer is worth keeping.
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

/// Only for those whom the API server lets read the path, where it is asked.
async fn authorized(Shared(state): Shared<Arc<State>>, request: Request<Body>, next: Next) -> Response {
    if let Some(authorizer) = &state.authorizer {
        let token = bearer(request.headers()).map(str::to_owned);
        let verb = request.method().as_str().to_ascii_lowercase();
        let path = request.uri().path().to_owned();
        let peer = request.extensions().get::<IpAddr>().copied();
        let peer = peer.unwrap_or(Ipv6Addr::UNSPECIFIED.into());
        if let Err(refusal) = authorizer.authorize(peer, token.as_deref(), &verb, &path).await {
            return refusal.into_response();
        }
    }
    next.run(request).await
}

async fn metrics_text(Shared(state): Shared<Arc<State>>) -> Response {
    match metrics::encode(&state.registry) {
        Ok(text) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            tracing::warn!("could not encode the metrics: {error}");
            (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response()
        }
    }
}

async fn livez(Shared(state): Shared<Arc<State>>, uri: Uri) -> Response {
    health("livez", &state.liveness.report(), &uri)
}

async fn healthz(Shared(state): Shared<Arc<State>>, uri: Uri) -> Response {
    health("healthz", &state.liveness.report(), &uri)
}

async fn readyz(Shared(state): Shared<Arc<State>>, uri: Uri) -> Response {
    health("readyz", &state.readiness.report(), &uri)
}

fn health(endpoint: &str, report: &Report, uri: &Uri) -> Response {
    let status = if report.passed() {
        StatusCode::OK
    } else {
        StatusCode::INTERNAL_SERVER_ERROR
    };
    (status, report.text(endpoint, asks_for_details(uri))).into_response()
}

/// `?verbose`, with or without a value, as the API server takes it.
fn asks_for_details(uri: &Uri) -> bool {
    uri.query()
        .unwrap_or_default()
        .split('&')
        .any(|parameter| parameter.split('=').next() == Some("verbose"))
}

async fn configz(Shared(state): Shared<Arc<State>>) -> Response {
    Json(&state.config).into_response()
}

async fn version(Shared(state): Shared<Arc<State>>) -> Response {
    Json(json!({
        "version": state.build.version,
        "commit": state.build.commit,
        "kubernetesVersions": state.kubernetes_versions,
    }))
    .into_response()
}

async fn unknown() -> Response {
    (StatusCode::NOT_FOUND, format!("not found; there are {PATHS}\n")).into_response()
}
