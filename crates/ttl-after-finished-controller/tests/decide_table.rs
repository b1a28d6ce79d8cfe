//! The rules, case by case.
//!
//! Upstream's table (`pkg/controller/ttlafterfinished`, `TestTimeLeft`), all covered here:
//!
//! | upstream case | case of `a_job_is_judged_by_its_ttl_and_its_finish` |
//! |---|---|
//! | Error case: Job unfinished | `not_finished` (left alone instead of an error) |
//! | Error case: Job completed now, no TTL; Job failed now, no TTL | `finished_without_a_ttl` (left alone instead of an error) |
//! | Job completed now, 0s TTL; Job failed now, 0s TTL | `finished_now_with_ttl_0` |
//! | Job completed now, 10s TTL; Job failed now, 10s TTL | `finished_now_with_ttl_10` |
//! | Job completed 10s ago, 15s TTL; Job failed 10s ago, 15s TTL | `finished_10_s_ago_with_ttl_15` |
//!
//! `Complete` and `Failed` are the same to these rules: `src/view.rs` tells them apart from the rest.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use controller_core::meta::{ObjectKey, Uid};
use jiff::Timestamp;
use rstest::rstest;
use ttl_after_finished_controller::decide::{
    By, Deletion, ExpiryPlan, JobJudgement, LeaveReason, expiry, judge, plan, slower_clock,
};
use ttl_after_finished_controller::policy::FinishedKind;
use ttl_after_finished_controller::view::{Finish, JobView};

fn at(time: &str) -> Timestamp {
    format!("2026-01-01T{time}Z").parse().unwrap()
}

fn job(ttl_seconds: impl Into<Option<i32>>, finish: impl Into<Option<Finish>>) -> JobView {
    JobView {
        key: ObjectKey::namespaced("ns", "job"),
        uid: Uid::from("uid"),
        version: "7".into(),
        ttl_seconds: ttl_seconds.into(),
        finish: finish.into(),
        deleting: false,
    }
}

fn finished(time: &str) -> Finish {
    Finish::At(at(time))
}

fn deleting(job: JobView) -> JobView {
    JobView {
        deleting: true,
        ..job
    }
}

#[rstest]
#[case::not_finished(job(10, None), JobJudgement::LeftAlone(LeaveReason::NotFinished))]
#[case::finished_without_a_ttl(job(None, finished("12:00:00")), JobJudgement::LeftAlone(LeaveReason::NoTtl))]
#[case::being_deleted(
    deleting(job(0, finished("12:00:00"))),
    JobJudgement::LeftAlone(LeaveReason::BeingDeleted)
)]
#[case::finished_nobody_knows_when(job(0, Finish::Undated), JobJudgement::Undated)]
#[case::finished_now_with_ttl_0(
    job(0, finished("12:00:00")),
    JobJudgement::Expired { finish: at("12:00:00"), expiry: at("12:00:00") }
)]
#[case::finished_now_with_ttl_10(
    job(10, finished("12:00:00")),
    JobJudgement::Waits { finish: at("12:00:00"), expiry: at("12:00:10") }
)]
#[case::finished_10_s_ago_with_ttl_15(
    job(15, finished("11:59:50")),
    JobJudgement::Waits { finish: at("11:59:50"), expiry: at("12:00:05") }
)]
#[case::finished_10_s_ago_with_ttl_10(
    job(10, finished("11:59:50")),
    JobJudgement::Expired { finish: at("11:59:50"), expiry: at("12:00:00") }
)]
#[case::finished_long_ago(
    job(10, finished("09:00:00")),
    JobJudgement::Expired { finish: at("09:00:00"), expiry: at("09:00:10") }
)]
#[case::finished_in_the_future_with_ttl_0(
    job(0, finished("12:00:30")),
    JobJudgement::Waits { finish: at("12:00:30"), expiry: at("12:00:30") }
)]
fn a_job_is_judged_by_its_ttl_and_its_finish(#[case] job: JobView, #[case] expected: JobJudgement) {
    assert_eq!(judge(&job, at("12:00:00")), expected);
}

#[rstest]
#[case::the_servers_is_an_hour_behind(Some("11:00:00"), "11:00:00")]
#[case::the_servers_is_two_seconds_behind(Some("11:59:58"), "11:59:58")]
#[case::a_second_is_what_the_header_cuts_off(Some("11:59:59"), "12:00:00")]
#[case::they_agree(Some("12:00:00"), "12:00:00")]
#[case::the_servers_is_ahead(Some("13:00:00"), "12:00:00")]
#[case::the_server_does_not_say(None, "12:00:00")]
fn the_slower_clock_counts_when_it_is_more_than_a_second_behind(
    #[case] servers: Option<&str>,
    #[case] expected: &str,
) {
    assert_eq!(slower_clock(at("12:00:00"), servers.map(at)), at(expected));
}

#[rstest]
#[case::it_expires_later_by_the_slower_clock(job(60, finished("11:59:50")), ExpiryPlan::LookAgain { after: Duration::from_secs(50) })]
#[case::without_a_ttl(job(None, finished("11:59:50")), ExpiryPlan::Leave)]
#[case::it_is_being_deleted(deleting(job(10, finished("11:59:50"))), ExpiryPlan::Leave)]
#[case::one_that_runs(job(10, None), ExpiryPlan::Leave)]
#[case::finished_nobody_knows_when(job(10, Finish::Undated), ExpiryPlan::Leave)]
fn only_what_has_expired_by_the_slower_clock_is_deleted(#[case] view: JobView, #[case] expected: ExpiryPlan) {
    assert_eq!(plan(&view, at("12:00:00")), expected);
}

#[test]
fn a_delete_is_of_just_the_state_that_was_judged() {
    let view = job(10, finished("11:59:50"));
    assert_eq!(
        plan(&view, at("12:00:00")),
        ExpiryPlan::Delete(Deletion {
            kind: FinishedKind::Job,
            object: ObjectKey::namespaced("ns", "job"),
            uid: Uid::from("uid"),
            version: "7".into(),
            finish: at("11:59:50"),
            expiry: at("12:00:00"),
            by: By::Ttl,
        })
    );
}

#[rstest]
#[case::the_longest_ttl("2026-01-01T00:00:00Z", i32::MAX, "2094-01-19T03:14:07Z")]
#[case::at_the_end_of_time("9999-12-30T00:00:00Z", i32::MAX, "9999-12-30T22:00:00.999999999Z")]
#[case::a_negative_ttl("2026-01-01T00:00:00Z", -1, "2025-12-31T23:59:59Z")]
#[case::the_most_negative_ttl("-009999-01-02T02:00:00Z", i32::MIN, "-009999-01-02T01:59:59Z")]
fn extremes_saturate(#[case] finish: &str, #[case] ttl_seconds: i32, #[case] expected: &str) {
    let (finish, expected): (Timestamp, Timestamp) = (finish.parse().unwrap(), expected.parse().unwrap());
    assert_eq!(expiry(finish, ttl_seconds), expected);
}
