//! For whom a claim is reserved, and until when (RC-8 to RC-10).

use resourceclaim_controller::decide::{
    Being, ConsumerLookup, Gates, Groups, RESERVED_FOR_MAX_SIZE, Reservation, Standing, claimant_kind,
    standing,
};
use resourceclaim_controller::pod_group::GroupVersion;
use resourceclaim_controller::view::{ClaimView, ClaimantView, Consumer, ConsumerKind};
use rstest::rstest;

use crate::support::{
    World, a_group, a_pod, allocated, being, claim, deleting, group_with, made, made_for_group, on_node,
    over, owned_by, pod, pod_recording, pod_with, recording, reservation_of, reserve_for, reserved,
    something_else, status, terminating, unknown, users,
};

// ---- RC-8

#[rstest]
#[case::made_for_it(on_node(pod()), allocated(made("x", "gpu")))]
#[case::the_users_own(on_node(pod_with([users("gpu", "x")])), allocated(claim("x")))]
#[case::the_users_own_of_whatever_owner(
    on_node(pod_with([users("gpu", "x")])), allocated(owned_by(claim("x"), "v1", "Pod", "before", "gpu"))
)]
#[case::allocated_by_another_than_the_scheduler(
    on_node(pod()), ClaimView { finalizer: false, ..allocated(made("x", "gpu")) }
)]
fn a_pod_on_a_node_gets_its_allocated_claims_reserved(#[case] pod: ClaimantView, #[case] claim: ClaimView) {
    let world = World::of([claim.clone()]);
    let write = reserve_for(a_pod("pod"), "x");
    assert_eq!(reservation_of(&pod, &claim), write);
    let pod = recording(pod, [status("gpu", Some("x"))]);
    assert!(world.pod_needs_work(&pod));
    let nothing = |pod: &ClaimantView, claim: ClaimView| {
        let world = World::of([claim.clone()]);
        assert_eq!(reservation_of(pod, &claim), Reservation::Nothing);
        assert!(!world.pod_needs_work(pod));
    };
    // There is no node yet: the scheduler does it. Or no allocation.
    nothing(
        &ClaimantView {
            node: None,
            ..pod.clone()
        },
        claim.clone(),
    );
    nothing(
        &pod,
        ClaimView {
            allocated: false,
            ..claim.clone()
        },
    );
    // The API server would refuse it.
    nothing(&pod, terminating(claim.clone()));
    // Nobody is there to use it.
    nothing(&over(pod.clone()), claim.clone());
    nothing(&deleting(pod.clone()), claim.clone());
    // It is already.
    nothing(&pod, reserved(claim.clone(), [&a_pod("other"), &a_pod("pod")]));
    // Others may use it, too, as many as there is room for.
    let another = |number: usize| a_pod(&format!("other-{number}"));
    let others: Vec<_> = (0..RESERVED_FOR_MAX_SIZE).map(another).collect();
    let almost_full = reserved(claim.clone(), &others[1..]);
    assert_eq!(reservation_of(&pod, &almost_full), write);
    let full = reserved(claim.clone(), &others);
    assert_eq!(full.reserved.len(), 256);
    assert_eq!(reservation_of(&pod, &full), Reservation::Full);
    assert!(World::of([full.clone()]).pod_needs_work(&pod));
    // One of a pod of the same name is none of this pod.
    let before = Consumer {
        uid: "before".into(),
        ..a_pod("pod")
    };
    assert_eq!(reservation_of(&pod, &reserved(claim, [&before])), write);
}

#[test]
fn the_claim_of_another_is_never_reserved_for_a_template_entry() {
    let pod = on_node(pod_recording("x"));
    for other in [
        claim("x"),
        owned_by(claim("x"), "v1", "Pod", "before", "gpu"),
        made_for_group("x", "gpu"),
    ] {
        assert_eq!(reservation_of(&pod, &allocated(other)), Reservation::Nothing);
    }
    let pod = on_node(pod_with([unknown("x")]));
    assert_eq!(reservation_of(&pod, &allocated(claim("x"))), Reservation::Nothing);
}

// ---- RC-9

#[rstest]
#[case::its_pod_may_run(a_pod("pod"), Some(being("pod", false)), Standing::Holds, Standing::Holds)]
#[case::its_pod_is_done(a_pod("pod"), Some(being("pod", true)), Standing::Done, Standing::Done)]
#[case::its_pod_is_not_shown(a_pod("pod"), None, Standing::Unsure, Standing::Gone)]
#[case::another_has_the_name(a_pod("pod"), Some(being("other", false)), Standing::Unsure, Standing::Gone)]
#[case::another_has_the_name_and_is_done(
    a_pod("pod"),
    Some(being("other", true)),
    Standing::Unsure,
    Standing::Gone
)]
fn a_reservation_goes_only_with_its_consumer(
    #[case] consumer: Consumer,
    #[case] found: Option<Being>,
    #[case] cached: Standing,
    #[case] live: Standing,
) {
    let gates = Gates::default();
    let judged = |consumer: &Consumer, departed, sight| standing(consumer, departed, &sight, gates);
    assert_eq!(
        judged(&consumer, false, ConsumerLookup::Cached(found.clone())),
        cached
    );
    assert_eq!(
        judged(&consumer, false, ConsumerLookup::Live(found.clone())),
        live
    );
    // Deleted is deleted.
    assert_eq!(
        judged(&consumer, true, ConsumerLookup::Cached(found.clone())),
        Standing::Gone
    );
    // Nobody knows what else there may be.
    let unknown = something_else("pod");
    for departed in [false, true] {
        for sight in [
            ConsumerLookup::Cached(found.clone()),
            ConsumerLookup::Live(found.clone()),
        ] {
            assert_eq!(judged(&unknown, departed, sight), Standing::Holds);
        }
    }
}

#[test]
fn groups_keep_their_reservations_while_groups_do_not_count() {
    let off = Gates::default();
    let on = Gates {
        groups: Groups::On(GroupVersion::V1Beta1),
        ..off
    };
    let judged = |sight: &ConsumerLookup, gates| standing(&a_group("group"), false, sight, gates);
    for (sight, counted) in [
        (ConsumerLookup::Cached(None), Standing::Unsure),
        (ConsumerLookup::Live(None), Standing::Gone),
        (
            ConsumerLookup::Cached(Some(being("other", false))),
            Standing::Unsure,
        ),
        (ConsumerLookup::Live(Some(being("other", false))), Standing::Gone),
        (
            ConsumerLookup::Cached(Some(being("group", false))),
            Standing::Holds,
        ),
    ] {
        assert_eq!(judged(&sight, off), Standing::Holds, "{sight:?}");
        assert_eq!(judged(&sight, on), counted, "{sight:?}");
    }
    assert_eq!(Being::of(&group_with([])), being("group", false));
    let known = [ConsumerKind::Pod, ConsumerKind::PodGroup, ConsumerKind::Other].map(|kind| {
        (
            claimant_kind(kind, off).is_some(),
            claimant_kind(kind, on).is_some(),
        )
    });
    assert_eq!(known, [(true, true), (false, true), (false, false)]);
}

// ---- RC-10

#[rstest]
#[case::waiting(pod(), false)]
#[case::on_a_node(on_node(pod()), false)]
#[case::over(over(on_node(pod())), true)]
#[case::over_without_a_node(over(pod()), true)]
#[case::deleted_on_its_node(deleting(on_node(pod())), false)]
#[case::deleted_before_it_was_scheduled(deleting(pod()), true)]
#[case::deleted_and_over(deleting(over(on_node(pod()))), true)]
fn a_pod_is_done_when_nothing_of_it_runs_or_will(#[case] pod: ClaimantView, #[case] done: bool) {
    assert_eq!(pod.is_done(), done);
    assert_eq!(Being::of(&pod), being("pod", done));
}
