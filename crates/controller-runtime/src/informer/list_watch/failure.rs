//! The failures of lists and watches.

use std::error::Error;
use std::io;

use controller_core::api::retry_after;
use controller_core::cache::{ErrorKind, SourceError};
use controller_core::error::Chain;
use kube::core::Status;

use crate::api::classify::{causes_of, never_connected};

/// Returns whether a healthy watch may end with this error: after some minutes, behind a proxy.
pub(super) fn is_end(error: &(dyn Error + 'static)) -> bool {
    causes_of(error).any(|cause| {
        let kind = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        matches!(kind, Some(io::ErrorKind::UnexpectedEof | io::ErrorKind::TimedOut))
    })
}

pub(super) fn source_error(action: &str, error: &kube::Error) -> SourceError {
    match error {
        kube::Error::Api(status) => refused(action, status),
        error => SourceError {
            kind: if never_connected(error) {
                ErrorKind::Unreachable
            } else {
                ErrorKind::Other
            },
            ..other(format!("{action}: {}", Chain(error)))
        },
    }
}

pub(super) fn refused(action: &str, status: &Status) -> SourceError {
    SourceError {
        kind: kind(status),
        retry_after: retry_after(status),
        message: format!("{action}: {} {}: {}", status.code, status.reason, status.message),
    }
}

pub(super) const fn other(message: String) -> SourceError {
    SourceError {
        kind: ErrorKind::Other,
        retry_after: None,
        message,
    }
}

fn kind(status: &Status) -> ErrorKind {
    match status.code {
        410 => ErrorKind::Expired,
        403 => ErrorKind::Forbidden,
        429 => ErrorKind::Throttled,
        404 => ErrorKind::NotServed,
        // An event of a watch need not carry the code.
        _ if matches!(status.reason.as_str(), "Expired" | "Gone") => ErrorKind::Expired,
        _ => ErrorKind::Other,
    }
}
