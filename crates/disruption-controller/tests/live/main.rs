//! The binary on a real kube-apiserver and etcd, with a service account that has the permissions of its chart and no
//! others. Pods run nowhere: a test sets them ready itself, or has [`stage`] play the scheduler and the kubelets.
//!
//! | file | shows |
//! |---|---|
//! | `blockers` | what `blockers` says of each pod is what the Eviction API answers |
//! | `crowds` | what one tenant makes in masses, or has hang, keeps no other one waiting |
//! | `drains` | `kubectl drain`, one and two at once, beside kube-controller-manager's loop of `ReplicaSets` |
//! | `kinds` | whose scale counts: built-in kinds, custom resources, owners that go |
//! | `overlaps` | several budgets over one pod, pods that are relabelled |
//! | `owners` | pods whose controller has no scale |
//! | `races` | a thousand evictions among status writes |
//! | `replicas` | a restart, a standby that takes over, an API server that is killed |
//! | `permissions` | the permissions are enough, and none is unused |
//! | `preflight` | what `preflight` says beside the built-in loop, on and off |
//! | `rivals` | the built-in loop running beside ours |
//! | `tenants` | what one tenant makes keeps no other one waiting |
//! | `timeouts` | what is two minutes old |
//! | `upgrades` | rolling upgrades of two replicas while a hundred budgets change |
//!
//! [`record`] holds every version of every pod and budget, so that a test says what was true at every moment.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod blockers;
#[path = "../support/budget.rs"]
mod budget;
mod crowds;
mod drains;
mod kinds;
mod overlaps;
mod owners;
mod permissions;
mod preflight;
mod races;
mod record;
mod replicas;
mod rivals;
mod stage;
mod support;
mod tenants;
mod timeouts;
mod upgrades;
