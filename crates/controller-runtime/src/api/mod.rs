//! Requests to the API server: one client, one set of limits, one classification of answers.
//!
//! - [`client`]: chooses the API server and the credentials
//! - [`credentials`]: client certificates replaced while the process runs; lists who reloads what
//! - [`http`]: sends a request without a task between caller and connection
//! - [`dated`]: reads that also return the API server's time
//! - [`limits`]: the layers every request passes: rate, deadline, `Retry-After`, metrics
//! - [`classify`](mod@classify): what an error means for the work queue

pub mod classify;
pub mod client;
pub mod credentials;
pub mod dated;
mod expiry;
pub mod http;
pub mod limits;
pub mod metrics;
mod transport;

pub use classify::classify;
pub use client::{ConnectOptions, connect};
pub use http::Http;
