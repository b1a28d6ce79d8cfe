//! The cache: trimmed views of the watched objects, in stores with indexes, and our own writes on top.
//!
//! A [`SourceEvent`] brings a [`Store`] up to date; the store answers with the [changes](Delta). It shows the result of
//! each of our accepted writes until the watch does ([`mutation`]).

mod apply;
mod changes;
mod encoding;
mod event;
mod guard;
mod held;
mod interner;
mod listing;
pub mod mutation;
mod overlay;
mod page;
mod pending_write;
pub mod protobuf;
pub mod store;
pub mod view;

pub use changes::{Applied, Change, Delta, Taken};
pub use encoding::{Frames, ListPage, WatchEvent};
pub use event::{ErrorKind, Removed, Skipped, SourceError, SourceEvent, Versioned};
pub use guard::{Lenient, Presence, read_meta};
pub use interner::{Interned, intern, share};
pub use mutation::{Freshness, WriteEffect};
pub use page::Page;
pub use store::Store;
pub use view::{DecodeError, Identity, OwnerWire, View, Wire, time};
