//! The binary on a real kube-apiserver and etcd: real leases, real RBAC, real outages.
//!
//! | file | shows |
//! |---|---|
//! | `boundary` | the boundary scenario, restarts, removal, metrics |
//! | `leaders` | hand-over after SIGTERM and SIGKILL, a Lease shared with client-go, fifty kills |
//! | `metrics` | who may read the metrics |
//! | `outage` | the API server away for a minute, throttling |
//! | `preflight` | what `preflight` says beside the built-in loop |
//! | `rival` | the built-in loop running beside ours |
//! | `refusals` | wrong flags, files and permissions |
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test")]

mod boundary;
mod frozen;
mod leaders;
mod metrics;
mod outage;
mod preflight;
mod refusals;
mod rival;
mod support;
