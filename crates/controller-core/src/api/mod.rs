//! Requests to the API server, and what its answers mean.

mod call;
mod outcome;

use jiff::SignedDuration;

pub use call::{Call, CallFailed, LeaseLost};
pub use outcome::{AnswerClass, Denial, Verb, namespace_terminates, retry_after};

/// How far the API server's clock may be behind ours before the difference counts: its `Date` has whole seconds.
pub const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_secs(1);
