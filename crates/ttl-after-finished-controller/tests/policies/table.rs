//! The rules, case by case.

use std::sync::Arc;
use std::time::Duration;

use controller_core::controller::Now;
use rstest::rstest;
use serde_json::{Value, json};
use ttl_after_finished_controller::policy::decide::{
    Beginning, LeftBecause, Memory, ServerDate, Verdict, applying, is_new, judge,
};
use ttl_after_finished_controller::policy::state::PolicyState;
use ttl_after_finished_controller::policy::view::{Candidate, NamespaceView};
use ttl_after_finished_controller::state::Key;
use ttl_after_finished_controller::view::{Finish, JobView};

use super::support::{HOUR, at, failed, job, labelled, namespace, owned, pod, policies};

/// What the cases below choose from.
fn list() -> Value {
    json!([
        { "name": "ci", "selector": { "matchLabels": { "app": "ci" } }, "ttlAfterSucceeded": "10m" },
        { "name": "ci-pods", "kinds": ["Pod"], "selector": { "matchLabels": { "app": "ci" } }, "ttlAfterFailed": "1h" },
        {
            "name": "team-a", "kinds": ["Job", "Pod"], "includeOwned": true, "ttlAfterSucceeded": "1h",
            "namespaceSelector": { "matchLabels": { "team": "a" } },
        },
        { "name": "rest", "ttlAfterSucceeded": "24h", "ttlAfterFailed": "never" },
    ])
}

fn team_a() -> NamespaceView {
    namespace(&[("team", "a")])
}

fn with_ttl(object: Candidate) -> Candidate {
    let object_view = JobView {
        ttl_seconds: Some(5),
        ..object.object.clone()
    };
    Candidate {
        object: object_view,
        ..object
    }
}

fn deleting(object: Candidate) -> Candidate {
    let object_view = JobView {
        deleting: true,
        ..object.object.clone()
    };
    Candidate {
        object: object_view,
        ..object
    }
}

fn finished(object: Candidate, finish: Option<Finish>) -> Candidate {
    let object_view = JobView {
        finish,
        ..object.object.clone()
    };
    Candidate {
        object: object_view,
        ..object
    }
}

#[rstest]
#[case::a_job_by_its_label(labelled(job(), "app", "ci"), namespace(&[]), Ok(0))]
#[case::a_pod_by_the_first_that_names_pods(labelled(pod(), "app", "ci"), namespace(&[]), Ok(1))]
#[case::the_first_of_two_that_select_it(labelled(job(), "app", "ci"), team_a(), Ok(0))]
#[case::by_the_label_of_its_namespace(job(), team_a(), Ok(2))]
#[case::a_pod_by_the_label_of_its_namespace(pod(), team_a(), Ok(2))]
#[case::by_the_last_one(labelled(job(), "app", "web"), namespace(&[("team", "b")]), Ok(3))]
#[case::a_pod_that_no_policy_selects(pod(), namespace(&[]), Err(LeftBecause::NoPolicy))]
#[case::a_policy_without_owned_ones_comes_first(
    owned(labelled(job(), "app", "ci")),
    team_a(),
    Err(LeftBecause::Owned(0))
)]
#[case::a_policy_that_includes_owned_ones(owned(job()), team_a(), Ok(2))]
#[case::its_own_ttl_wins(with_ttl(labelled(job(), "app", "ci")), team_a(), Err(LeftBecause::OwnTtl))]
#[case::it_is_being_deleted(
    deleting(labelled(job(), "app", "ci")),
    team_a(),
    Err(LeftBecause::BeingDeleted)
)]
#[case::it_is_annotated(Candidate { keep: true, ..labelled(job(), "app", "ci") }, team_a(), Err(LeftBecause::Kept))]
#[case::its_namespace_is_annotated(
    labelled(job(), "app", "ci"), NamespaceView { keep: true, ..team_a() }, Err(LeftBecause::NamespaceKept)
)]
#[case::a_pod_of_a_file(Candidate { mirror: true, ..owned(pod()) }, team_a(), Err(LeftBecause::Mirror))]
#[case::one_that_has_not_finished(finished(labelled(job(), "app", "ci"), None), namespace(&[]), Ok(0))]
fn the_first_policy_that_selects_an_object_counts(
    #[case] object: Candidate,
    #[case] namespace: NamespaceView,
    #[case] expected: Result<usize, LeftBecause>,
) {
    assert_eq!(applying(&policies(list()), &object, Some(&namespace)), expected);
}

#[test]
fn an_object_of_an_unknown_namespace_is_left() {
    assert_eq!(
        applying(&policies(list()), &job(), None),
        Err(LeftBecause::NamespaceUnknown)
    );
}

#[test]
fn without_policies_nothing_applies() {
    assert_eq!(
        applying(&policies(json!([])), &job(), Some(&team_a())),
        Err(LeftBecause::NoPolicy)
    );
}

/// An hour after succeeding, two after failing, the last failed one stays; the policy applies since uptime 0.
fn one() -> Value {
    json!([{ "name": "p", "ttlAfterSucceeded": "1h", "ttlAfterFailed": "2h", "keepLastFailed": 1 }])
}

const MEMORY: Memory = Memory {
    since: Duration::ZERO,
    counts_from: Duration::ZERO,
    is_last_failed: false,
    is_braked: false,
};

fn due(time: &str) -> Verdict {
    Verdict::Due {
        policy: 0,
        finish: at("10:00:00"),
        due: at(time),
    }
}

fn waits(time: &str) -> Verdict {
    Verdict::Waits {
        policy: 0,
        finish: at("10:00:00"),
        due: at(time),
    }
}

#[rstest]
#[case::its_ttl_has_not_passed(job(), MEMORY, "10:59:59", HOUR, waits("11:00:00"))]
#[case::its_ttl_has_passed(job(), MEMORY, "11:00:00", HOUR, due("11:00:00"))]
#[case::the_one_after_failing_has_not(failed(job()), MEMORY, "11:59:59", HOUR, waits("12:00:00"))]
#[case::the_one_after_failing_has(failed(job()), MEMORY, "12:00:00", HOUR, due("12:00:00"))]
#[case::the_process_has_just_started(job(), MEMORY, "20:00:00", Duration::ZERO,
    Verdict::InGrace { policy: 0, finish: at("10:00:00"), due: at("11:00:00"), left: HOUR })]
#[case::a_label_changed_a_minute_ago(
    job(), Memory { since: HOUR * 5, ..MEMORY }, "20:00:00", HOUR * 5 + Duration::from_mins(1),
    Verdict::InGrace { policy: 0, finish: at("10:00:00"), due: at("11:00:00"), left: Duration::from_mins(59) })]
#[case::what_another_leader_deleted_still_counts(
    job(), Memory { counts_from: HOUR * 7, ..MEMORY }, "20:00:00", HOUR * 6,
    Verdict::InGrace { policy: 0, finish: at("10:00:00"), due: at("11:00:00"), left: HOUR }
)]
#[case::the_grace_period_is_over(job(), Memory { since: HOUR * 5, ..MEMORY }, "20:00:00", HOUR * 6, due("11:00:00"))]
#[case::both_are_to_come(job(), MEMORY, "10:30:00", Duration::ZERO, waits("11:00:00"))]
#[case::the_last_that_failed(
    failed(job()), Memory { is_last_failed: true, ..MEMORY }, "20:00:00", HOUR, Verdict::Left(LeftBecause::LastFailed(0)))]
#[case::a_finalizer_would_hold_it(
    Candidate { finalizers: Some("example.com/a".into()), ..job() }, MEMORY, "20:00:00", HOUR,
    Verdict::Left(LeftBecause::Finalizers(0)))]
#[case::a_finalizer_matters_only_when_it_is_due(
    Candidate { finalizers: Some("example.com/a".into()), ..job() }, MEMORY, "10:30:00", HOUR, waits("11:00:00"))]
#[case::the_brake_is_engaged(
    job(), Memory { is_braked: true, ..MEMORY }, "20:00:00", HOUR, Verdict::Left(LeftBecause::Braked(0)))]
#[case::it_has_not_finished(
    finished(job(), None),
    MEMORY,
    "20:00:00",
    HOUR,
    Verdict::Left(LeftBecause::NotFinished(0))
)]
#[case::nobody_knows_when_it_finished(
    finished(job(), Some(Finish::Undated)),
    MEMORY,
    "20:00:00",
    HOUR,
    Verdict::Undated(0)
)]
#[case::it_finishes_in_the_future(
    finished(job(), Some(Finish::At(at("21:00:00")))), MEMORY, "20:00:00", HOUR,
    Verdict::Waits { policy: 0, finish: at("21:00:00"), due: at("22:00:00") })]
fn an_object_goes_when_ttl_and_grace_have_passed(
    #[case] object: Candidate,
    #[case] memory: Memory,
    #[case] wall: &str,
    #[case] uptime: Duration,
    #[case] expected: Verdict,
) {
    let now = Now {
        wall: at(wall),
        uptime,
    };
    assert_eq!(judge(&policies(one()), 0, &object, memory, now), expected);
}

#[rstest]
#[case::never(json!("never"))]
#[case::not_given(Value::Null)]
fn what_a_policy_gives_no_time_stays(#[case] ttl: Value) {
    let mut list = json!([{ "name": "p", "ttlAfterSucceeded": "1h", "ttlAfterFailed": ttl }]);
    if ttl.is_null() {
        list[0].as_object_mut().unwrap().remove("ttlAfterFailed");
    }
    let now = Now {
        wall: at("20:00:00"),
        uptime: HOUR,
    };
    let policies = policies(list);
    assert_eq!(
        judge(&policies, 0, &failed(job()), MEMORY, now),
        Verdict::Left(LeftBecause::Never(0))
    );
    assert_eq!(judge(&policies, 0, &job(), MEMORY, now), due("11:00:00"));
}

#[rstest]
#[case::it_has_not_finished(None, true)]
#[case::just_now(Some(Finish::At(at("12:00:00"))), true)]
#[case::a_minute_ago(Some(Finish::At(at("11:59:00"))), true)]
#[case::longer_ago(Some(Finish::At(at("11:58:59"))), false)]
#[case::in_the_near_future(Some(Finish::At(at("12:01:00"))), true)]
#[case::later_than_that(Some(Finish::At(at("12:01:01"))), false)]
#[case::nobody_knows(Some(Finish::Undated), false)]
fn an_object_is_new_if_it_is_seen_to_finish(#[case] finish: Option<Finish>, #[case] expected: bool) {
    assert_eq!(is_new(&finished(job(), finish), at("12:00:00")), expected);
}

/// It ended at 12:00:00, and we saw it an hour after our start. An answer came two hours after our start.
#[rstest]
#[case::seen_at_its_end("13:00:00", 0, true)]
#[case::seen_within_a_minute_of_it("13:00:59", 0, true)]
#[case::maybe_seen_later_in_that_second("13:01:00", 0, false)]
#[case::seen_before_it("12:59:00", 0, true)]
#[case::seen_long_before_it("12:58:59", 0, false)]
#[case::seen_long_after_it_by_a_slow_clock("15:00:00", 0, false)]
#[case::an_answer_that_may_be_from_before("13:00:30", 30, false)]
#[case::an_answer_that_took_a_while("13:00:30", 29, true)]
fn an_object_is_new_by_the_servers_clock_as_well(
    #[case] date: &str,
    #[case] took: u64,
    #[case] expected: bool,
) {
    let began = Beginning {
        at: HOUR,
        just_past: Some(at("12:00:00")),
    };
    let servers = ServerDate {
        date: at(date),
        asked: HOUR + Duration::from_secs(3_600 - took),
        answered: HOUR * 2,
    };
    assert_eq!(began.is_of_new_object(Some(servers)), expected);
    assert!(began.is_of_new_object(None), "no proxy hides it");
    let changed = Beginning {
        just_past: None,
        ..began
    };
    assert!(!changed.is_of_new_object(Some(servers)), "a policy applies anew");
}

/// It was created at noon, and by our clock it is noon an hour after our start.
#[rstest]
#[case::by_the_servers_clock_as_well("12:00:00", Duration::ZERO)]
#[case::by_our_slow_clock_alone("12:10:00", HOUR)]
fn a_namespace_is_new_by_the_servers_clock_as_well(#[case] date: &str, #[case] since: Duration) {
    let now = |uptime| Now {
        wall: at("12:00:00"),
        uptime,
    };
    let (policies, mut state) = (Arc::new(policies(one())), PolicyState::default());
    state.begin(&policies, now(Duration::ZERO), []);
    let made = NamespaceView {
        created: Some(at("12:00:00")),
        ..team_a()
    };
    state.namespace_changed(&policies, (None, Some(&made)), &[Arc::new(job())], now(HOUR));
    let servers = ServerDate {
        date: at(date),
        asked: HOUR,
        answered: HOUR,
    };
    assert_eq!(state.since(&Key::of(&job()), Some(servers)), since);
}
