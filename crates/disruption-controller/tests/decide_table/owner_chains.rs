//! Pods whose controller has no scale.

use std::sync::Arc;

use controller_core::meta::{OwnerRef, Uid};
use disruption_controller::decide::{Above, Builtin, Cause, OwnerRules, Reading, Scale, SyncFailure};
use disruption_controller::view::{Phase, PodView};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use crate::support::{World, owner, pdb, pod, workload};

/// An object of its own kind: `vm` is `Vm vm` of `example.com/v1`.
fn object(name: &str) -> Arc<OwnerRef> {
    let kind = format!("{}{}", name[..1].to_uppercase(), &name[1..]);
    owner("example.com/v1", &kind, name, name)
}

fn unreadable() -> SyncFailure {
    SyncFailure::transient(Cause::Unreadable("timeout".to_owned()))
}

/// A world in words: `vm under pool`, `pool wants 3`, `vm alone`, `vm gone`, `vm fails`, `vm's controller fails`,
/// `vm of no kind`. What is not said is not read yet.
fn world(rules: &str, lines: &[&str]) -> World {
    let mut world = World {
        rules: rules_of(rules),
        ..World::default()
    };
    for line in lines {
        let words: Vec<_> = line.split(' ').collect();
        let no_scale = |name: &str| {
            Reading::Failed(SyncFailure::permanent(Cause::NoScale(format!(
                "{name}s.example.com"
            ))))
        };
        let (reading, above) = match words[1..] {
            ["wants", replicas] => (
                Reading::Scale {
                    uid: Uid::from(words[0]),
                    replicas: replicas.parse().unwrap(),
                },
                None,
            ),
            ["under", above] => (no_scale(words[0]), Some(Above::Controller(object(above)))),
            ["under", "Deployment", above] => {
                let above = owner("apps/v1", "Deployment", above, above);
                (no_scale(words[0]), Some(Above::Controller(above)))
            }
            ["alone"] => (no_scale(words[0]), Some(Above::Nothing)),
            ["unread"] => (no_scale(words[0]), None),
            ["vanished"] => (no_scale(words[0]), Some(Above::NotFound)),
            ["unreadable"] => (no_scale(words[0]), Some(Above::Failed(unreadable()))),
            ["gone"] => (Reading::NotFound, None),
            ["fails"] => (Reading::Failed(unreadable()), None),
            _ => panic!("{line}"),
        };
        world.readings.insert(words[0].to_owned(), reading);
        if let Some(above) = above {
            world.above.insert(words[0].to_owned(), above);
        }
    }
    world.hold(Builtin::Deployment, &workload("d", "d", 8, None));
    world
}

/// `chain`, kinds, or both.
fn rules_of(words: &str) -> OwnerRules {
    let (chain, kinds): (Vec<_>, Vec<_>) = words.split_whitespace().partition(|word| *word == "chain");
    OwnerRules {
        chain: !chain.is_empty(),
        scale_less: kinds.into_iter().map(|kind| kind.parse().unwrap()).collect(),
    }
}

fn told(scale: Result<Scale, Arc<OwnerRef>>) -> String {
    match scale {
        Ok(Scale::Of {
            who,
            replicas,
            live,
            below,
            ..
        }) => {
            let read = if live { ", read" } else { "" };
            let mut text = format!("{who} wants {replicas}{read}");
            for kind in below {
                text = text + ", above " + &kind;
            }
            text
        }
        Ok(Scale::Pods(kind)) => format!("the pods of {kind}"),
        Ok(Scale::Gone) => "gone".to_owned(),
        Ok(Scale::Unknown(failure)) if failure.transient => format!("for now: {failure}"),
        Ok(Scale::Unknown(failure)) => format!("for long: {failure}"),
        Err(owner) => format!("read {}", owner.name),
    }
}

#[rstest]
#[case::off("", &["vm under pool", "pool wants 3"], "for long: vms.example.com does not implement the scale subresource")]
#[case::its_own_scale("chain", &["vm wants 2"], "Vm vm wants 2, read")]
#[case::one_step("chain", &["vm under pool", "pool wants 3"], "Pool pool wants 3, read, above Vm")]
#[case::one_that_an_informer_has("chain", &["vm under Deployment d"], "Deployment d wants 8, read, above Vm")]
#[case::the_first_of_two("chain", &["vm under pool", "pool wants 3", "fleet wants 9"], "Pool pool wants 3, read, above Vm")]
#[case::five_steps(
    "chain", &["vm under a", "a under b", "b under c", "c under d2", "d2 under e", "e wants 3"],
    "E e wants 3, read, above Vm, above A, above B, above C, above D2"
)]
#[case::six_steps(
    "chain", &["vm under a", "a under b", "b under c", "c under d2", "d2 under e", "e under f", "f wants 3"],
    "for long: no scale above vms.example.com: es.example.com has none either, after 5 steps"
)]
#[case::nothing_above("chain", &["vm alone"], "for long: vms.example.com does not implement the scale subresource")]
#[case::nothing_above_the_next(
    "chain", &["vm under a", "a alone"],
    "for long: no scale above vms.example.com: as.example.com has none either, and no controller"
)]
#[case::itself("chain", &["vm under vm"], "for long: no scale above vms.example.com: Vm vm controls itself")]
#[case::a_cycle("chain", &["vm under a", "a under vm"], "for long: no scale above vms.example.com: Vm vm controls itself")]
#[case::the_controller_is_gone("chain", &["vm vanished"], "gone")]
#[case::the_next_is_gone("chain", &["vm under pool", "pool gone"], "gone")]
#[case::the_controller_cannot_be_read("chain", &["vm unreadable"], "for now: timeout")]
#[case::the_next_cannot_be_read("chain", &["vm under pool", "pool fails"], "for now: timeout")]
#[case::what_is_not_read_yet("chain", &[], "read vm")]
#[case::whose_controller_is_not_read_yet("chain", &["vm unread"], "read vm")]
#[case::whose_next_is_not_read_yet("chain", &["vm under pool"], "read pool")]
fn the_first_owner_with_a_scale_counts(#[case] rules: &str, #[case] lines: &[&str], #[case] expected: &str) {
    assert_eq!(told(world(rules, lines).scale(&object("vm"))), expected);
}

#[rstest]
#[case::without_a_read("Vm.example.com", &[], "the pods of Vm.example.com")]
#[case::whatever_is_above("chain Vm.example.com", &["vm under pool", "pool wants 3"], "the pods of Vm.example.com")]
#[case::a_kind_further_up("chain Pool.example.com", &["vm under pool"], "the pods of Pool.example.com")]
#[case::a_kind_above_a_scale("chain Fleet.example.com", &["vm under pool", "pool wants 3"], "Pool pool wants 3, read, above Vm")]
#[case::a_kind_further_up_without_the_chain(
    "Pool.example.com", &["vm under pool"],
    "for long: vms.example.com does not implement the scale subresource"
)]
#[case::the_kind_of_another_group("Vm.example.org", &["vm alone"], "for long: vms.example.com does not implement the scale subresource")]
#[case::the_kind_of_no_group("Vm", &["vm alone"], "for long: vms.example.com does not implement the scale subresource")]
#[case::one_of_several("A.b Vm.example.com C.d", &[], "the pods of Vm.example.com")]
fn the_pods_of_a_named_kind_are_counted(#[case] rules: &str, #[case] lines: &[&str], #[case] expected: &str) {
    assert_eq!(told(world(rules, lines).scale(&object("vm"))), expected);
}

/// A pod of `vm` in this state.
fn in_state(name: &str, state: &str) -> PodView {
    let is = pod(name, &json!({}));
    PodView {
        controller: Some(object("vm")),
        ready: matches!(state, "ready" | "deleting"),
        deleting: state == "deleting",
        phase: match state {
            "succeeded" => Phase::Succeeded,
            "failed" => Phase::Failed,
            _ => Phase::Running,
        },
        ..is
    }
}

/// Allowed, current, desired, expected.
#[rstest]
#[case::all_ready("Vm.example.com", "ready ready ready", [1, 3, 2, 3])]
#[case::one_is_not_ready("Vm.example.com", "ready ready unready", [0, 2, 2, 3])]
#[case::one_is_on_its_way_out("Vm.example.com", "ready ready deleting", [0, 2, 2, 3])]
#[case::one_failed("Vm.example.com", "ready ready failed", [0, 2, 2, 3])]
#[case::one_is_done("Vm.example.com", "ready ready succeeded", [1, 2, 1, 2])]
#[case::more_are_wanted("chain", "ready ready ready", [0, 3, 3, 4])]
#[case::as_many_are_wanted("chain", "ready ready ready ready", [1, 4, 3, 4])]
// Four groups of two pods each.
#[case::groups_are_wanted("chain", "ready ready ready ready ready ready ready ready", [1, 8, 7, 8])]
#[case::groups_are_wanted_and_one_pod_is_not_ready("chain", "ready ready ready ready ready unready", [0, 5, 5, 6])]
fn pods_that_exist_are_never_fewer_than_expected(
    #[case] rules: &str,
    #[case] pods: &str,
    #[case] expected: [i32; 4],
) {
    let mut world = world(rules, &["vm under pool", "pool wants 4"]);
    world.put_pdb(pdb(&json!({ "maxUnavailable": 1 })));
    for (number, state) in pods.split(' ').enumerate() {
        world.put(in_state(&format!("pod-{number}"), state));
    }
    assert_eq!(world.numbers(), expected);
}

#[test]
fn each_owner_adds_what_is_above_it() {
    let mut world = world(
        "chain Lone.example.com",
        &["vm under pool", "other under pool", "pool wants 4"],
    );
    world.hold(Builtin::ReplicaSet, &workload("rs", "rs", 10, None));
    world.put_pdb(pdb(&json!({ "maxUnavailable": 0 })));
    world.add("a", Some(&object("vm")));
    world.add("b", Some(&object("other")));
    world.add("c", Some(&object("lone")));
    world.add("d", Some(&owner("apps/v1", "ReplicaSet", "rs", "rs")));
    // Pool 4, one lone pod, the ReplicaSet 10.
    assert_eq!(world.numbers(), [0, 4, 15, 15]);
    // More pods below the pool than it wants.
    for name in ["e", "f", "g"] {
        world.add(name, Some(&object("vm")));
    }
    assert_eq!(world.numbers(), [0, 7, 16, 16]);
}

#[test]
fn pods_of_an_owner_and_of_what_is_below_it_are_counted_together() {
    let mut world = world("chain", &["vm under pool", "pool wants 1"]);
    world.put_pdb(pdb(&json!({ "maxUnavailable": 1 })));
    world.add("a", Some(&object("pool")));
    for name in ["b", "c", "d"] {
        world.add(name, Some(&object("vm")));
    }
    assert_eq!(world.numbers(), [1, 4, 3, 4]);
}

#[rstest]
#[case::of_its_own_scale("chain", &["pool wants 4"], &["pool"], "")]
#[case::of_a_scale_above("chain", &["vm under pool", "pool wants 4"], &["vm"], "expected: the scale of Pool pool, above Vm")]
#[case::of_pods("Vm.example.com", &[], &["vm"], "expected: the pods of Vm.example.com that exist")]
#[case::of_both(
    "chain Vm.example.com", &["web under pool", "pool wants 4"], &["vm", "web"],
    "expected: the pods of Vm.example.com that exist; the scale of Pool pool, above Web"
)]
#[case::of_many(
    "chain", &["a under p", "b under q", "c under r", "e under s", "p wants 1", "q wants 1", "r wants 1", "s wants 1"],
    &["a", "b", "c", "e"],
    "expected: the scale of P p, above A; the scale of Q q, above B; the scale of R r, above C; and 1 more"
)]
fn the_condition_says_which_way_was_taken(
    #[case] rules: &str,
    #[case] lines: &[&str],
    #[case] controllers: &[&str],
    #[case] expected: &str,
) {
    let mut world = world(rules, lines);
    world.put_pdb(pdb(&json!({ "maxUnavailable": 1 })));
    for name in controllers {
        world.add(name, Some(&object(name)));
    }
    let condition = world.decide().plan.unwrap().condition;
    assert_eq!(&*condition.message, expected);
}

#[test]
fn a_budget_that_needs_no_scale_has_no_way() {
    let mut world = world("Vm.example.com", &[]);
    world.put_pdb(pdb(&json!({ "minAvailable": 1 })));
    world.add("a", Some(&object("vm")));
    assert_eq!(&*world.decide().plan.unwrap().condition.message, "");
}

fn states() -> impl Strategy<Value = Vec<&'static str>> {
    let state = prop::sample::select(vec!["ready", "unready", "deleting", "succeeded", "failed"]);
    prop::collection::vec(state, 1..12)
}

proptest! {
    /// Whatever an owner above counts, as many pods stay healthy as if each pod that exists were wanted.
    #[test]
    fn no_way_allows_more_than_the_pods_that_exist_do(
        chain: bool,
        states in states(),
        replicas in 0..12_i64,
        unavailable in 0..4_i32,
    ) {
        let rules = if chain { "chain" } else { "Vm.example.com" };
        let mut world = world(rules, &["vm under pool", &format!("pool wants {replicas}")]);
        world.put_pdb(pdb(&json!({ "maxUnavailable": unavailable })));
        for (number, state) in states.iter().enumerate() {
            world.put(in_state(&format!("pod-{number}"), state));
        }
        let many = |wanted: &dyn Fn(&str) -> bool| {
            i32::try_from(states.iter().filter(|state| wanted(state)).count()).unwrap()
        };
        let (ready, exist) = (many(&|state| state == "ready"), many(&|state| state != "succeeded"));
        let wanted = if chain { exist.max(replicas.try_into().unwrap()) } else { exist };
        let allowed = (ready - (wanted - unavailable).max(0)).max(0);
        let allowed = if wanted > 0 { allowed } else { 0 };
        prop_assert_eq!(world.numbers(), [allowed, ready, (wanted - unavailable).max(0), wanted]);
    }
}
