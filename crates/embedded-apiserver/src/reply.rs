//! Answers as HTTP responses.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::Value;

use super::encoding::Encoding;
use super::failure::StatusError;

/// Body of an answer.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

/// An answer of one piece that is already encoded.
pub(super) fn answer(code: StatusCode, encoding: Encoding, body: Bytes) -> Response<Body> {
    respond(code, encoding.media(), whole(body))
}

/// An answer with an object made for it.
pub(super) fn document(code: StatusCode, encoding: Encoding, object: &Value) -> Response<Body> {
    answer(code, encoding, encoding.document(object))
}

/// An answer of this media type, sent frame by frame.
pub(super) fn streamed(
    media: &'static str,
    frames: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
) -> Response<Body> {
    let body = StreamBody::new(frames.map_ok(Frame::data));
    respond(StatusCode::OK, media, body.boxed_unsync())
}

/// A refusal, with `Retry-After` if the client must wait.
pub(super) fn refused(failure: &StatusError, encoding: Encoding) -> Response<Body> {
    let code = StatusCode::from_u16(failure.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = document(code, encoding, &failure.to_status());
    if let Some(seconds) = failure.retry_after() {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// The refusal of API Priority and Fairness.
pub(super) fn throttled(retry_after: Duration) -> Response<Body> {
    let text = Bytes::from_static(b"Too many requests, please try again later.\n");
    let mut response = plain(StatusCode::TOO_MANY_REQUESTS, text);
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, retry_after.as_secs().into());
    response
}

/// The answer to a path outside all served groups.
pub(super) fn no_such_page() -> Response<Body> {
    plain(StatusCode::NOT_FOUND, Bytes::from_static(b"404 page not found\n"))
}

pub(super) fn plain(code: StatusCode, text: Bytes) -> Response<Body> {
    respond(code, "text/plain; charset=utf-8", whole(text))
}

pub(super) fn whole(body: Bytes) -> Body {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

pub(super) fn respond(code: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
