//! What is left of client-go's work queue beside the [loop](crate::controller): its metrics, and its limit.

mod metrics;
mod token_bucket;

pub use self::metrics::QueueMetrics;
pub use self::token_bucket::TokenBucket;
