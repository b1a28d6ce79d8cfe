//! When a sync of a pod would do or tell anything (RC-16).

use resourceclaim_controller::view::ClaimantView;
use rstest::rstest;

use crate::support::{
    World, allocated, claim, deleting, made, on_node, over, pod, pod_recording, pod_with, recording, status,
    users,
};

#[rstest]
#[case::nothing_is_wanted(pod_with([]), World::of([]), false)]
#[case::a_claim_is_to_be_made(pod(), World::of([]), true)]
#[case::a_template_is_missing(pod(), World::of([]).without_template(), true)]
#[case::a_claim_is_to_be_recorded(pod(), World::of([made("x", "gpu")]), true)]
#[case::all_is_made(pod_recording("x"), World::of([made("x", "gpu")]), false)]
#[case::all_is_made_and_the_template_gone(pod_recording("x"), World::of([made("x", "gpu")]).without_template(), false)]
#[case::the_recorded_claim_is_not_shown(pod_recording("x"), World::of([]), true)]
#[case::the_recorded_claim_is_another_ones(pod_recording("x"), World::of([claim("x")]), true)]
#[case::no_claim_is_needed(recording(pod(), [status("gpu", None)]), World::of([]), false)]
#[case::the_user_makes_the_claim(pod_with([users("gpu", "shared")]), World::of([]), false)]
#[case::the_user_has_made_the_claim(on_node(pod_with([users("gpu", "shared")])), World::of([claim("shared")]), false)]
#[case::the_users_claim_is_to_be_reserved(
    on_node(pod_with([users("gpu", "shared")])), World::of([allocated(claim("shared"))]), true
)]
#[case::the_scheduler_reserves_it(pod_recording("x"), World::of([allocated(made("x", "gpu"))]), false)]
fn a_pod_is_synced_when_that_does_or_tells_anything(
    #[case] pod: ClaimantView,
    #[case] world: World,
    #[case] needs_work: bool,
) {
    assert_eq!(world.pod_needs_work(&pod), needs_work);
    for done in [over(pod.clone()), deleting(pod)] {
        assert!(!world.pod_needs_work(&done));
    }
}
