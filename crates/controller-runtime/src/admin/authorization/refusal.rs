//! Answers to requests that may not read a path.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};

/// Why a request was refused.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::admin) enum Refusal {
    /// No token, or nobody's token.
    Unauthenticated,
    /// The user lacks the permission.
    Forbidden(Arc<str>),
    /// Too many unknown tokens come from this address.
    TooMany,
    /// The API server did not answer the review.
    Unanswered,
    /// No authorizer, and the caller is not on this host.
    NotLocal,
}

/// The codes are controller-runtime's, except 429.
impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::Unauthenticated => {
                let how = [(WWW_AUTHENTICATE, "Bearer")];
                (
                    StatusCode::UNAUTHORIZED,
                    how,
                    "a bearer token is needed that the API server knows\n",
                )
                    .into_response()
            }
            Self::Forbidden(user) => (
                StatusCode::FORBIDDEN,
                format!("user {user:?} may not read this path\n"),
            )
                .into_response(),
            Self::TooMany => {
                let when = [(RETRY_AFTER, "1")];
                (
                    StatusCode::TOO_MANY_REQUESTS,
                    when,
                    "too many unknown tokens from your address\n",
                )
                    .into_response()
            }
            Self::Unanswered => {
                let why = "the API server did not say who may read this path\n";
                (StatusCode::INTERNAL_SERVER_ERROR, why).into_response()
            }
            Self::NotLocal => {
                let why = "this path is for callers from localhost, as through kubectl port-forward, and with \
                           --metrics-authorization=kubernetes for bearer tokens\n";
                (StatusCode::FORBIDDEN, why).into_response()
            }
        }
    }
}
