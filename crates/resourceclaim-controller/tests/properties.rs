//! The loop against a model of the API server: what is woken, what is promised, what it ends with.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    dead_code,
    reason = "a test, and a model that others use, too"
)]

#[path = "decide_props/server.rs"]
mod server;

use std::sync::Arc;

use controller_core::controller::{Ask, Completed, Loop, Now};
use controller_core::informer::View;
use controller_core::meta::{ObjectKey, OwnerRef};
use harness::sim::{self, Model, Resource, Watch};
use prometheus::Registry;
use proptest::prelude::*;
use resourceclaim_controller::config::Config;
use resourceclaim_controller::decide::{Gates, wants_claims};
use resourceclaim_controller::next::Key;
use resourceclaim_controller::requests::Answer;
use resourceclaim_controller::view::{ClaimView, ClaimantView, ConsumerKind, TemplateView};
use resourceclaim_controller::{ResourceClaimController, Stores};

use self::server::{Event, Server, is_made, key};

const PODS: usize = 3;

struct Cluster {
    server: Server,
    pods: Resource<ClaimantView>,
    pods_seen: usize,
    claims: Resource<ClaimView>,
    claims_seen: usize,
    templates: Resource<TemplateView>,
}

#[derive(Clone, Debug)]
enum Action {
    MakePod(usize, usize),
    Bind(usize),
    Finish(usize),
    DeletePod(usize),
    RemovePod(usize),
    MakeLateTemplate,
    Squat(usize, u32),
    DeleteClaim(usize),
    Allocate(usize),
    Schedule(usize),
    CollectGarbage,
}

fn any_action() -> impl Strategy<Value = Action> {
    let pod = 0..PODS;
    let claim = 0..8_usize;
    prop_oneof![
        4 => (pod.clone(), 0..4_usize).prop_map(|(pod, shape)| Action::MakePod(pod, shape)),
        1 => pod.clone().prop_map(Action::Bind),
        1 => pod.clone().prop_map(Action::Finish),
        1 => pod.clone().prop_map(Action::DeletePod),
        1 => pod.clone().prop_map(Action::RemovePod),
        1 => Just(Action::MakeLateTemplate),
        1 => (pod.clone(), 0..2_u32).prop_map(|(pod, n)| Action::Squat(pod, n)),
        2 => claim.clone().prop_map(Action::DeleteClaim),
        2 => claim.prop_map(Action::Allocate),
        3 => pod.prop_map(Action::Schedule),
        1 => Just(Action::CollectGarbage),
    ]
}

fn pod(number: usize) -> ObjectKey {
    key(&format!("p{number}"))
}

fn key_of(owner: &OwnerRef) -> ObjectKey {
    key(&owner.name)
}

/// The watch hears of what the server has told since.
fn follow<V: View + Clone>(resource: &mut Resource<V>, seen: &mut usize, events: &[Event<V>]) {
    for event in &events[*seen..] {
        resource.skip_to(event.version);
        match &event.now {
            Some(now) => _ = resource.put(V::clone(now), event.uid.clone()),
            None => resource.delete(&event.key),
        }
    }
    *seen = events.len();
}

impl Cluster {
    fn new() -> Self {
        let mut cluster = Self {
            server: Server::new(false),
            pods: Resource::new(),
            pods_seen: 0,
            claims: Resource::new(),
            claims_seen: 0,
            templates: Resource::new(),
        };
        cluster.follow();
        cluster
    }

    fn follow(&mut self) {
        let server = &self.server;
        follow(&mut self.pods, &mut self.pods_seen, &server.pod_events);
        follow(&mut self.claims, &mut self.claims_seen, &server.claim_events);
        for (key, template) in &server.templates {
            if !self.templates.objects().contains_key(key) {
                self.templates.put((**template).clone(), (&*key.name).into());
            }
        }
    }

    fn claim(&self, number: usize) -> Option<Arc<ClaimView>> {
        self.server.claims.values().cycle().take(16).nth(number).cloned()
    }
}

impl Model for Cluster {
    type Controller = ResourceClaimController;
    type Action = Action;

    fn controller(&self) -> ResourceClaimController {
        ResourceClaimController::new(&Config::default(), Gates::default(), &Registry::new()).unwrap()
    }

    fn restart(&mut self) -> Stores {
        Stores {
            pods: self.pods.restart(),
            claims: self.claims.restart(),
            templates: self.templates.restart(),
            groups: None,
        }
    }

    fn act(&mut self, action: &Action, _: Now) {
        let server = &mut self.server;
        match *action {
            Action::MakePod(number, shape) => server.make_pod(&pod(number), shape),
            Action::Bind(number) => server.bind(&pod(number)),
            Action::Finish(number) => server.change_pod(&pod(number), |pod| pod.over = true),
            Action::DeletePod(number) => server.change_pod(&pod(number), |pod| pod.deleting = true),
            Action::RemovePod(number) => server.remove_pod(&pod(number)),
            Action::MakeLateTemplate => server.make_template("late"),
            Action::Squat(number, n) => server.squat(&pod(number), n),
            Action::DeleteClaim(number) => {
                if let Some(claim) = self.claim(number) {
                    self.server.delete_claim_by_hand(&claim.key);
                }
            }
            Action::Allocate(number) => {
                if let Some(claim) = self.claim(number) {
                    self.server.allocate(&claim.key);
                }
            }
            Action::Schedule(number) => server.schedule(&pod(number)),
            Action::CollectGarbage => server.collect_garbage(),
        }
        self.follow();
    }

    fn arrive(&mut self, ask: &Ask<ResourceClaimController>, _: Now) -> Completed<Answer> {
        let answer = self.server.answer(ask);
        self.follow();
        answer
    }

    fn watches(&mut self) -> Vec<(&'static str, &mut dyn Watch<ResourceClaimController>)> {
        vec![
            ("pods", &mut self.pods),
            ("resourceclaims", &mut self.claims),
            ("resourceclaimtemplates", &mut self.templates),
        ]
    }

    fn keys(&self) -> Vec<Key> {
        let claims = self.server.claim_events.iter().map(|event| event.key.clone());
        let mut claims: Vec<_> = claims.map(Key::Claim).collect();
        claims.sort();
        claims.dedup();
        let pods = (0..PODS).map(|number| Key::Pod(pod(number)));
        pods.chain(claims).collect()
    }

    /// A claim whose pod was replaced: its deletion is the garbage collector's as much as ours.
    fn is_left(&self, key: &Key) -> bool {
        let Key::Claim(claim) = key else { return false };
        let claim = self.server.claims.get(claim);
        let owner = claim.map(|claim| claim.owning_pod());
        let is_there = |owner: &OwnerRef| {
            let pod = self.server.pods.get(&key_of(owner));
            pod.is_some_and(|pod| pod.uid == owner.uid)
        };
        owner.is_none_or(|owner| owner.is_some_and(|owner| !is_there(owner)))
    }

    /// The templates come, and the garbage collector has its turn.
    fn come_to_rest(&mut self) -> bool {
        let (version, templates) = (self.server.version, self.server.templates.len());
        self.server.make_template("late");
        self.server.collect_garbage();
        self.follow();
        (self.server.version, self.server.templates.len()) != (version, templates)
    }

    fn check(&self, event_loop: &Loop<ResourceClaimController>, _: Now) -> Result<(), String> {
        let server = &self.server;
        for pod in server.pods.values().filter(|pod| wants_claims(pod)) {
            for entry in pod.entries.iter().filter(|entry| is_made(entry)) {
                let recorded = pod.statuses.iter().find(|status| status.entry == entry.name);
                let recorded = recorded.and_then(|status| status.claim.as_ref());
                let claims = server.made_for(&pod.uid, &entry.name);
                // A create that outlives its process may have made another one.
                if !claims.iter().any(|claim| Some(&claim.key.name) == recorded) {
                    return Err(format!("{} of {}: {claims:?}", entry.name, pod.key));
                }
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
        match event_loop.held() {
            0 => Ok(()),
            held => Err(format!("left behind: {held}")),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn every_run_ends_with_a_claim_for_every_entry_and_none_for_who_is_done(ops in sim::ops(any_action())) {
        sim::run(Cluster::new(), &ops);
    }
}
