//! The binary on a real kube-apiserver and etcd: real leases, real RBAC, real outages.
//!
//! | file | shows |
//! |---|---|
//! | `stories` | the boundary scenario, restarts, removal, an outage: told in `tests/sync` as well |
//! | `readout` | the admin server, `explain` |
//! | `leaders` | hand-over after SIGTERM and SIGKILL, a Lease shared with client-go, fifty kills |
//! | `metrics` | who may read the metrics |
//! | `preflight` | what `preflight` says next to the built-in loop |
//! | `rival` | the built-in loop running next to ours |
//! | `refusals` | wrong flags, files and permissions |
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test")]

mod frozen;
mod leaders;
mod metrics;
mod preflight;
mod readout;
mod refusals;
mod rival;
#[path = "../sync/stories/mod.rs"]
mod stories;
mod support;

pub(crate) use controller_testing::told_on_real as told;
