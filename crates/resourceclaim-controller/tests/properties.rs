//! The loop against a model of the API server: requeue completeness, the done contract and the final state.
//!
//! One process, or two that work on the same pods and claims. [`server`] asserts at each write what must never happen.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::time::Duration;

use controller_core::fingerprint::Fingerprint;
use controller_testing::encodings::assert_the_same_views;
use controller_testing::sim::{self, Bounds, Explored, Op, ProcessBug, Role, Sim};
use proptest::prelude::*;
use resourceclaim_controller::view::{ClaimWire, PodWire};
use serde_json::json;

use crate::model::any_action;
use crate::server::others::{Act, pod};
use crate::server::{Bug, Server};

/// The API server, with claims of the user.
fn server() -> Server {
    let mut server = Server::new(false);
    server.make_users_claims();
    server
}

impl Explored for Server {
    /// What changes something.
    fn acts(&self) -> Vec<Act> {
        let changes = |act: &&Act| {
            let mut then = self.clone();
            then.let_others(act);
            then.version() != self.version()
        };
        self.acts.iter().filter(changes).cloned().collect()
    }

    fn waits(&self) -> Vec<Duration> {
        Vec::new()
    }

    fn fingerprint(&self, out: &mut Fingerprint) {
        out.add(&(&self.recorded, &self.used));
    }
}

/// One act of others, and one fault.
const ONE_EACH: Bounds = Bounds {
    waits: 0,
    ..Bounds::FEW
};

/// A pod whose claim is still to be made.
fn one_pod() -> Server {
    let mut server = Server {
        has_groups: false,
        acts: vec![Act::Schedule(0), Act::RemovePod(0), Act::DeleteClaim(0)],
        ..Server::new(true)
    };
    server.make_pod(&pod(0), 0);
    server
}

/// A pod of a group, whose claim the group has, once it is there.
fn one_pod_of_a_group() -> Server {
    let mut server = Server {
        acts: vec![
            Act::MakeGroup,
            Act::Schedule(0),
            Act::RemoveGroup,
            Act::RemovePod(0),
        ],
        ..Server::new(true)
    };
    server.make_pod(&pod(0), 4);
    server
}

/// The pod whose claim is made and recorded.
fn one_pod_with_its_claim() -> Server {
    let mut sim = Sim::new(one_pod());
    sim.settle();
    sim.model().clone()
}

/// The pod has finished, and its claim is reserved for it.
fn one_finished_pod() -> Server {
    let mut server = one_pod_with_its_claim();
    server.let_others(&Act::Schedule(0));
    server.let_others(&Act::Finish(0));
    server
}

#[test]
fn no_run_within_bounds_leaves_a_pod_without_its_claim() {
    sim::assert_sound(&one_pod(), ONE_EACH);
}

#[test]
fn no_run_within_bounds_leaves_a_claim_of_a_pod_that_is_done() {
    sim::assert_sound(&one_finished_pod(), ONE_EACH);
}

/// Two acts; the term does not end.
#[test]
fn no_run_within_bounds_leaves_a_group_without_its_claim() {
    let bounds = Bounds {
        acts: 2,
        terms: 0,
        ..ONE_EACH
    };
    sim::assert_sound(&one_pod_of_a_group(), bounds);
}

/// The term does not end.
#[test]
fn no_run_within_bounds_mistakes_a_pod_for_another_of_its_name() {
    let mut server = one_pod_with_its_claim();
    server.acts = vec![Act::Finish(0), Act::ReplacePod(0, 0)];
    let bounds = Bounds { terms: 0, ..ONE_EACH };
    sim::assert_sound(&server, bounds);
}

#[test]
fn a_claim_that_is_given_back_whatever_has_become_of_it_is_found() {
    let mut server = one_finished_pod();
    server.bug = Some(Bug::NoVersion);
    sim::assert_found(server, ONE_EACH, 1, "deleted twice");
}

#[test]
fn a_claim_of_a_group_that_is_recorded_and_not_written_is_found() {
    let mut server = one_pod_of_a_group();
    server.bug = Some(Bug::RecordsNothing);
    sim::assert_found(server, ONE_EACH, 1, "Remember(Undone(");
}

#[test]
fn a_record_that_is_accepted_and_not_written_is_found() {
    let mut server = one_pod();
    server.bug = Some(Bug::RecordsNothing);
    sim::assert_found(server, ONE_EACH, 1, "Remember(Undone(");
}

#[test]
fn a_pod_keeps_its_claim_while_the_watch_shows_an_older_pod_of_its_name() {
    let replace = || Op::Act(Act::ReplacePod(0, 0));
    let (pods, claims) = (Op::Deliver(0), Op::Deliver(2));
    let ops = [
        // The gates are known.
        Op::Answer(0),
        Op::Act(Act::DeleteClaim(0)),
        claims.clone(),
        replace(),
        replace(),
        pods.clone(),
        // A read shows the newest pod, and its claim is made.
        Op::Answer(0),
        Op::Answer(0),
        claims,
        pods,
    ];
    sim::run(one_pod_with_its_claim(), &ops);
}

#[test]
fn an_answer_that_the_watch_has_overtaken_does_not_count_for_a_key_that_joins_its_query() {
    let mut server = Server::new(true);
    server.make_pod(&pod(0), 0);
    let claims = Op::Deliver(2);
    let ops = [
        Op::Answer(0),
        Op::Arrive(0),
        claims.clone(),
        // The answer to the create is lost with the term: the next one reads the claim.
        Op::Lead(false),
        Op::Lead(true),
        Op::Answer(0),
        Op::Arrive(0),
        Op::Act(Act::DeleteClaim(0)),
        // The claim is recorded, and the watch shows that it is gone: the pod is read, then the claim.
        Op::Answer(1),
        claims,
        Op::Answer(1),
    ];
    sim::run(server, &ops);
}

fn with(bug: ProcessBug) -> Server {
    Server {
        bug: Some(Bug::Process(bug)),
        ..server()
    }
}

controller_testing::process_bugs_are_found!(with, any_action());

#[test]
fn nothing_is_left_of_ten_thousand_objects() {
    sim::run_through(server(), 10_000, any_action());
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn every_run_ends_with_a_claim_for_every_entry_and_none_for_who_is_done(
        (roles, steps) in sim::runs(any_action()),
    ) {
        sim::run_among(server(), &roles, &steps);
    }

    /// A pod has one claim for each entry, a live pod keeps its reservations and its claims, and every write is
    /// allowed: see [`server`].
    #[test]
    fn whatever_happens_all_pods_have_their_claims_in_the_end_and_no_other_has_one(
        (mut roles, steps) in sim::runs(any_action()), both_lead in any::<bool>(),
    ) {
        let server = Server {
            is_prompt: true,
            permit_every: Duration::from_millis(1),
            ..server()
        };
        if both_lead {
            roles.fill(Role::Leader);
        }
        sim::run_among(server, &roles, &steps);
    }
}

#[test]
fn json_and_protobuf_give_the_same_pod() {
    assert_the_same_views::<PodWire>(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "7",
            "deletionTimestamp": "2026-01-01T00:00:01Z",
        },
        "spec": {
            "nodeName": "node",
            "resourceClaims": [
                { "name": "a", "resourceClaimName": "shared" },
                { "name": "b", "resourceClaimTemplateName": "template" },
            ],
            "schedulingGroup": { "podGroupName": "group" },
        },
        "status": {
            "phase": "Succeeded",
            "resourceClaimStatuses": [{ "name": "b", "resourceClaimName": "made" }, { "name": "c" }],
            "extendedResourceClaimStatus": { "resourceClaimName": "extended", "requestMappings": [] },
        },
    }));
}

#[test]
fn json_and_protobuf_give_the_same_claim() {
    let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "2", "controller": true });
    assert_the_same_views::<ClaimWire>(&json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {
            "name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "7",
            "deletionTimestamp": "2026-01-01T00:00:01Z", "ownerReferences": [owner],
            "annotations": { "resource.kubernetes.io/pod-claim-name": "a", "other": "" },
            "finalizers": ["resource.kubernetes.io/delete-protection", "other"],
        },
        "spec": { "devices": { "requests": [
            { "name": "r", "exactly": { "deviceClassName": "c", "adminAccess": true } },
            { "name": "s", "firstAvailable": [{ "name": "t", "deviceClassName": "c" }] },
        ] } },
        "status": {
            "allocation": {},
            "reservedFor": [
                { "resource": "pods", "name": "p", "uid": "1" },
                { "apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "2" },
            ],
        },
    }));
}
