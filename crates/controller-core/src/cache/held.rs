//! An object at one version, as stores and lists hold it.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use derive_where::derive_where;

use super::event::number;
use super::view::View;
use crate::meta::{ObjectKey, Uid};

/// Uid and version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Revision {
    pub(super) uid: Uid,
    /// `metadata.resourceVersion`; 0 if it is no number or unknown.
    pub(super) version: u64,
}

/// An object at one version.
#[derive(Debug)]
#[derive_where(Clone)]
pub(super) struct Held<V> {
    pub(super) view: Arc<V>,
    pub(super) at: Revision,
}

/// A view that hashes and compares by its key, so that the key is stored once, in the view.
#[derive_where(Clone)]
pub(super) struct ByKey<V>(pub(super) Arc<V>);

impl<V: View> Held<V> {
    pub(super) fn new(view: Arc<V>, uid: Uid, version: Option<&str>) -> Self {
        let version = number(version);
        Self {
            view,
            at: Revision { uid, version },
        }
    }
}

impl<V: View> PartialEq for ByKey<V> {
    fn eq(&self, other: &Self) -> bool {
        self.0.key() == other.0.key()
    }
}

impl<V: View> Eq for ByKey<V> {}

impl<V: View> Hash for ByKey<V> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key().hash(state);
    }
}

impl<V: View> Borrow<ObjectKey> for ByKey<V> {
    fn borrow(&self) -> &ObjectKey {
        self.0.key()
    }
}
