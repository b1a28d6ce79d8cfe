//! The binary on a real kube-apiserver and etcd, with a service account that has the permissions of its chart and no
//! others. No kubelet runs, so a pod that was evicted stays with a deletionTimestamp.
//!
//! | file | shows |
//! |---|---|
//! | `stories` | who goes when and who stays, an outage, a standby that takes over: told in `tests/sync` as well |
//! | `brake` | the brake, and evictions through budgets |
//! | `clocks` | a clock of ours that is an hour fast or slow |
//! | `crowds` | what one tenant makes in masses, or has hang, keeps no other one waiting |
//! | `denied` | deletes that are refused for a while |
//! | `limits` | events of a mass event |
//! | `replicas` | a restart while tolerations run |
//! | `permissions` | the permissions are enough, and none is unused; events as `kubectl describe` shows them |
//! | `preflight` | what `preflight` says next to the built-in loop |
//! | `rivals` | the built-in loop running next to ours |
//! | `upgrades` | rolling upgrades of two replicas while pods go all the time |
//!
//! Moments are those of the audit log, so that a slow test does not take a prompt eviction for a late one.
#![allow(clippy::unwrap_used, reason = "a test")]

mod brake;
mod clocks;
mod crowds;
mod denied;
mod limits;
mod permissions;
mod preflight;
mod replicas;
mod rivals;
#[path = "../sync/stories/mod.rs"]
mod stories;
mod support;
mod upgrades;

pub(crate) use controller_testing::told_on_real as told;
