//! The binary on a real kube-apiserver and etcd, with the permissions of a service account.
//!
//! | file | shows |
//! |---|---|
//! | `clocks` | a clock of ours that is an hour fast or slow |
//! | `crowds` | what one tenant makes in masses, or has hang, keeps no other one waiting |
//! | `stories` | which Jobs go, when, with which event: told in `tests/sync` as well |
//! | `expiry` | foreground deletion with finalizers and a garbage collector; large Jobs |
//! | `leaders` | a restart and a hand-over keep the time |
//! | `readout` | `explain` of each state, and a dry run |
//! | `refused` | deletes that a right or admission refuses for a minute |
//! | `policies` | clean-up policies: which objects go, next to the built-in loop, in a crowd, and with a broken file |
//! | `brake` | `maxPerHour` stops a policy, and a person lets it go on |
//! | `preflight` | the built-in loop may stay on with `onlyPolicies` |
//! | `permissions` | the permissions are enough and none is unused |
#![allow(clippy::unwrap_used, reason = "a test")]

mod brake;
mod clocks;
mod crowds;
mod expiry;
mod leaders;
mod permissions;
mod policies;
mod preflight;
mod readout;
mod refused;
mod rivals;
#[path = "../sync/stories/mod.rs"]
mod stories;
mod support;

pub(crate) use controller_testing::told_on_real as told;
