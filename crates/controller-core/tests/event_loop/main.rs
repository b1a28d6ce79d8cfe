//! The loop itself: what becomes of keys, steps, answers, permits and terms.
//!
//! | file | shows |
//! |---|---|
//! | `queue` | client-go's contract: duplicates, order, a key that is woken during its pass |
//! | `queue_props` | the same for any sequence of wakes, passes and waits |
//! | `times` | keys that come back at a time, and how passes are paced |
//! | `workers` | how many passes there are at once, and what a read that is out costs |
//! | `retries` | when a key whose pass failed comes back |
//! | `numbers` | `workqueue_*` |
//! | `reads` | who is told an answer, how often it is asked for, how long it serves |
//! | `writes` | refused writes, writes side by side, passes that make no progress |
//! | `permits` | who waits for the client-side limit, and who goes first |
//! | `permits_props` | the same for all runs: the rate is kept, no permit is lost, nobody starves |
//! | `own_writes` | what an accepted write shows, and what is done when nobody knows |
//! | `terms` | what ends with a term, and what does not |
//! | `ends` | drain, dry run |
//! | `run` | the asynchronous part, on the embedded API server |
//! | `sim` | the dimmer's loop against a model of the API server |
//!
//! `dimmer` is the example, a whole controller; `scripted` does what its test says, in the loop of `rig`.
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
mod run;
mod scripted;
mod sim;
mod terms;
mod times;
mod workers;
mod writes;
