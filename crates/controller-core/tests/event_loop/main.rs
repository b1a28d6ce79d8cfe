//! The loop itself: keys, actions, answers, permits and terms.
//!
//! | file | shows |
//! |---|---|
//! | `queue` | client-go's contract: duplicates, order, a key that is enqueued during its pass |
//! | `queue_props` | client-go's contract for any sequence of requeues, passes and waits |
//! | `times` | keys that come back at a set time, and the pace of passes |
//! | `workers` | how many passes run at once, and the workers that reads in flight hold |
//! | `retries` | when a key whose pass failed comes back |
//! | `numbers` | `workqueue_*` |
//! | `reads` | which keys receive an answer, how often a query is sent, how long an answer serves |
//! | `writes` | refused writes, writes side by side, passes that make no progress |
//! | `permits` | which passes wait for the client-side limit, and which goes first |
//! | `permits_props` | the queue for permits in all runs: the rate is kept, no permit is lost, no pass starves |
//! | `own_writes` | what the cache shows after an accepted write, and after one whose fate is unknown |
//! | `terms` | what ends with a term, and what does not |
//! | `ends` | drain, dry run |
//! | `sim` | the dimmer's loop against a model of the API server |
//!
//! `dimmer` is an example with a whole controller; `scripted` is a controller scripted by its test, in the loop of
//! `rig`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

#[path = "../../examples/dimmer.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a binary")]
mod dimmer;
mod ends;
mod numbers;
mod own_writes;
mod permits;
mod permits_props;
mod queue;
mod queue_props;
mod reads;
mod retries;
mod rig;
mod scripted;
mod sim;
mod terms;
mod times;
mod workers;
mod writes;
