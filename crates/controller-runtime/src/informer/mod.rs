//! Informer (CORE-3, CORE-4): list/watch source → trimmed views → store, indexes, handlers.
//!
//! An [`Informer`] takes one event after the other from its source, and passes it to its [`Handler`], which brings the
//! store up to date. [`InformerSet`](crate::driver::InformerSet) makes and starts one for each watched kind.

pub mod backoff;
mod list_watch;
pub mod metrics;
mod page_size;
mod run;
pub mod source;

pub use list_watch::ListWatch;
pub use metrics::{InformerMetrics, ResourceMetrics};
pub use run::{Informer, InformerState};
pub use source::{BoxSource, Handler, Source, set_back};
