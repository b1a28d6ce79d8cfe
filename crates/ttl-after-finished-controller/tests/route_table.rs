//! Which changes wake what.
#![allow(missing_docs, reason = "a test")]

use std::sync::Arc;

use controller_core::informer::Change;
use controller_core::meta::{ObjectKey, Uid};
use ttl_after_finished_controller::route::{Wake, wake};
use ttl_after_finished_controller::view::JobView;

fn job(ttl_seconds: i32) -> Arc<JobView> {
    Arc::new(JobView {
        key: ObjectKey::namespaced("ns", "job"),
        uid: Uid::from("uid"),
        ttl_seconds: Some(ttl_seconds),
        finish: None,
        deleting: false,
    })
}

#[test]
fn a_new_job_is_judged() {
    assert_eq!(wake(&Change::Added(&job(1))), Wake::Judge);
}

#[test]
fn a_changed_job_is_judged() {
    let change = Change::Updated {
        old: &job(1),
        new: &job(2),
    };
    assert_eq!(wake(&change), Wake::Judge);
}

#[test]
fn a_job_that_is_gone_or_has_no_ttl_any_more_is_forgotten() {
    assert_eq!(wake(&Change::Deleted(&job(1))), Wake::Forget);
}
