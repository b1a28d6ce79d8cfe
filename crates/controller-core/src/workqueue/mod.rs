//! The parts of client-go's work queue that the [loop](crate::controller) does not cover: metrics and the token bucket.

mod metrics;
mod token_bucket;

pub use self::metrics::QueueMetrics;
pub use self::token_bucket::TokenBucket;
