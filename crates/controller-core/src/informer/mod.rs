//! Informer (CORE-3, CORE-4): list/watch source → trimmed views → store, indexes, handlers.
//!
//! An [`Informer`] takes one event after the other from its source, and passes it to its [`Handler`], which brings the
//! [`Store`] up to date. [`InformerSet::fill`](crate::controller::InformerSet::fill) makes and starts one.

mod apply;
pub mod backoff;
mod encoding;
mod guard;
pub mod handlers;
mod interner;
mod list_watch;
mod listing;
pub mod metrics;
pub mod mutation;
mod overlay;
mod page_size;
pub mod protobuf;
mod run;
pub mod source;
pub mod store;
pub mod view;

pub use guard::Page;
pub(crate) use guard::read_meta;
pub use handlers::{Applied, Change, Delta, Handler, Taken};
pub use interner::{Interned, intern, share};
pub use list_watch::ListWatch;
pub use metrics::{InformerMetrics, ResourceMetrics};
pub use mutation::{Freshness, WriteEffect};
pub use run::{Informer, InformerState};
pub use source::{BoxSource, ErrorKind, Removed, Skipped, Source, SourceError, SourceEvent, Versioned};
pub use store::Store;
pub use view::{DecodeError, Identity, OwnerWire, View, Wire, time};
