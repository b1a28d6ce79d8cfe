//! What a list/watch source delivers. The store distinguishes added from modified; a source need not.

use std::sync::Arc;
use std::time::Duration;

use super::view::DecodeError;
use crate::meta::{ObjectKey, Uid};

/// One step of a list or a watch.
#[derive(Clone, Debug)]
pub enum SourceEvent<V> {
    /// A full list begins; what an unfinished one has delivered is void.
    Init,
    /// An object of the list.
    InitItem(Versioned<V>),
    /// The list is complete: what it did not name does not exist.
    InitDone {
        /// The version of the list, if the source knows it.
        version: Option<Arc<str>>,
    },
    /// An object was added or modified.
    Applied(Versioned<V>),
    /// An object was deleted.
    Deleted(Removed<V>),
    /// An object of the list or of the watch could not be decoded.
    Skipped(Skipped),
    /// The watch has lasted long enough to say that earlier faults are over, even if nothing has happened on it.
    Healthy,
    /// A list or a watch failed; the source continues where it can, otherwise with [`SourceEvent::Init`].
    Failed(SourceError),
}

impl<V> SourceEvent<V> {
    /// The version that the event has reached, if it names one.
    pub(super) fn version(&self) -> Option<&str> {
        match self {
            Self::InitItem(Versioned { version, .. })
            | Self::Applied(Versioned { version, .. })
            | Self::Deleted(Removed { version, .. })
            | Self::Skipped(Skipped { version, .. })
            | Self::InitDone { version } => version.as_deref(),
            Self::Init | Self::Healthy | Self::Failed(_) => None,
        }
    }
}

/// An object as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned<V> {
    /// What the store keeps of it.
    pub view: V,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`, if the source knows it.
    pub version: Option<Arc<str>>,
}

impl<V> Versioned<V> {
    /// The version as a number; 0 if it is missing or no number.
    pub fn number(&self) -> u64 {
        number(self.version.as_deref())
    }
}

/// An object that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed<V> {
    /// Namespace and name.
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: Uid,
    /// The last state, if it can be decoded.
    pub view: Option<V>,
    /// The version of the deletion, if the source knows it.
    pub version: Option<Arc<str>>,
}

/// An object that cannot be decoded: the readable part of its identity, and why.
#[derive(Clone, Debug)]
pub struct Skipped {
    /// Namespace and name, if the name is readable.
    pub key: Option<ObjectKey>,
    /// `metadata.uid`, if readable.
    pub uid: Option<Uid>,
    /// `metadata.resourceVersion`, if readable.
    pub version: Option<Arc<str>>,
    /// Why it cannot be decoded.
    pub error: DecodeError,
}

/// Why a list or a watch failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    /// Says how the failure is treated and reported.
    pub kind: ErrorKind,
    /// The wait that the server asks for (`Retry-After`).
    pub retry_after: Option<Duration>,
    /// The whole chain of causes, for logs and `/readyz`.
    pub message: String,
}

/// The kinds of failure that are treated or reported differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// 410: the version to continue from is too old; a full list follows.
    Expired,
    /// 403: no permission to list or watch.
    Forbidden,
    /// 429: too many requests.
    Throttled,
    /// 404 of the resource itself: its group or version is not served (yet).
    NotServed,
    /// No connection could be made.
    Unreachable,
    /// Anything else: a connection that broke, 5xx, an answer that is not Kubernetes'.
    Other,
}

/// A `resourceVersion` as a number; 0 if it is missing or no number.
pub(super) fn number(version: Option<&str>) -> u64 {
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or_default()
}
