//! What is remembered, and for how long (RC-4, RC-14).

use controller_core::clock::Clock;
use controller_core::meta::Uid;
use resourceclaim_controller::decide::{Departed, Stamp, UNSHOWN_TTL, Unshown};
use std::time::Duration;

use crate::support::key;

// ---- RC-4

#[test]
fn what_was_written_is_remembered_until_it_is_shown() {
    let now = Clock::system().instant();
    let (claim, uid, owner) = (key("claim"), Uid::from("uid"), Uid::from("owner"));
    let accepted = || {
        let mut unshown = Unshown::default();
        unshown.sending(&claim);
        unshown.accepted(&claim, Stamp::written(&uid, "5"), Some(&owner), "written", now);
        unshown.sent(&claim);
        unshown
    };
    let held = |unshown: &Unshown<&'static str>, now| {
        let of_owner: Vec<_> = unshown.of(&owner, now).copied().collect();
        let got = unshown.get(&claim, now).copied();
        assert_eq!(got.into_iter().collect::<Vec<_>>(), of_owner);
        got
    };
    let mut unshown = accepted();
    assert_eq!(held(&unshown, now), Some("written"));
    assert_eq!(unshown.of(&"another".into(), now).count(), 0);
    unshown.shown(&claim, &Stamp::last(&"another".into()));
    unshown.shown(&key("another"), &Stamp::last(&uid));
    assert_eq!(held(&unshown, now), Some("written"));
    unshown.shown(&claim, &Stamp::shown(&uid, "5"));
    assert_eq!((held(&unshown, now), unshown.is_empty()), (None, true));

    // Not by a list that was on its way already.
    let mut unshown = Unshown::default();
    unshown.list_began();
    unshown.accepted(&claim, Stamp::written(&uid, "5"), Some(&owner), "written", now);
    unshown.list_finished();
    assert_eq!(held(&unshown, now), Some("written"));
    unshown.list_began();
    assert_eq!(held(&unshown, now), Some("written"));
    unshown.list_finished();
    assert_eq!((held(&unshown, now), unshown.len()), (None, 0));

    // An hour at most.
    let unshown = accepted();
    let almost = now + UNSHOWN_TTL - Duration::from_nanos(1);
    assert_eq!(held(&unshown, almost), Some("written"));
    assert_eq!(held(&unshown, now + UNSHOWN_TTL), None);
    assert_eq!(UNSHOWN_TTL, Duration::from_hours(1));
}

#[test]
fn what_was_shown_before_its_answer_came_is_not_remembered() {
    let now = Clock::system().instant();
    let (claim, uid) = (key("claim"), Uid::from("uid"));
    let mut unshown = Unshown::default();
    unshown.sending(&claim);
    unshown.shown(&claim, &Stamp::shown(&uid, "5"));
    unshown.accepted(&claim, Stamp::written(&uid, "5"), None, "written", now);
    unshown.sent(&claim);
    assert_eq!(unshown.get(&claim, now), None);
    // That was then.
    unshown.sending(&claim);
    unshown.shown(&claim, &Stamp::last(&"another".into()));
    unshown.accepted(&claim, Stamp::written(&uid, "5"), None, "again", now);
    unshown.sent(&claim);
    assert_eq!(unshown.get(&claim, now), Some(&"again"));
    unshown.forget(&claim);
    assert!(unshown.is_empty());
}

#[test]
fn an_older_answer_that_comes_late_is_not_remembered() {
    let now = Clock::system().instant();
    let (claim, uid) = (key("claim"), Uid::from("uid"));
    let mut unshown = Unshown::default();
    // A write, and a read that is answered before it and comes after it.
    unshown.sending(&claim);
    unshown.sending(&claim);
    unshown.accepted(&claim, Stamp::written(&uid, "5"), None, "written", now);
    unshown.sent(&claim);
    unshown.shown(&claim, &Stamp::shown(&uid, "5"));
    unshown.accepted(&claim, Stamp::written(&uid, "5"), None, "read", now);
    unshown.sent(&claim);
    assert_eq!(unshown.get(&claim, now), None);
    // Nothing is on its way any more.
    unshown.accepted(&claim, Stamp::written(&uid, "5"), None, "again", now);
    assert_eq!(unshown.get(&claim, now), Some(&"again"));
}

#[test]
fn a_state_that_is_older_than_the_one_that_was_written_says_nothing() {
    let now = Clock::system().instant();
    let (claim, uid) = (key("claim"), Uid::from("uid"));
    let mut unshown = Unshown::default();
    unshown.sending(&claim);
    // Our write before this one, which the informer shows late.
    unshown.shown(&claim, &Stamp::shown(&uid, "9"));
    unshown.accepted(&claim, Stamp::written(&uid, "10"), None, "written", now);
    unshown.sent(&claim);
    unshown.shown(&claim, &Stamp::shown(&uid, "9"));
    assert_eq!(unshown.get(&claim, now), Some(&"written"));
    // A read that was answered before the write.
    unshown.accepted(&claim, Stamp::written(&uid, "9"), None, "read", now);
    assert_eq!(unshown.get(&claim, now), Some(&"written"));
    unshown.shown(&claim, &Stamp::shown(&uid, "11"));
    assert_eq!(unshown.get(&claim, now), None);
    // Versions that are no numbers: what is shown counts as younger.
    unshown.accepted(&claim, Stamp::written(&uid, "b"), None, "written", now);
    unshown.shown(&claim, &Stamp::shown(&uid, "a"));
    assert!(unshown.is_empty());
}

#[test]
fn no_number_of_writes_pushes_one_out() {
    let now = Clock::system().instant();
    let (uid, owner) = (Uid::from("uid"), Uid::from("owner"));
    let mut unshown = Unshown::default();
    for number in 0..5_000 {
        unshown.accepted(
            &key(&number.to_string()),
            Stamp::first(&uid),
            Some(&owner),
            number,
            now,
        );
    }
    assert_eq!((unshown.len(), unshown.of(&owner, now).count()), (5_000, 5_000));
    // What is too old goes when something new comes.
    let later = now + UNSHOWN_TTL;
    unshown.accepted(&key("new"), Stamp::first(&uid), Some(&owner), 5_000, later);
    assert_eq!((unshown.len(), unshown.of(&owner, later).count()), (1, 1));
}

// ---- RC-14

#[test]
fn deleted_pods_are_remembered_while_a_claim_refers_to_them() {
    let uid = |number: usize| Uid::from(format!("uid-{number}").as_str());
    let mut departed = Departed::default();
    assert!(departed.is_empty());
    for number in 1..10_000 {
        // A claim refers to every hundredth.
        let asked = |of: &Uid| of.to_string().ends_with("00");
        departed.deleted(&uid(number), asked);
        departed.deleted(&uid(number), asked);
        let oldest = number.saturating_sub(499).max(1);
        assert!(departed.contains(&uid(oldest)), "{oldest} of {number}");
    }
    for number in (100..10_000).step_by(100) {
        assert!(departed.contains(&uid(number)), "{number}");
    }
    assert!(!departed.contains(&uid(1)));
    assert!(departed.len() <= 2 * (500 + 100), "{}", departed.len());
    assert!(!departed.contains(&uid(10_000)));

    // 500 are the floor, not the cap.
    let mut departed = Departed::default();
    for number in 0..3_000 {
        departed.deleted(&uid(number), |_| true);
    }
    assert_eq!(departed.len(), 3_000);
}
