//! The binary on a real kube-apiserver and etcd, next to kube-scheduler, with a service account that has the permissions of
//! the chart and no others. The devices are entries of a `ResourceSlice`; [`kubelet`] plays the node.
//!
//! | file | shows |
//! |---|---|
//! | `made` | claims made from templates, as many as a pod asks for, and given back |
//! | `shared` | a claim that a user made, for several pods |
//! | `ends` | every way in which a pod ends, and one that comes back |
//! | `lost` | a claim that somebody deletes, and a template that comes late |
//! | `asks` | admin access, prioritized lists, extended resources |
//! | `groups` | claims of groups of pods |
//! | `crashes` | one claim per entry, however often the process is killed |
//! | `races` | claims taken back while the scheduler binds others |
//! | `permissions` | the permissions are enough, none is unused, and what happens without one |
//! | `crowds` | what one tenant makes in masses, or has hang, keeps no other one waiting |
//! | `preflight` | what `preflight` says next to the built-in loop |
//! | `rivals` | the built-in loop running next to ours |
//!
//! With `RESOURCECLAIM_CONTROLLER_BUILT_IN` in the environment the scenarios that hold for any controller run on the
//! loop of kube-controller-manager. Of them `live_a_deleted_claim_is_made_again_and_the_others_stay` and
//! `live_a_pod_whose_template_comes_late_gets_its_claim_at_once` fail there: it loses what it has written before.
#![allow(clippy::unwrap_used, reason = "a test")]

mod asks;
mod crashes;
mod crowds;
mod ends;
mod groups;
mod kubelet;
mod lost;
mod made;
mod permissions;
mod preflight;
mod races;
mod rivals;
mod shared;
mod support;
