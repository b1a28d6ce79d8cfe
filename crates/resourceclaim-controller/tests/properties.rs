//! The loop against a model of the API server: requeue completeness, the done contract and the final state.
//!
//! One process, or two that work on the same pods and claims. [`server`] asserts at each write what must never happen.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "a test")]

#[path = "support/server.rs"]
mod server;
mod support;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use controller_core::cache::View;
use controller_core::controller::{Completed, Loop, Now, RequestOf};
use controller_core::meta::{ObjectKey, OwnerRef};
use controller_testing::encodings::assert_the_same_views;
use controller_testing::sim::{self, Model, Op, Sim, SimResource, Watch};
use prometheus::Registry;
use proptest::collection::vec;
use proptest::prelude::*;
use resourceclaim_controller::config::Config;
use resourceclaim_controller::decide::{RESERVED_FOR_MAX_SIZE, wants_claims};
use resourceclaim_controller::requests::{Answer, Write};
use resourceclaim_controller::state::{Key, State};
use resourceclaim_controller::view::{
    ClaimSource, ClaimView, ClaimWire, ClaimantView, ConsumerKind, Entry, PodWire, TemplateView,
};
use resourceclaim_controller::{ResourceClaimController, Stores};
use serde_json::json;

use self::server::{CROWDED, Event, FREE, GROUP, Server, is_group, is_made};
use self::support::key;

const PODS: usize = 3;
/// More changes than a short run makes.
const LATELY: usize = 60;

/// The API server, as one process sees it.
struct Cluster {
    server: Rc<RefCell<Server>>,
    pods: SimResource<ResourceClaimController, ClaimantView>,
    pods_seen: usize,
    groups: SimResource<ResourceClaimController, ClaimantView>,
    groups_seen: usize,
    claims: SimResource<ResourceClaimController, ClaimView>,
    claims_seen: usize,
    templates: SimResource<ResourceClaimController, TemplateView>,
}

#[derive(Clone, Debug)]
enum Act {
    MakePod(usize, usize),
    Bind(usize),
    Finish(usize),
    DeletePod(usize),
    RemovePod(usize),
    MakeLateTemplate,
    MakeUsersClaims,
    Squat(usize, u32),
    Forge(usize, usize),
    DeleteClaim(usize),
    Allocate(usize),
    Schedule(usize),
    Unreserve(usize),
    MakeGroup,
    RemoveGroup,
    CollectGarbage,
}

fn any_action() -> impl Strategy<Value = Act> {
    let pod = 0..PODS;
    let claim = 0..8_usize;
    prop_oneof![
        4 => (pod.clone(), 0..8_usize).prop_map(|(pod, shape)| Act::MakePod(pod, shape)),
        1 => pod.clone().prop_map(Act::Bind),
        1 => pod.clone().prop_map(Act::Finish),
        1 => pod.clone().prop_map(Act::DeletePod),
        1 => pod.clone().prop_map(Act::RemovePod),
        1 => Just(Act::MakeLateTemplate),
        1 => Just(Act::MakeUsersClaims),
        1 => (pod.clone(), 0..2_u32).prop_map(|(pod, n)| Act::Squat(pod, n)),
        1 => (pod.clone(), pod.clone()).prop_map(|(victim, owner)| Act::Forge(victim, owner)),
        2 => claim.clone().prop_map(Act::DeleteClaim),
        2 => claim.clone().prop_map(Act::Allocate),
        1 => claim.prop_map(Act::Unreserve),
        2 => Just(Act::MakeGroup),
        1 => Just(Act::RemoveGroup),
        3 => pod.prop_map(Act::Schedule),
        1 => Just(Act::CollectGarbage),
    ]
}

fn pod(number: usize) -> ObjectKey {
    key(&format!("p{number}"))
}

fn key_of(owner: &OwnerRef) -> ObjectKey {
    key(&owner.name)
}

/// Shows the watch what the server has published about these names since.
fn follow<V: View + Clone>(
    resource: &mut SimResource<ResourceClaimController, V>,
    seen: &mut usize,
    events: &[Event<V>],
    of: impl Fn(&ObjectKey) -> bool,
) {
    for event in events[*seen..].iter().filter(|event| of(&event.key)) {
        resource.skip_to(event.version);
        match &event.now {
            Some(now) => _ = resource.put(V::clone(now), event.uid.clone()),
            None => resource.delete(&event.key),
        }
    }
    *seen = events.len();
}

impl Cluster {
    fn of(server: &Rc<RefCell<Server>>) -> Self {
        let mut cluster = Self {
            server: Rc::clone(server),
            pods: SimResource::new(|stores: &mut Stores| &mut stores.pods),
            pods_seen: 0,
            groups: SimResource::new(|stores: &mut Stores| &mut stores.groups),
            groups_seen: 0,
            claims: SimResource::new(|stores: &mut Stores| &mut stores.claims),
            claims_seen: 0,
            templates: SimResource::new(|stores: &mut Stores| &mut stores.templates),
        };
        cluster.follow();
        cluster
    }

    fn follow(&mut self) {
        let server = self.server.borrow();
        let events = &server.pod_events;
        follow(&mut self.pods, &mut self.pods_seen, events, |key| !is_group(key));
        follow(&mut self.groups, &mut self.groups_seen, events, is_group);
        follow(
            &mut self.claims,
            &mut self.claims_seen,
            &server.claim_events,
            |_| true,
        );
        for (key, template) in &server.templates {
            if !self.templates.objects().contains_key(key) {
                self.templates.put((**template).clone(), (&*key.name).into());
            }
        }
    }
}

/// The claim with this number, wrapping around.
fn numbered(server: &Server, number: usize) -> Option<Arc<ClaimView>> {
    server.claims.values().cycle().take(16).nth(number).cloned()
}

/// True if everything that the process may still act on shows that the claim is recorded.
fn sees_recorded(process: &Sim<Cluster>, claim: &ClaimView) -> bool {
    let Some(owner) = claim.owning_pod() else {
        return [CROWDED, FREE].contains(&&*claim.key.name);
    };
    let makes_it = |ask: &RequestOf<_>| match ask {
        RequestOf::Write(Write::Create(create)) => create.claim() == claim.key,
        _ => false,
    };
    let is_recorded = process.stores().pods.get(&key_of(owner)).is_some_and(|pod| {
        let mut recorded = pod.statuses.iter().filter_map(|status| status.claim.as_ref());
        claim.is_controlled_by(&pod.uid) && recorded.any(|recorded| *recorded == claim.key.name)
    });
    is_recorded && !process.on_their_way().any(makes_it)
}

impl Model for Cluster {
    type Controller = ResourceClaimController;
    type Act = Act;

    fn controller(&self) -> ResourceClaimController {
        let config = Config {
            feature_gates: Some("DRAWorkloadResourceClaims=true".to_owned()),
            ..Config::default()
        };
        ResourceClaimController::new(&config, config.gates(), &Registry::new()).unwrap()
    }

    fn permit_every(&self) -> Duration {
        if self.is_prompt() {
            Duration::from_millis(1)
        } else {
            Duration::ZERO
        }
    }

    fn is_prompt(&self) -> bool {
        self.server.borrow().is_prompt
    }

    fn act(&mut self, action: &Act, _: Now) {
        let server = &mut *self.server.borrow_mut();
        match *action {
            Act::MakePod(number, shape) => server.make_pod(&pod(number), shape),
            Act::Bind(number) => server.bind(&pod(number)),
            Act::Finish(number) => server.change_pod(&pod(number), |pod| pod.over = true),
            Act::DeletePod(number) => server.change_pod(&pod(number), |pod| pod.deleting = true),
            Act::RemovePod(number) => server.remove_pod(&pod(number)),
            Act::MakeLateTemplate => server.make_template("late"),
            Act::MakeUsersClaims => server.make_users_claims(),
            Act::Squat(number, n) => server.squat(&pod(number), n),
            Act::Forge(victim, owner) => server.forge(&pod(victim), &pod(owner)),
            Act::DeleteClaim(number) => {
                if let Some(claim) = numbered(server, number) {
                    server.delete_claim_by_hand(&claim.key);
                }
            }
            Act::Allocate(number) => {
                if let Some(claim) = numbered(server, number) {
                    server.allocate(&claim.key);
                }
            }
            Act::Schedule(number) => server.schedule(&pod(number)),
            Act::Unreserve(number) => {
                if let Some(claim) = numbered(server, number) {
                    server.unreserve(&claim.key);
                }
            }
            Act::MakeGroup => server.make_group(),
            Act::RemoveGroup => server.remove_pod(&key(GROUP)),
            Act::CollectGarbage => server.collect_garbage(),
        }
    }

    fn arrive(&mut self, ask: &RequestOf<ResourceClaimController>, _: Now) -> Completed<Answer> {
        self.server.borrow_mut().answer(ask)
    }

    fn watches(&mut self) -> Vec<(&'static str, &mut dyn Watch<ResourceClaimController>)> {
        self.follow();
        vec![
            ("pods", &mut self.pods),
            ("podgroups", &mut self.groups),
            ("resourceclaims", &mut self.claims),
            ("resourceclaimtemplates", &mut self.templates),
        ]
    }

    fn keys(&self) -> Vec<Key> {
        let server = self.server.borrow();
        // Claims that went long before need nothing more.
        let lately = server.claim_events.iter().rev().take(LATELY);
        let claims = lately
            .map(|event| event.key.clone())
            .chain(server.claims.keys().cloned());
        let mut claims: Vec<_> = claims.map(Key::Claim).collect();
        claims.sort();
        claims.dedup();
        let pods = (0..PODS).map(|number| Key::Pod(pod(number)));
        pods.chain([Key::PodGroup(key(GROUP))]).chain(claims).collect()
    }

    /// True for a claim whose pod was replaced, because its deletion is the garbage collector's as much as ours, and
    /// for a claim that is gone or replaced by now, because its watch will show that.
    fn is_left(&self, key: &Key, stores: &Stores) -> bool {
        let Key::Claim(claim) = key else { return false };
        let server = self.server.borrow();
        let judged = stores.claims.get(claim).map(|claim| claim.uid.clone());
        let claim = server.claims.get(claim);
        let claim = claim.filter(|claim| judged.is_none_or(|judged| judged == claim.uid));
        let owner = claim.map(|claim| claim.owning_pod());
        let is_there = |owner: &OwnerRef| {
            let pod = server.pods.get(&key_of(owner));
            pod.is_some_and(|pod| pod.uid == owner.uid)
        };
        owner.is_none_or(|owner| owner.is_some_and(|owner| !is_there(owner)))
    }

    /// The templates appear, and the garbage collector runs.
    fn come_to_rest(&mut self) -> bool {
        let mut server = self.server.borrow_mut();
        let before = (server.version, server.templates.len());
        server.make_template("late");
        server.collect_garbage();
        (server.version, server.templates.len()) != before
    }

    fn clear(&mut self) {
        let server = &mut *self.server.borrow_mut();
        let claims: Vec<_> = server.claims.keys().cloned().collect();
        for claim in &claims {
            server.remove_claim(claim);
        }
        let pods: Vec<_> = server.pods.keys().cloned().collect();
        for pod in &pods {
            server.remove_pod(pod);
        }
    }

    /// A pod that no longer needs its claims is not read.
    fn leaves_writes(&self) -> bool {
        true
    }

    fn remembered(&self, state: &State) -> usize {
        state.held()
    }

    fn check(&self, _: &Loop<ResourceClaimController>, _: Now) -> Result<(), String> {
        let server = self.server.borrow();
        for pod in server.pods.values().filter(|pod| wants_claims(pod)) {
            for entry in pod.entries.iter() {
                check_entry(&server, pod, entry)?;
            }
        }
        for claim in server.claims.values() {
            let is_free = claim.reserved.iter().all(|consumer| {
                consumer.kind == ConsumerKind::Other || server.is_live(&key(&consumer.name), &consumer.uid)
            });
            if !is_free || server.is_unused_and_allocated(claim) || (claim.finalizer && !claim.allocated) {
                return Err(format!("never freed: {claim:?}"));
            }
        }
        Ok(())
    }
}

/// Checks that the entry has its claim, and the claim its reservation.
fn check_entry(server: &Server, pod: &Arc<ClaimantView>, entry: &Entry) -> Result<(), String> {
    // The entry waits for its group.
    let Some(holder) = server.holder(pod, entry) else {
        return Ok(());
    };
    let recorded = pod.status(&entry.name).and_then(|status| status.claim.as_ref());
    let name = match &entry.source {
        ClaimSource::Claim(name) => Some(name),
        _ => recorded,
    };
    let claim = name.and_then(|name| server.claims.get(&key(name)));
    let needs_it = |claim: &&Arc<ClaimView>| {
        let ours = !is_made(entry) || claim.is_controlled_by(&holder.uid);
        let has_room = claim.reserved.len() < RESERVED_FOR_MAX_SIZE;
        pod.node.is_some() && ours && claim.allocated && claim.deleting.is_none() && has_room
    };
    if let Some(claim) = claim.filter(needs_it)
        && !claim
            .reserved
            .iter()
            .any(|consumer| [&pod.uid, &holder.uid].contains(&&consumer.uid))
    {
        return Err(format!("not reserved for {}: {claim:?}", holder.key));
    }
    // What the kubelet of a pod goes by stays.
    if !is_made(entry) || (pod.node.is_some() && recorded.is_some()) {
        return Ok(());
    }
    let claims = server.made_for(&holder.uid, &entry.name);
    // A create that outlives its process may have made another one.
    let is_alone = claims.len() == 1 || !server.is_prompt;
    if !is_alone || !claims.iter().any(|claim| Some(&claim.key.name) == recorded) {
        return Err(format!("{} of {}: {claims:?}", entry.name, pod.key));
    }
    Ok(())
}

#[test]
fn nothing_is_left_of_ten_thousand_objects() {
    sim::run_through(
        Cluster::of(&Rc::new(RefCell::new(Server::new(false)))),
        10_000,
        any_action(),
    );
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn every_run_ends_with_a_claim_for_every_entry_and_none_for_who_is_done(ops in sim::ops(any_action())) {
        sim::run(Cluster::of(&Rc::new(RefCell::new(Server::new(false)))), &ops);
    }

    /// A pod has one claim for each entry, a live pod keeps its reservations and its claims, and every write is
    /// allowed: see [`server`].
    #[test]
    fn whatever_happens_all_pods_have_their_claims_in_the_end_and_no_other_has_one(
        (processes, ops) in (1..3_usize).prop_flat_map(|processes| {
            (Just(processes), vec((0..processes, sim::op(any_action())), 1..200))
        })
    ) {
        let server = Rc::new(RefCell::new(Server::new(true)));
        let mut processes: Vec<_> = (0..processes).map(|_| Sim::new(Cluster::of(&server))).collect();
        for (process, op) in &ops {
            // A process that has not seen a name recorded cannot know that the name must not be used again.
            let claim = match op {
                Op::Act(Act::DeleteClaim(number)) => numbered(&server.borrow(), *number),
                _ => None,
            };
            let is_known = |claim: &Arc<ClaimView>| processes.iter().all(|process| sees_recorded(process, claim));
            if processes.len() == 1 || claim.as_ref().is_none_or(is_known) {
                processes[*process].step(op);
            }
        }
        let mut before = None;
        for _ in 0..20 {
            processes.iter_mut().for_each(Sim::settle);
            if before.replace(server.borrow().version) == Some(server.borrow().version) {
                break;
            }
        }
        prop_assert_eq!(before, Some(server.borrow().version), "something is written for ever");
        processes.iter_mut().for_each(Sim::check);
        for claim in server.borrow().claims.values() {
            let left = claim.owning_pod().filter(|owner| !server.borrow().is_live(&key_of(owner), &owner.uid));
            prop_assert_eq!(left, None, "{:?}", claim);
        }
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
