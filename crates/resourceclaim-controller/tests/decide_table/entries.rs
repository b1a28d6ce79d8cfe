//! Which claim an entry has, makes, and records (RC-1 to RC-3, RC-5 to RC-7).

use std::sync::Arc;

use controller_core::meta::{ObjectKey, Uid};
use resourceclaim_controller::decide::{
    Claimant, EntryFailure, EntryVerdict, Gates, Group, Groups, Known, LiveClaim, Recorded, answer,
    base_name, claim_name, made_after, recorded, statuses, wants_claims,
};
use resourceclaim_controller::view::{ClaimView, ClaimantView, Entry, TemplateView};
use rstest::rstest;

use crate::support::{
    GPU, World, a_pod, alone, claim, create_of, creates, deleting, key, made, made_for_group, on_node, over,
    owned_by, pod, pod_recording, pod_with, recording, reserved, status, template, templated, terminating,
    unknown, users,
};

// ---- RC-1

#[rstest]
#[case::the_users_own(users("a", "shared"), Recorded::Users("shared".into()))]
#[case::the_users_own_whatever_the_status_says(users("b", "shared"), Recorded::Users("shared".into()))]
#[case::one_that_was_made(templated("b", "t"), Recorded::Made("pod-b-x".into()))]
#[case::recorded_without_a_name(templated("c", "t"), Recorded::NotNeeded)]
#[case::not_recorded(templated("d", "t"), Recorded::NotYet)]
#[case::an_api_that_is_not_known(unknown("b"), Recorded::Unknown)]
fn an_entry_names_its_claim(#[case] entry: Entry, #[case] result: Recorded) {
    let pod = recording(
        pod_with([entry]),
        [status("b", Some("pod-b-x")), status("c", None)],
    );
    assert_eq!(recorded(&alone(&pod), &pod.entries[0]), result);
}

#[test]
fn an_entry_with_neither_field_is_an_error_that_is_retried() {
    let world = World::of([]);
    let pod = pod_with([unknown("gpu")]);
    assert_eq!(
        world.answer(&pod),
        EntryVerdict::Failed(EntryFailure::UnknownSource)
    );
    assert!(!EntryFailure::UnknownSource.waits());
    assert_eq!(
        EntryFailure::UnknownSource.to_string(),
        "none of the supported fields are set"
    );
    assert!(world.pod_needs_work(&pod));
}

// ---- RC-2

#[rstest]
#[case::nothing_is_there(World::of([]), "ns/pod-gpu-wbbp8")]
#[case::a_claim_of_that_name_elsewhere(
    World::of([ClaimView { key: ObjectKey::namespaced("other", GPU[0]), ..claim(GPU[0]) }]), "ns/pod-gpu-wbbp8"
)]
#[case::the_claim_of_another_entry(World::of([made("x", "other")]), "ns/pod-gpu-wbbp8")]
#[case::a_claim_of_the_pod_that_is_for_no_entry(World::of([ClaimView { entry: None, ..made("x", "gpu") }]), "ns/pod-gpu-wbbp8")]
#[case::the_claim_of_another_pod(World::of([owned_by(claim("x"), "v1", "Pod", "before", "gpu")]), "ns/pod-gpu-wbbp8")]
#[case::the_name_is_the_users(World::of([claim(GPU[0])]), "ns/pod-gpu-msh9z")]
#[case::two_names_are_another_pods(
    World::of([GPU[0], GPU[1]].map(|name| owned_by(claim(name), "v1", "Pod", "before", "gpu"))), "ns/pod-gpu-bq97p"
)]
fn an_entry_is_adopted_else_made(#[case] world: World, #[case] name: &str) {
    assert_eq!(creates(world.answer(&pod())), name);
    let adopted = |claims: Vec<ClaimView>| {
        let claims = world.claims.iter().cloned().chain(claims);
        World::of(claims).answer(&pod())
    };
    let adopt = |name: &str| EntryVerdict::Adopt(name.into());
    assert_eq!(adopted(vec![made("orphan", "gpu")]), adopt("orphan"));
    // One that is on its way out counts, but not before one that stays.
    let going = || terminating(made("a-going", "gpu"));
    assert_eq!(adopted(vec![going()]), adopt("a-going"));
    assert_eq!(adopted(vec![going(), made("b-stays", "gpu")]), adopt("b-stays"));
}

#[test]
fn an_entry_that_is_recorded_is_kept_or_asked_for() {
    let keep = EntryVerdict::Keep("x".into());
    let ask = EntryVerdict::Ask("x".into());
    let pod = pod_recording("x");
    for (claims, expected) in [
        (vec![made("x", "gpu")], &keep),
        // Recorded is recorded, whatever the annotation says.
        (vec![made("x", "other")], &keep),
        (vec![terminating(made("x", "gpu"))], &keep),
        (vec![], &ask),
        (vec![claim("x")], &ask),
        (vec![owned_by(claim("x"), "v1", "Pod", "before", "gpu")], &ask),
        // Another is there, but the recorded one may be, too.
        (vec![made("orphan", "gpu")], &ask),
    ] {
        assert_eq!(World::of(claims.clone()).answer(&pod), *expected, "{claims:?}");
    }
    let not_needed = recording(pod_with([templated("gpu", "t")]), [status("gpu", None)]);
    assert_eq!(World::of([]).answer(&not_needed), EntryVerdict::NotNeeded);
    let users = pod_with([users("gpu", "shared")]);
    assert_eq!(World::of([]).answer(&users), EntryVerdict::Users("shared".into()));
}

#[test]
fn a_recorded_claim_that_is_gone_is_made_again() {
    let world = World::of([]);
    for (recorded, name) in [
        (GPU[0], "ns/pod-gpu-msh9z"),
        (GPU[1], "ns/pod-gpu-bq97p"),
        ("pod-gpu-upstr", "ns/pod-gpu-wbbp8"),
        ("anything", "ns/pod-gpu-wbbp8"),
    ] {
        let pod = pod_recording(recorded);
        assert_eq!(creates(world.answer_seeing(&pod, None)), name, "{recorded}");
        // The cache may still show it.
        let lags = World::of([made(recorded, "gpu")]);
        assert_eq!(creates(lags.answer_seeing(&pod, None)), name, "{recorded}");
        // The live read may still find it.
        let live = made(recorded, "gpu");
        assert_eq!(
            world.answer_seeing(&pod, Some(&live)),
            EntryVerdict::Keep(recorded.into())
        );
    }
    let orphan = World::of([made("orphan", "gpu")]);
    let adopted = orphan.answer_seeing(&pod_recording(GPU[0]), None);
    assert_eq!(adopted, EntryVerdict::Adopt("orphan".into()));
}

/// It went before the one that is recorded was made: a cache that shows it lags behind.
#[test]
fn a_claim_before_the_recorded_one_is_not_adopted() {
    let lags = World::of([made(GPU[0], "gpu")]);
    let answered = lags.answer_seeing(&pod_recording(GPU[1]), None);
    assert_eq!(creates(answered), "ns/pod-gpu-bq97p");
}

#[test]
fn a_recorded_claim_of_another_owner_is_left_alone() {
    for foreign in [
        claim(GPU[0]),
        owned_by(claim(GPU[0]), "v1", "Pod", "before", "gpu"),
        made_for_group(GPU[0], "gpu"),
    ] {
        let pod = pod_recording(GPU[0]);
        for world in [World::of([]), World::of([foreign.clone()])] {
            assert_eq!(
                creates(world.answer_seeing(&pod, Some(&foreign))),
                "ns/pod-gpu-msh9z"
            );
        }
    }
}

#[rstest]
#[case::waiting_for_a_node(pod(), true)]
#[case::on_a_node(on_node(pod()), true)]
#[case::over(over(pod()), false)]
#[case::on_its_way_out(deleting(on_node(pod())), false)]
#[case::deleted_before_it_was_scheduled(deleting(pod()), false)]
fn only_a_pod_that_may_run_wants_claims(#[case] pod: ClaimantView, #[case] wants: bool) {
    assert_eq!(wants_claims(&pod), wants);
    assert_eq!(World::of([]).pod_needs_work(&pod), wants);
}

// ---- RC-3

#[test]
fn a_claim_is_named_after_its_pod_and_entry() {
    let create = create_of(World::of([]).answer(&pod()));
    assert_eq!(create.claim(), key(GPU[0]));
    assert_eq!(create.generate_name(), "pod-gpu-");
    assert_eq!(
        (&*create.entry, &create.uid, &create.claimant),
        ("gpu", &Uid::from("pod"), &key("pod"))
    );
    assert_eq!(create.kind.type_meta(), ("v1", "Pod"));
    assert_eq!(*create.template, template("t"));
    for (n, name) in (0..).zip(GPU) {
        assert_eq!(claim_name("pod", &"pod".into(), "gpu", n), name);
    }
    // Every part counts.
    assert_eq!(claim_name("pod", &"other".into(), "gpu", 0), "pod-gpu-4nh7l");
    assert_eq!(claim_name("pod", &"pod".into(), "nic", 0), "pod-nic-lthjf");
    assert_eq!(
        base_name(&"p".repeat(253), &"e".repeat(63)),
        "pppppppppppppppppppppppppppppppppppppppppppp-eeeeeeeeee-"
    );
}

/// What is recorded of a pod that has a node stays, whatever is there.
#[rstest]
#[case::it_is_gone(World::of([]))]
#[case::another_was_made(World::of([made(GPU[1], "gpu")]))]
#[case::it_is_of_another(World::of([claim(GPU[0])]))]
#[case::it_is_there(World::of([made(GPU[0], "gpu")]))]
fn a_record_of_a_pod_on_a_node_is_kept(#[case] world: World) {
    let pod = on_node(pod_recording(GPU[0]));
    let kept = EntryVerdict::Keep(GPU[0].into());
    assert_eq!(world.answer(&pod), kept);
    assert_eq!(world.answer_seeing(&pod, None), kept);
    assert!(!world.pod_needs_work(&pod));
    // One without a record gets its claim.
    let unrecorded = on_node(crate::support::pod());
    assert!(!matches!(world.answer(&unrecorded), EntryVerdict::Keep(_)));
}

/// The pod runs with the claim that it has reserved: a record of the one before is a write that came late.
#[test]
fn a_late_record_of_a_pod_on_a_node_is_corrected() {
    let pod = on_node(pod_recording(GPU[0]));
    let entry = &pod.entries[0];
    let after = |claims: Vec<ClaimView>| {
        let world = World::of(claims);
        let after = made_after(&alone(&pod), entry, GPU[0], &world);
        (world.answer(&pod), after.as_deref().map(str::to_owned))
    };
    let runs_with = reserved(made(GPU[1], "gpu"), &[a_pod("pod")]);
    let (ask, keep) = (
        EntryVerdict::Ask(GPU[0].into()),
        EntryVerdict::Keep(GPU[0].into()),
    );
    assert_eq!(after(vec![runs_with.clone()]), (ask, Some(GPU[1].to_owned())));
    assert_eq!(
        after(vec![made(GPU[2], "gpu"), runs_with.clone()]).1.as_deref(),
        Some(GPU[1])
    );
    assert_eq!(after(vec![made(GPU[1], "gpu")]), (keep.clone(), None));
    assert_eq!(after(vec![terminating(runs_with.clone())]), (keep.clone(), None));
    assert_eq!(after(vec![made(GPU[0], "gpu"), runs_with]).0, keep);
    let others = reserved(made(GPU[1], "gpu"), &[a_pod("other")]);
    assert_eq!(after(vec![others]), (keep, None));
}

#[rstest]
#[case::none(vec![], None)]
#[case::the_recorded_one(vec![made(GPU[1], "gpu")], None)]
#[case::one_before(vec![made(GPU[0], "gpu")], None)]
#[case::the_next(vec![made(GPU[0], "gpu"), made(GPU[2], "gpu")], Some(GPU[2]))]
#[case::one_that_goes(vec![terminating(made(GPU[2], "gpu"))], None)]
#[case::of_another_name(vec![made("orphan", "gpu")], None)]
#[case::of_another_entry(vec![made(GPU[2], "other")], None)]
fn a_claim_that_was_made_after_the_recorded_one_needs_no_look(
    #[case] claims: Vec<ClaimView>,
    #[case] after: Option<&str>,
) {
    let pod = pod_recording(GPU[1]);
    let found = made_after(&alone(&pod), &pod.entries[0], GPU[1], &World::of(claims));
    assert_eq!(found.as_deref(), after);
}

/// Its claims come into the cache between a look at those of a pod and a look at one name.
struct Late(World);

impl Known for Late {
    fn claim(&self, key: &ObjectKey) -> Option<Arc<ClaimView>> {
        self.0.claim(key)
    }

    fn made_for(&self, _: &ClaimantView, _: &str) -> Vec<Arc<ClaimView>> {
        Vec::new()
    }

    fn template(&self, key: &ObjectKey) -> Option<Arc<TemplateView>> {
        self.0.template(key)
    }
}

#[test]
fn a_claim_that_the_watch_shows_while_its_entry_is_judged_is_adopted() {
    let judged = |claims: Vec<ClaimView>| {
        let (pod, late) = (pod(), Late(World::of(claims)));
        let claimant = Claimant {
            view: &pod,
            group: Group::None,
        };
        answer(
            &claimant,
            &pod.entries[0],
            &late,
            Gates::default(),
            LiveClaim::Unasked,
        )
    };
    assert_eq!(
        judged(vec![made(GPU[0], "gpu")]),
        EntryVerdict::Adopt(GPU[0].into())
    );
    assert_eq!(
        create_of(judged(vec![claim(GPU[0])])).claim(),
        key(GPU[1]),
        "another's"
    );
}

#[test]
fn a_name_that_is_taken_is_ours_or_another_is_tried() {
    let create = create_of(World::of([]).answer(&pod()));
    assert!(create.is_met_by(&made(GPU[0], "gpu")));
    assert!(create.is_met_by(&terminating(made(GPU[0], "gpu"))));
    for taken in [
        claim(GPU[0]),
        made(GPU[0], "other"),
        owned_by(claim(GPU[0]), "v1", "Pod", "before", "gpu"),
    ] {
        assert!(!create.is_met_by(&taken), "{taken:?}");
    }
    assert_eq!(create.renamed().claim(), key(GPU[1]));
}

/// The first two names of this uid are one: 1 in 14,348,907 has that.
#[test]
fn two_numbers_of_one_name_are_one_number() {
    let mut pod = pod();
    pod.uid = "uid-10283234".into();
    let name = |n| claim_name("pod", &pod.uid, "gpu", n);
    assert_eq!(name(0), name(1));
    let pod = recording(pod.clone(), [status("gpu", Some(&name(0)))]);
    assert_eq!(
        creates(World::of([]).answer_seeing(&pod, None)),
        format!("ns/{}", name(2))
    );
}

// ---- RC-5

#[test]
fn all_claims_of_a_pod_are_recorded_at_once() {
    let names = |names: &[(&str, &str)]| -> Vec<(Arc<str>, Arc<str>)> {
        let names = names.iter();
        names
            .map(|(entry, claim)| ((*entry).into(), (*claim).into()))
            .collect()
    };
    let entries = ["a", "b", "c", "d"].map(|name| templated(name, "t"));
    let pod = recording(
        pod_with(entries.into_iter().chain([users("e", "shared")])),
        [status("b", Some("b-1")), status("c", None)],
    );
    let written = |of: &[(&str, &str)]| statuses(&alone(&pod), &names(of));
    // A new one comes to those that stand there already, also to one that could not be looked at.
    assert_eq!(
        written(&[("a", "a-1")]),
        Some(vec![
            status("a", Some("a-1")),
            status("b", Some("b-1")),
            status("c", None)
        ])
    );
    // One that was made again, and one that is recorded for the first time.
    assert_eq!(
        written(&[("b", "b-2"), ("d", "d-1")]),
        Some(vec![
            status("b", Some("b-2")),
            status("c", None),
            status("d", Some("d-1"))
        ])
    );
    // Nothing new, nothing to write.
    assert_eq!(written(&[]), None);
    assert_eq!(written(&[("b", "b-1")]), None);
    // Not in the order of the spec is no reason to write.
    let twisted = recording(pod.clone(), [status("c", None), status("b", Some("b-1"))]);
    assert_eq!(statuses(&alone(&twisted), &names(&[("b", "b-1")])), None);
    // What the user names is not recorded.
    assert_eq!(written(&[("e", "shared")]), None);
}

// ---- RC-6

#[test]
fn one_failing_entry_does_not_stop_the_others() {
    let pod = pod_with([templated("no", "missing"), templated("gpu", "t"), unknown("what")]);
    let world = World::of([]);
    let claimant = alone(&pod);
    let answered = |entry: &str| {
        let entry = pod.entry(entry).unwrap();
        answer(&claimant, entry, &world, world.gates, LiveClaim::Unasked)
    };
    let missing = EntryFailure::TemplateMissing("missing".into());
    assert_eq!(answered("no"), EntryVerdict::Failed(missing.clone()));
    assert_eq!(creates(answered("gpu")), "ns/pod-gpu-wbbp8");
    assert_eq!(
        answered("what"),
        EntryVerdict::Failed(EntryFailure::UnknownSource)
    );
    // It waits, and its template wakes it.
    assert!(missing.waits());
    assert_eq!(
        missing.to_string(),
        r#"ResourceClaimTemplate "missing" not found"#
    );
}

#[rstest]
#[case::nothing_is_there(World::of([]), &pod())]
#[case::the_name_is_another_ones(World::of([claim(GPU[0])]), &pod())]
fn a_missing_template_stops_nothing_but_a_new_claim(#[case] world: World, #[case] pod: &ClaimantView) {
    let world = world.without_template();
    let missing = EntryVerdict::Failed(EntryFailure::TemplateMissing("t".into()));
    assert_eq!(world.answer(pod), missing);
    assert_eq!(world.answer_seeing(&pod_recording(GPU[0]), None), missing);
    let mut there = world;
    there.claims.push(made("orphan", "gpu"));
    assert_eq!(there.answer(pod), EntryVerdict::Adopt("orphan".into()));
}

// ---- RC-7

#[rstest]
#[case::neither(false, false, None, None)]
#[case::admin_access(
    true, false, Some(EntryFailure::AdminAccessDisabled("t".into())), None
)]
#[case::a_prioritized_list(
    false, true, None, Some(EntryFailure::PrioritizedListDisabled("t".into()))
)]
#[case::both(
    true, true,
    Some(EntryFailure::AdminAccessDisabled("t".into())), Some(EntryFailure::PrioritizedListDisabled("t".into()))
)]
fn a_template_that_asks_for_what_is_off_is_refused(
    #[case] admin_access: bool,
    #[case] prioritized_list: bool,
    #[case] without_admin_access: Option<EntryFailure>,
    #[case] without_lists: Option<EntryFailure>,
) {
    let mut world = World::of([]);
    world.templates[0].admin_access = admin_access;
    world.templates[0].prioritized_list = prioritized_list;
    assert_eq!(creates(world.answer(&pod())), "ns/pod-gpu-wbbp8");
    let mut refused = |gates: Gates, failure: Option<EntryFailure>| {
        world.gates = gates;
        match failure {
            Some(failure) => {
                assert!(!failure.waits());
                assert_eq!(world.answer(&pod()), EntryVerdict::Failed(failure));
            }
            None => assert_eq!(creates(world.answer(&pod())), "ns/pod-gpu-wbbp8"),
        }
        // What was made is made.
        let kept = World::of([made("x", "gpu")]);
        let kept = World {
            gates,
            templates: world.templates.clone(),
            ..kept
        };
        assert_eq!(kept.answer(&pod()), EntryVerdict::Adopt("x".into()));
        assert_eq!(kept.answer(&pod_recording("x")), EntryVerdict::Keep("x".into()));
    };
    let on = Gates::default();
    assert!(on.admin_access && on.prioritized_list && on.groups == Groups::Off);
    refused(
        Gates {
            admin_access: false,
            ..on
        },
        without_admin_access,
    );
    refused(
        Gates {
            prioritized_list: false,
            ..on
        },
        without_lists,
    );
}

#[test]
fn a_refusal_says_what_is_disabled() {
    let told = [
        EntryFailure::AdminAccessDisabled("t".into()),
        EntryFailure::PrioritizedListDisabled("t".into()),
        EntryFailure::GroupMissing("g".into()),
    ]
    .map(|failure| failure.to_string());
    assert_eq!(
        told,
        [
            r#"ResourceClaimTemplate "t" asks for admin access, but the feature is disabled"#,
            r#"ResourceClaimTemplate "t" includes a prioritized list of subrequests, but the feature is disabled"#,
            r#"PodGroup "g" not found"#,
        ]
    );
}
