//! How a controller talks to the API server: one client, one set of limits, one classification of answers.
//!
//! - [`client`]: which API server, with whose credentials
//! - [`call`]: one request, under a term, classified
//! - [`credentials`]: a client certificate that is replaced while the process runs; what else is, and by whom
//! - [`http`]: a request on its way, without a task between who asks and the connection
//! - [`dated`]: a read that also tells the API server's time
//! - [`limits`]: the layer every request passes: rate, deadline, `Retry-After`, metrics
//! - [`outcome`]: what an answer means for the queue

pub mod call;
pub mod client;
pub mod credentials;
pub mod dated;
mod expiry;
pub mod http;
pub mod limits;
pub mod metrics;
pub mod outcome;
mod transport;

pub use call::{Call, CallFailed, Caller};
pub use client::{ConnectOptions, connect};
pub use http::Http;
pub use outcome::{Denial, Outcome, Verb, classify};
