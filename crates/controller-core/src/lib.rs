//! What the five controllers share, one contract a module:
//!
//! | module | contract | rules |
//! |---|---|---|
//! | [`clock`] | wall time and timers from one source | CORE-15 |
//! | [`tasks`], [`shutdown`] | supervised tasks; drain, then abort | CORE-8, CORE-11 |
//! | [`workqueue`] | client-go's queue, layer by layer | CORE-1 |
//! | [`timed_workers`] | run key K at time T; cancel; ask what is scheduled | CORE-2 |
//! | [`informer`] | list/watch source → trimmed views → store, indexes, handlers | CORE-3, CORE-4 |
//! | [`api`] | client, timeouts, client-side limits, error classes | CORE-5, CORE-13 |
//! | [`leader`] | the lease rule and its runner; no write outside a term | CORE-6 |
//! | [`rival`] | another writer that keeps undoing ours | CORE-17 |
//! | [`events`] | best-effort recorder | CORE-7 |
//! | [`admin`], [`readiness`] | `/metrics`, `/livez`, `/readyz`, …; readiness handles | CORE-8 |
//! | [`metrics`], [`telemetry`] | registry and process metrics; logs | CORE-9, CORE-10 |
//! | [`args`], [`config`] | one struct gives flags, environment, file and schema | CORE-18 |
//! | [`runtime`] | assembles all of the above | CORE-11, CORE-12, CORE-14 |
//! | [`error`], [`meta`] | chain printer; object keys, uids, owner references | |

pub mod admin;
pub mod api;
pub mod args;
pub mod clock;
pub mod config;
pub mod error;
pub mod events;
pub mod informer;
pub mod leader;
pub mod meta;
pub mod metrics;
pub mod readiness;
pub mod rival;
pub mod runtime;
pub mod shutdown;
pub mod tasks;
pub mod telemetry;
pub mod timed_workers;
pub mod workqueue;
