//! What becomes of a claim that is not needed any more (RC-11 to RC-13, RC-15).

use controller_core::meta::Uid;
use resourceclaim_controller::decide::{
    Being, ClaimPlan, ConsumerLookup, Evidence, Gates, IDLE_FINALIZER_AGE, Next, Ownership, Standing,
    next_step, owner, standing,
};
use resourceclaim_controller::view::{ClaimOrigin, ClaimView, ClaimantView};
use rstest::rstest;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{
    World, a_pod, allocated, being, claim, made, made_for_group, on_node, over, owned_by, pod_with,
    recording, reserved, something_else, status, templated, terminating, unknown, users,
};

// ---- RC-11, RC-12, RC-13

/// Every write until nothing is left to do, and the claim after them.
fn writes(claim: &ClaimView, gone: &[&str], owner: Ownership) -> (Vec<ClaimPlan>, Option<ClaimView>) {
    let evidence = Evidence {
        gone: gone.iter().map(|uid| Uid::from(*uid)).collect(),
        owner,
        unchanged: Duration::ZERO,
    };
    let mut steps = Vec::new();
    let mut now = Some(claim.clone());
    while let Some(claim) = &now
        && let Next::Do(step) = next_step(claim, &evidence)
    {
        now = step.done_to(claim);
        steps.push(step);
        assert!(steps.len() < 5, "{steps:?}");
    }
    (steps, now)
}

/// With a finalizer that protects nothing.
fn unneeded(claim: ClaimView) -> ClaimView {
    ClaimView {
        finalizer: true,
        ..claim
    }
}

fn release(gone: &[&str], all: bool, deallocate: bool) -> ClaimPlan {
    ClaimPlan::Release {
        gone: gone.iter().map(|uid| Uid::from(*uid)).collect(),
        all,
        deallocate,
    }
}

#[test]
fn a_claim_that_nobody_uses_is_given_back() {
    let shared = allocated(claim("shared"));
    let (steps, after) = writes(
        &reserved(shared.clone(), [&a_pod("pod")]),
        &["pod"],
        Ownership::Leave,
    );
    assert_eq!(steps, [release(&["pod"], true, true)]);
    assert_eq!(after, Some(unneeded(claim("shared"))));
    // One write takes all that are gone, and the rest stays.
    let consumers = ["a", "b", "c"].map(a_pod);
    let (steps, after) = writes(
        &reserved(shared.clone(), &consumers),
        &["a", "c"],
        Ownership::Leave,
    );
    assert_eq!(steps, [release(&["a", "c"], false, false)]);
    assert_eq!(after, Some(reserved(shared.clone(), [&consumers[1]])));
    // Whichever of them stays.
    let mixed = [a_pod("pod"), something_else("foo")];
    let (steps, after) = writes(&reserved(shared.clone(), &mixed), &["pod"], Ownership::Leave);
    assert_eq!(steps, [release(&["pod"], false, false)]);
    assert_eq!(after, Some(reserved(shared.clone(), [&mixed[1]])));
    // Another than the scheduler allocated it: its own affair.
    let others = ClaimView {
        finalizer: false,
        ..shared.clone()
    };
    let (steps, after) = writes(
        &reserved(others.clone(), [&a_pod("pod")]),
        &["pod"],
        Ownership::Leave,
    );
    assert_eq!(steps, [release(&["pod"], true, false)]);
    assert_eq!(after, Some(others));
    // Not used yet is not used no more.
    assert_eq!(writes(&shared, &[], Ownership::Leave).0, []);
    let held = reserved(shared, [&a_pod("pod")]);
    assert_eq!(writes(&held, &[], Ownership::Leave).0, []);
    assert_eq!(writes(&held, &["another"], Ownership::Over).0, []);
    assert_eq!(writes(&claim("shared"), &[], Ownership::Leave).0, []);
}

#[rstest]
#[case::at_first(Duration::ZERO, Next::LookAgain(Duration::from_mins(5)))]
#[case::for_a_while(Duration::from_secs(299), Next::LookAgain(Duration::from_secs(1)))]
#[case::for_five_minutes(Duration::from_mins(5), Next::Do(ClaimPlan::RemoveFinalizer))]
#[case::for_ever(Duration::MAX, Next::Do(ClaimPlan::RemoveFinalizer))]
fn a_finalizer_without_allocation_goes_after_five_minutes(
    #[case] unchanged: Duration,
    #[case] expected: Next,
) {
    assert_eq!(IDLE_FINALIZER_AGE, Duration::from_mins(5));
    let evidence = |unchanged| Evidence {
        gone: Vec::new(),
        owner: Ownership::Leave,
        unchanged,
    };
    let left = unneeded(claim("x"));
    assert_eq!(next_step(&left, &evidence(unchanged)), expected);
    // The scheduler adds the finalizer just before the allocation: one or the other stays.
    for used in [
        allocated(claim("x")),
        reserved(left.clone(), [&a_pod("pod")]),
        claim("x"),
    ] {
        assert_eq!(next_step(&used, &evidence(Duration::MAX)), Next::Leave);
    }
    // A claim that does not stay is allocated by nobody.
    let going = terminating(left);
    assert_eq!(
        next_step(&going, &evidence(Duration::ZERO)),
        Next::Do(ClaimPlan::RemoveFinalizer)
    );
}

#[test]
fn a_claim_that_is_being_deleted_is_let_go() {
    let going = || terminating(allocated(claim("x")));
    let unused = || ClaimView {
        allocated: false,
        ..going()
    };
    for (claim, gone, steps) in [
        (
            going(),
            vec![],
            vec![release(&[], true, true), ClaimPlan::RemoveFinalizer],
        ),
        (
            reserved(going(), [&a_pod("pod")]),
            vec!["pod"],
            vec![release(&["pod"], true, true), ClaimPlan::RemoveFinalizer],
        ),
        (unused(), vec![], vec![ClaimPlan::RemoveFinalizer]),
    ] {
        assert_eq!(writes(&claim, &gone, Ownership::Leave), (steps, None));
    }
    // Not while somebody uses it.
    let used = reserved(going(), [&a_pod("pod"), &a_pod("other")]);
    assert_eq!(writes(&used, &[], Ownership::Over).0, []);
    assert_eq!(
        writes(&used, &["other"], Ownership::Over).0,
        [release(&["other"], false, false)]
    );
    // Another's finalizer is another's affair, and it is deleted already.
    let others = ClaimView {
        finalizer: false,
        ..going()
    };
    assert_eq!(writes(&others, &[], Ownership::Over).0, []);
}

#[test]
fn the_claim_of_a_pod_that_is_done_is_deleted() {
    let whole = reserved(allocated(made("x", "gpu")), [&a_pod("pod")]);
    let (steps, after) = writes(&whole, &["pod"], Ownership::Over);
    let expected = [
        release(&["pod"], true, true),
        ClaimPlan::Delete,
        ClaimPlan::RemoveFinalizer,
    ];
    assert_eq!((steps.as_slice(), after), (&expected[..], None));
    assert_eq!(
        writes(&made("x", "gpu"), &[], Ownership::Over).0,
        [ClaimPlan::Delete]
    );
    // Allocated, and never used.
    let (steps, after) = writes(&allocated(made("x", "gpu")), &[], Ownership::Over);
    let expected = [
        ClaimPlan::Delete,
        release(&[], true, true),
        ClaimPlan::RemoveFinalizer,
    ];
    assert_eq!((steps.as_slice(), after), (&expected[..], None));
    // Left by a crash between the first two writes.
    let left = ClaimView {
        finalizer: true,
        ..made("x", "gpu")
    };
    let (steps, after) = writes(&left, &[], Ownership::Over);
    assert_eq!(
        (steps.as_slice(), after),
        (&[ClaimPlan::Delete, ClaimPlan::RemoveFinalizer][..], None)
    );
    // Its deletion is the garbage collector's, or nobody's.
    for ownership in [Ownership::Leave, Ownership::Unsure] {
        assert_eq!(writes(&made("x", "gpu"), &[], ownership).0, []);
    }
    // Another pod uses it still.
    let used = reserved(allocated(made("x", "gpu")), [&a_pod("other")]);
    assert_eq!(writes(&used, &[], Ownership::Over).0, []);
}

#[rstest]
#[case::it_may_run(Some(being("pod", false)), Ownership::Leave, Ownership::Leave)]
#[case::it_is_done(Some(being("pod", true)), Ownership::Over, Ownership::Over)]
#[case::it_is_not_known(None, Ownership::Leave, Ownership::Leave)]
#[case::another_has_its_name(Some(being("other", false)), Ownership::Unsure, Ownership::Over)]
#[case::another_has_its_name_and_is_done(Some(being("other", true)), Ownership::Unsure, Ownership::Over)]
fn a_claim_goes_with_its_pod_when_that_is_done_or_replaced(
    #[case] found: Option<Being>,
    #[case] cached: Ownership,
    #[case] live: Ownership,
) {
    let ours = made("x", "gpu");
    assert_eq!(
        owner(&ours, false, &ConsumerLookup::Cached(found.clone())),
        cached
    );
    assert_eq!(owner(&ours, false, &ConsumerLookup::Live(found.clone())), live);
    // Known to be deleted, so that what the cache shows came after it.
    let departed = if found.is_some() {
        Ownership::Over
    } else {
        Ownership::Leave
    };
    if found != Some(being("pod", false)) {
        assert_eq!(
            owner(&ours, true, &ConsumerLookup::Cached(found.clone())),
            departed
        );
    }
    // What no pod controls is nobody's to delete.
    let elses = [
        claim("x"),
        made_for_group("x", "gpu"),
        owned_by(claim("x"), "example.com/v1", "Pod", "pod", "gpu"),
    ];
    for elses in elses {
        for departed in [false, true] {
            let judged = owner(&elses, departed, &ConsumerLookup::Live(found.clone()));
            assert_eq!(judged, Ownership::Leave);
        }
    }
}

// ---- RC-15

#[test]
fn an_extended_resource_claim_is_given_back_like_any_other() {
    let pod = ClaimantView {
        extended: Some("extended".into()),
        ..over(on_node(pod_with([])))
    };
    assert_eq!(pod.claims(), ["extended".into()] as [Arc<str>; 1]);
    let both = ClaimantView {
        extended: Some("extended".into()),
        ..recording(
            pod_with([users("a", "shared"), templated("gpu", "t"), unknown("c")]),
            [status("gpu", Some("x"))],
        )
    };
    let named: [Arc<str>; 3] = ["extended".into(), "shared".into(), "x".into()];
    assert_eq!(both.claims(), named);
    let of_scheduler = ClaimView {
        origin: ClaimOrigin::Extended,
        entry: None,
        ..made("extended", "")
    };
    let held = reserved(allocated(of_scheduler.clone()), [&a_pod("pod")]);
    let sight = ConsumerLookup::Cached(Some(Being::of(&pod)));
    let judged = standing(&held.reserved[0], false, &sight, Gates::default());
    assert_eq!(judged, Standing::Done);
    assert_eq!(owner(&held, false, &sight), Ownership::Over);
    let (steps, after) = writes(&held, &["pod"], Ownership::Over);
    let expected = [
        release(&["pod"], true, true),
        ClaimPlan::Delete,
        ClaimPlan::RemoveFinalizer,
    ];
    assert_eq!((steps.as_slice(), after), (&expected[..], None));
    // The scheduler makes it and reserves it: a pod is not synced for it.
    let runs = ClaimantView { over: false, ..pod };
    assert!(!World::of([of_scheduler]).pod_needs_work(&runs));
}
