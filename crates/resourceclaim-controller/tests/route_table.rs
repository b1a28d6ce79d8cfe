//! Which changes wake whom.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;

use controller_core::cache::Change;
use controller_core::controller::Controller;
use controller_core::meta::{ObjectKey, OwnerRef, Uid};
use jiff::Timestamp;
use prometheus::Registry;
use resourceclaim_controller::ResourceClaimController;
use resourceclaim_controller::config::Config;
use resourceclaim_controller::decide::Gates;
use resourceclaim_controller::route::{ClaimantWakes, Users, claim_wakes, claimant_wakes, is_deleted, users};
use resourceclaim_controller::state::Key;
use resourceclaim_controller::view::{
    ClaimOrigin, ClaimSource, ClaimStatus, ClaimView, ClaimantKind, ClaimantView, Consumer, ConsumerKind,
    Entry,
};
use rstest::rstest;

fn pod() -> ClaimantView {
    ClaimantView {
        kind: ClaimantKind::Pod,
        key: ObjectKey::namespaced("ns", "p"),
        uid: Uid::from("uid"),
        node: None,
        entries: Arc::new(vec![Entry {
            name: "gpu".into(),
            source: ClaimSource::Template("t".into()),
        }]),
        statuses: Box::default(),
        extended: None,
        group: None,
        over: false,
        deleting: false,
    }
}

fn pod_with(edit: fn(&mut ClaimantView)) -> Arc<ClaimantView> {
    let mut pod = pod();
    edit(&mut pod);
    Arc::new(pod)
}

fn done(pod: &mut ClaimantView) {
    pod.over = true;
}

fn unscheduled(pod: &mut ClaimantView) {
    pod.deleting = true;
}

fn bound(pod: &mut ClaimantView) {
    pod.node = Some("n".into());
}

fn leaving(pod: &mut ClaimantView) {
    bound(pod);
    pod.deleting = true;
}

fn recorded(pod: &mut ClaimantView) {
    done(pod);
    pod.statuses = Box::new([ClaimStatus {
        entry: "gpu".into(),
        claim: Some("c".into()),
    }]);
}

fn extended(pod: &mut ClaimantView) {
    done(pod);
    pod.extended = Some("x".into());
}

fn as_made(_: &mut ClaimantView) {}

#[rstest]
#[case::a_new_one(None, as_made, ClaimantWakes::Claimant)]
#[case::a_new_one_that_is_done(None, done, ClaimantWakes::Claims)]
#[case::it_is_bound(Some(as_made as fn(&mut ClaimantView)), bound, ClaimantWakes::Claimant)]
#[case::it_is_being_deleted_on_its_node(Some(bound as fn(&mut ClaimantView)), leaving, ClaimantWakes::Claimant)]
#[case::it_is_deleted_before_it_was_scheduled(Some(as_made as fn(&mut ClaimantView)), unscheduled, ClaimantWakes::Claims)]
#[case::it_is_done(Some(bound as fn(&mut ClaimantView)), done, ClaimantWakes::Claims)]
#[case::it_is_done_still(Some(done as fn(&mut ClaimantView)), done, ClaimantWakes::Nobody)]
#[case::it_is_done_still_and_another_claim_is_reported(Some(done as fn(&mut ClaimantView)), recorded, ClaimantWakes::Claims)]
#[case::it_is_done_still_and_an_extended_claim_is_reported(Some(done as fn(&mut ClaimantView)), extended, ClaimantWakes::Claims)]
fn a_pod_wakes_itself_until_it_is_done_and_its_claims_then(
    #[case] old: Option<fn(&mut ClaimantView)>,
    #[case] new: fn(&mut ClaimantView),
    #[case] expected: ClaimantWakes,
) {
    let new = pod_with(new);
    let old = old.map(pod_with);
    let change = match &old {
        None => Change::Added(&new),
        Some(old) => Change::Updated { old, new: &new },
    };
    assert_eq!(claimant_wakes(&change), expected);
    assert_eq!(claimant_wakes(&Change::Deleted(&new)), ClaimantWakes::Claims);
}

#[test]
fn a_pod_that_only_ceases_to_be_kept_is_not_deleted() {
    assert!(is_deleted(&pod()));
    // Without entries it is kept for its extended resources alone, which may be taken from its status.
    let extended = ClaimantView {
        entries: Arc::default(),
        extended: Some("x".into()),
        ..pod()
    };
    assert!(!is_deleted(&extended));
}

fn claim() -> ClaimView {
    ClaimView {
        key: ObjectKey::namespaced("ns", "c"),
        uid: Uid::from("uid"),
        version: "1".into(),
        owner: None,
        entry: None,
        reserved: Box::new([consumer("a"), consumer("b")]),
        deleting: None,
        finalizer: false,
        allocated: false,
        admin_access: false,
        origin: ClaimOrigin::User,
    }
}

fn consumer(uid: &str) -> Consumer {
    Consumer {
        kind: ConsumerKind::Pod,
        name: uid.into(),
        uid: uid.into(),
    }
}

fn consumers(count: usize) -> Box<[Consumer]> {
    (0..count).map(|n| consumer(&n.to_string())).collect()
}

fn owner() -> Arc<OwnerRef> {
    Arc::new(OwnerRef {
        api_version: "v1".into(),
        kind: "Pod".into(),
        name: "p".into(),
        uid: "p".into(),
        controller: true,
    })
}

#[rstest]
#[case::the_version_alone(|claim: &mut ClaimView| claim.version = "2".into(), false, Users::None)]
#[case::its_owner(|claim: &mut ClaimView| claim.owner = Some(owner()), true, Users::All)]
#[case::its_entry(|claim: &mut ClaimView| claim.entry = Some("gpu".into()), true, Users::All)]
#[case::it_is_being_deleted(|claim: &mut ClaimView| claim.deleting = Some(Timestamp::MIN), true, Users::All)]
#[case::it_is_allocated(|claim: &mut ClaimView| claim.allocated = true, true, Users::All)]
#[case::its_finalizer(|claim: &mut ClaimView| claim.finalizer = true, true, Users::None)]
#[case::one_more_reservation(|claim: &mut ClaimView| claim.reserved = [consumer("a"), consumer("b"), consumer("c")].into(), true, Users::None)]
#[case::one_reservation_fewer(|claim: &mut ClaimView| claim.reserved = [consumer("b")].into(), true, Users::Of(vec!["a".into()]))]
#[case::another_order(|claim: &mut ClaimView| claim.reserved = [consumer("b"), consumer("a")].into(), true, Users::None)]
fn a_claim_wakes_the_pods_whose_answer_changed(
    #[case] edit: fn(&mut ClaimView),
    #[case] claim_enqueued: bool,
    #[case] expected: Users,
) {
    let (old, mut new) = (Arc::new(claim()), claim());
    edit(&mut new);
    let new = Arc::new(new);
    let change = Change::Updated { old: &old, new: &new };
    assert_eq!((claim_wakes(&change), users(&change)), (claim_enqueued, expected));
    for (change, requeues) in [(Change::Added(&new), true), (Change::Deleted(&new), false)] {
        assert_eq!((claim_wakes(&change), users(&change)), (requeues, Users::All));
    }
}

#[rstest]
#[case::room_at_last(256, 255, Users::All)]
#[case::full_still(257, 256, Users::Of(vec!["256".into()]))]
#[case::room_before(255, 254, Users::Of(vec!["254".into()]))]
fn a_claim_that_has_room_again_wakes_all_its_users(
    #[case] before: usize,
    #[case] after: usize,
    #[case] expected: Users,
) {
    let with = |count| {
        Arc::new(ClaimView {
            reserved: consumers(count),
            ..claim()
        })
    };
    let (old, new) = (with(before), with(after));
    let change = Change::Updated { old: &old, new: &new };
    assert_eq!(users(&change), expected);
}

#[test]
fn a_reservation_for_a_group_that_goes_wakes_the_pods_of_the_group() {
    let of_group = Consumer {
        kind: ConsumerKind::PodGroup,
        ..consumer("g")
    };
    let old = Arc::new(ClaimView {
        reserved: [consumer("a"), of_group].into(),
        ..claim()
    });
    let new = Arc::new(ClaimView {
        reserved: [consumer("a")].into(),
        ..claim()
    });
    let change = Change::Updated { old: &old, new: &new };
    assert_eq!(users(&change), Users::All);
}

#[test]
fn an_allocation_that_goes_wakes_nobody() {
    let allocated = Arc::new(ClaimView {
        allocated: true,
        ..claim()
    });
    let free = Arc::new(claim());
    let change = Change::Updated {
        old: &allocated,
        new: &free,
    };
    assert_eq!(users(&change), Users::None);
}

#[test]
fn keys_take_turns_by_their_namespace() {
    let controller =
        ResourceClaimController::new(&Config::default(), Gates::default(), &Registry::new()).unwrap();
    let name = ObjectKey::namespaced("ns", "name");
    for (key, namespace) in [
        (Key::Pod(name.clone()), Some("ns")),
        (Key::Claim(name.clone()), Some("ns")),
        (Key::PodGroup(name), Some("ns")),
        (Key::Gates, None),
    ] {
        assert_eq!(controller.namespace_of(&key), namespace, "{key}");
    }
}
