//! `PodGroups` (RC-17).

use resourceclaim_controller::decide::{
    Claimant, EntryFailure, EntryVerdict, Gates, Group, Groups, LiveClaim, Reservation, answer, binds_to,
    group_of, is_for, needs_work, reservation, statuses,
};
use resourceclaim_controller::view::{ClaimView, ClaimantView};
use std::sync::Arc;

use crate::support::{
    World, a_group, a_pod, allocated, alone, claim, create_of, creates, group_with, in_group, key, made,
    made_for_group, on_node, pod, pod_recording, pod_with, reserve_for, reserved, status, templated, unknown,
    users,
};

#[test]
fn a_pod_shares_the_claims_of_its_group() {
    let group = group_with([templated("gpu", "t"), users("net", "shared"), unknown("what")]);
    let known = Group::Known(&group);
    let pod = in_group(pod(), "group");
    let adopt = |name: &str| EntryVerdict::Adopt(name.into());
    let world = |claims: Vec<ClaimView>| World::of(claims).with_groups();
    // It waits for the claim of its group, with and without a template.
    assert_eq!(world(vec![]).answer_in(&pod, known), EntryVerdict::OfGroup);
    let no_template = world(vec![]).without_template();
    assert_eq!(no_template.answer_in(&pod, known), EntryVerdict::OfGroup);
    assert!(!needs_work(
        &Claimant {
            view: &pod,
            group: known
        },
        &no_template,
        no_template.gates
    ));
    // An own one is not one, and neither is that of a group of the same name.
    assert_eq!(
        world(vec![made("x", "gpu")]).answer_in(&pod, known),
        EntryVerdict::OfGroup
    );
    let mut before = made_for_group("x", "gpu");
    Arc::make_mut(before.owner.as_mut().unwrap()).uid = "before".into();
    assert_eq!(
        world(vec![before.clone()]).answer_in(&pod, known),
        EntryVerdict::OfGroup
    );
    // It takes that of its group, and keeps it.
    let shared = world(vec![made_for_group("x", "gpu")]);
    assert_eq!(shared.answer_in(&pod, known), adopt("x"));
    assert!(needs_work(
        &Claimant {
            view: &pod,
            group: known
        },
        &shared,
        shared.gates
    ));
    let recording_it = in_group(pod_recording("x"), "group");
    assert_eq!(
        shared.answer_in(&recording_it, known),
        EntryVerdict::Keep("x".into())
    );
    assert!(!needs_work(
        &Claimant {
            view: &recording_it,
            group: known
        },
        &shared,
        shared.gates
    ));
    // Gone, it waits for another one.
    let asked = answer(
        &Claimant {
            view: &recording_it,
            group: known,
        },
        &recording_it.entries[0],
        &world(vec![]),
        shared.gates,
        LiveClaim::Found(None),
    );
    assert_eq!(asked, EntryVerdict::OfGroup);

    // An entry of its own, and one of the same name that is another.
    for entry in [templated("nic", "t"), templated("gpu", "t2"), users("gpu", "t")] {
        let pod = in_group(pod_with([entry.clone()]), "group");
        let claimant = Claimant {
            view: &pod,
            group: known,
        };
        assert_eq!(binds_to(&claimant, &entry), Some(a_pod("pod")), "{entry:?}");
    }
    let nic = in_group(pod_with([templated("nic", "t")]), "group");
    assert_eq!(creates(world(vec![]).answer_in(&nic, known)), "ns/pod-nic-lthjf");
    // It is reserved for the group, once.
    let on_node = on_node(recording_it);
    let claimant = Claimant {
        view: &on_node,
        group: known,
    };
    let entry = &on_node.entries[0];
    assert_eq!(binds_to(&claimant, entry), Some(a_group("group")));
    let claim = allocated(made_for_group("x", "gpu"));
    let judged = |claim: &ClaimView| reservation(&claimant, entry, claim);
    assert_eq!(judged(&claim), reserve_for(a_group("group"), "x"));
    let of_group = reserved(claim, [&a_group("group")]);
    assert_eq!(judged(&of_group), Reservation::Nothing);
    // Also the user's, where the group names it.
    let net = in_group(pod_with([users("net", "shared")]), "group");
    let claimant = Claimant {
        view: &net,
        group: known,
    };
    assert_eq!(binds_to(&claimant, &net.entries[0]), Some(a_group("group")));
    // What nobody knows is nobody's.
    let what = in_group(pod_with([unknown("what")]), "group");
    let claimant = Claimant {
        view: &what,
        group: known,
    };
    assert_eq!(binds_to(&claimant, &what.entries[0]), Some(a_pod("pod")));
}

#[test]
fn a_pod_waits_for_its_group() {
    let world = World::of([]).with_groups();
    let pod = in_group(pod(), "group");
    let name: Arc<str> = "group".into();
    let missing = Group::Missing(&name);
    let failure = EntryFailure::GroupMissing("group".into());
    assert!(failure.waits());
    assert_eq!(world.answer_in(&pod, missing), EntryVerdict::Failed(failure));
    assert!(needs_work(
        &Claimant {
            view: &pod,
            group: missing
        },
        &world,
        world.gates
    ));
    let pod = on_node(in_group(pod_with([users("gpu", "shared")]), "group"));
    let claimant = Claimant {
        view: &pod,
        group: missing,
    };
    assert_eq!(binds_to(&claimant, &pod.entries[0]), None);
    let judged = reservation(&claimant, &pod.entries[0], &allocated(claim("shared")));
    assert_eq!(judged, Reservation::Nothing);
}

#[test]
fn groups_count_where_the_feature_is_on() {
    let group = group_with([templated("gpu", "t")]);
    let off = Gates::default();
    let on = World::of([]).with_groups().gates;
    let member = in_group(pod(), "group");
    assert_eq!(group_of(&member, Some(&group), on), Group::Known(&group));
    let name: Arc<str> = "group".into();
    assert_eq!(group_of(&member, None, on), Group::Missing(&name));
    assert_eq!(group_of(&pod(), Some(&group), on), Group::None);
    assert_eq!(group_of(&member, Some(&group), off), Group::Off(&name));
    assert_eq!(group_of(&member, None, off), Group::Off(&name));
    assert_eq!(group_of(&pod(), None, off), Group::None);
    let unserved = Gates {
        groups: Groups::Unserved,
        ..off
    };
    assert_eq!(group_of(&member, None, unserved), Group::None);

    // Where nobody knows of groups, the pod gets a claim of its own.
    let shared = made_for_group("of-group", "gpu");
    let world = World::of([shared.clone()]);
    assert_eq!(creates(world.answer(&member)), "ns/pod-gpu-wbbp8");
    let of_group = Claimant {
        view: &member,
        group: Group::Known(&group),
    };
    assert!(is_for(&of_group, &shared));
    assert!(!is_for(&alone(&member), &shared));
    assert!(!needs_work(&alone(&group), &world, off));
}

#[test]
fn for_a_pod_of_a_group_that_does_not_count_nothing_is_made() {
    let name: Arc<str> = "group".into();
    let off = Group::Off(&name);
    let member = in_group(pod(), "group");
    let refused = EntryVerdict::Failed(EntryFailure::GroupsOff("group".into()));
    assert_eq!(World::of([]).answer_in(&member, off), refused);
    assert!(needs_work(
        &Claimant {
            view: &member,
            group: off
        },
        &World::of([]),
        Gates::default()
    ));
    assert_eq!(
        World::of([made_for_group("of-group", "gpu")]).answer_in(&member, off),
        refused,
        "nor is the claim of the group recorded"
    );
    // What there is, stays.
    let own = World::of([made("x", "gpu")]);
    assert_eq!(own.answer_in(&member, off), EntryVerdict::Adopt("x".into()));
    let recorded = in_group(pod_recording("x"), "group");
    for claim in [made("x", "gpu"), made_for_group("x", "gpu")] {
        let world = World::of([claim]);
        assert_eq!(world.answer_in(&recorded, off), EntryVerdict::Keep("x".into()));
    }
    // Its own claims are reserved for it, unless they are for its group.
    let bound = on_node(recorded);
    let claimant = Claimant {
        view: &bound,
        group: off,
    };
    let judged = |claim: &ClaimView| reservation(&claimant, &bound.entries[0], claim);
    let claim = allocated(made("x", "gpu"));
    assert_eq!(judged(&claim), reserve_for(a_pod("pod"), "x"));
    assert_eq!(
        judged(&reserved(claim, [&a_group("group")])),
        Reservation::Nothing
    );
    assert_eq!(
        judged(&allocated(made_for_group("x", "gpu"))),
        Reservation::Nothing
    );
}

#[test]
fn a_group_gets_claims_like_a_pod() {
    let group = group_with([templated("gpu", "t")]);
    let world = |claims: Vec<ClaimView>| World::of(claims).with_groups();
    let asked = |world: &World, group: &ClaimantView| {
        let claimant = alone(group);
        answer(
            &claimant,
            &group.entries[0],
            world,
            world.gates,
            LiveClaim::Unasked,
        )
    };
    let create = create_of(asked(&world(vec![]), &group));
    assert_eq!(create.claim(), key("group-gpu-lnvln"));
    assert_eq!(create.kind.type_meta(), ("scheduling.k8s.io/v1beta1", "PodGroup"));
    assert!(create.is_met_by(&made_for_group("group-gpu-lnvln", "gpu")));
    assert_eq!(
        binds_to(&alone(&group), &group.entries[0]),
        Some(a_group("group"))
    );
    let missing = EntryVerdict::Failed(EntryFailure::TemplateMissing("t".into()));
    for claims in [vec![], vec![claim("group-gpu-lnvln")]] {
        assert_eq!(asked(&world(claims).without_template(), &group), missing);
    }
    let orphan = world(vec![made_for_group("orphan", "gpu")]);
    assert_eq!(asked(&orphan, &group), EntryVerdict::Adopt("orphan".into()));
    let recorded = |name: &str| ClaimantView {
        statuses: [status("gpu", Some(name))].into(),
        ..group.clone()
    };
    assert_eq!(recorded("x").claims(), ["x".into()] as [Arc<str>; 1]);
    let there = world(vec![made_for_group("x", "gpu")]);
    assert_eq!(asked(&there, &recorded("x")), EntryVerdict::Keep("x".into()));
    assert!(!needs_work(&alone(&recorded("x")), &there, there.gates));
    let gone = recorded("group-gpu-lnvln");
    let again = answer(
        &alone(&gone),
        &gone.entries[0],
        &there,
        there.gates,
        LiveClaim::Found(None),
    );
    assert_eq!(again, EntryVerdict::Adopt("x".into()));
    let none = world(vec![]);
    let again = answer(
        &alone(&gone),
        &gone.entries[0],
        &none,
        none.gates,
        LiveClaim::Found(None),
    );
    assert_eq!(creates(again), "ns/group-gpu-nv77c");
    for (group, needed) in [
        (group.clone(), true),
        (recorded("x"), true),
        (
            ClaimantView {
                deleting: true,
                ..group.clone()
            },
            false,
        ),
        (group_with([]), false),
        (group_with([users("a", "shared")]), false),
        (group_with([unknown("a")]), true),
    ] {
        assert_eq!(needs_work(&alone(&group), &none, none.gates), needed, "{group:?}");
    }
    let new = statuses(&alone(&group), &[("gpu".into(), "x".into())]);
    assert_eq!(new, Some(vec![status("gpu", Some("x"))]));
}
