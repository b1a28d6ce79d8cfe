//! Test control planes: a scenario is written once and runs on either.
//!
//! - [`embedded`]: an API server in this process, under paused time
//! - [`history`]: what happens in a world and what goes wrong in it, drawn from a seed
//! - [`real`]: etcd, kube-apiserver and, on demand, kube-controller-manager and kube-scheduler

#![deny(missing_docs)]

pub mod embedded;
pub mod history;
pub mod real;
