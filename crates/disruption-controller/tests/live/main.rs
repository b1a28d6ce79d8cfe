//! The binary on a real kube-apiserver and etcd, with a service account that has the permissions of its chart and no
//! others. Pods run nowhere: a test sets them ready itself, or has [`actors`] play the scheduler and the kubelets.
//!
//! | file | shows |
//! |---|---|
//! | `blockers` | what `blockers` says of each pod is what the Eviction API answers |
//! | `crowds` | what one tenant makes in masses, or has hang, keeps no other one waiting |
//! | `drains` | `kubectl drain`, one and two at once, next to kube-controller-manager's loop of `ReplicaSets` |
//! | `stories` | whose scale counts, several budgets over one pod, what is two minutes old: told in `tests/sync` as well |
//! | `orphans` | an owner that goes next to kube-controller-manager |
//! | `owners` | pods whose controller has no scale |
//! | `races` | a thousand evictions among status writes |
//! | `replicas` | a restart, a standby that takes over, an API server that is killed |
//! | `permissions` | the permissions are enough, and none is unused |
//! | `preflight` | what `preflight` says next to the built-in loop, on and off |
//! | `rivals` | the built-in loop running next to ours |
//! | `tenants` | what one tenant makes keeps no other one waiting |
//! | `upgrades` | rolling upgrades of two replicas while a hundred budgets change |
//!
//! [`record`] holds every version of every pod and budget, so that a test says what was true at every moment.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod actors;
mod blockers;
#[path = "../support/budget.rs"]
mod budget;
mod crowds;
mod drains;
mod orphans;
mod owners;
mod permissions;
mod preflight;
mod races;
mod record;
mod replicas;
mod rivals;
#[path = "../sync/stories/mod.rs"]
mod stories;
mod support;
mod tenants;
mod upgrades;

pub(crate) use controller_testing::told_on_real as told;
