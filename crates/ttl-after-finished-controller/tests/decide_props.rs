//! What holds for all inputs.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use controller_core::meta::{ObjectKey, Uid};
use controller_core::time::saturating_add;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use ttl_after_finished_controller::decide::{ExpiryPlan, JobJudgement, expiry, judge, plan, slower_clock};
use ttl_after_finished_controller::view::{Finish, JobView};

fn time() -> impl Strategy<Value = Timestamp> {
    // Around one moment, where the rules change their mind, and anywhere at all.
    prop_oneof![
        (-100_i64..100).prop_map(|second| Timestamp::from_second(1_767_225_600 + second).unwrap()),
        (Timestamp::MIN.as_second()..=Timestamp::MAX.as_second())
            .prop_map(|second| Timestamp::from_second(second).unwrap()),
    ]
}

fn job() -> impl Strategy<Value = JobView> {
    let ttl =
        prop_oneof![4 => (0..120_i32).prop_map(Some), 1 => any::<i32>().prop_map(Some), 1 => Just(None)];
    let finish = prop_oneof![
        4 => time().prop_map(|at| Some(Finish::At(at))),
        1 => Just(Some(Finish::Undated)),
        1 => Just(None),
    ];
    (ttl, finish, prop::bool::weighted(0.1)).prop_map(|(ttl_seconds, finish, deleting)| JobView {
        key: ObjectKey::namespaced("ns", "job"),
        uid: Uid::from("uid"),
        version: "7".into(),
        ttl_seconds,
        finish,
        deleting,
    })
}

proptest! {
    #[test]
    fn no_job_is_deleted_before_its_finish_and_ttl_on_the_slower_of_the_two_clocks(
        view in job(),
        ours in time(),
        servers in prop::option::of(time()),
    ) {
        let (ttl, finish) = (view.ttl_seconds, view.finish);
        if let ExpiryPlan::Delete(deletion) = plan(&view, slower_clock(ours, servers)) {
            let Some((Finish::At(finish), ttl)) = finish.zip(ttl) else {
                panic!("deleted without a finish or without a ttl");
            };
            prop_assert_eq!(deletion.expiry, expiry(finish, ttl));
            prop_assert!(ours >= deletion.expiry);
            // The header has whole seconds: what it cut off may be up to one.
            let servers = servers.map(|date| saturating_add(date, std::time::Duration::from_secs(1)));
            prop_assert!(servers.is_none_or(|servers| servers >= deletion.expiry));
        }
    }

    #[test]
    fn once_expired_a_job_stays_expired(view in job(), now in time(), later in 0_i64..1_000_000) {
        if let JobJudgement::Expired { .. } = judge(&view, now) {
            let later = now.checked_add(SignedDuration::from_secs(later)).unwrap_or(Timestamp::MAX);
            let still = matches!(judge(&view, later), JobJudgement::Expired { .. });
            prop_assert!(still);
        }
    }

    #[test]
    fn a_raised_ttl_never_brings_the_expiry_nearer(finish in time(), ttl in any::<i32>(), more in any::<u16>()) {
        prop_assert!(expiry(finish, ttl.saturating_add(more.into())) >= expiry(finish, ttl));
    }

    #[test]
    fn what_waits_is_due_at_its_expiry(view in job(), now in time()) {
        if let JobJudgement::Waits { expiry, .. } = judge(&view, now) {
            prop_assert!(expiry > now);
            let due = matches!(judge(&view, expiry), JobJudgement::Expired { .. });
            prop_assert!(due);
        }
    }
}
