//! The API server as the model of the claims' controller.

use std::collections::BTreeSet;
use std::time::Duration;

use controller_core::controller::{Completed, Loop, Now, RequestOf};
use controller_core::meta::{ObjectKey, OwnerRef};
use controller_testing::sim::{Model, Process, ProcessBug, SimObject, Watch};
use embedded_apiserver::Server as Embedded;
use prometheus::Registry;
use proptest::prelude::*;
use resourceclaim_controller::config::Config;
use resourceclaim_controller::decide::RESERVED_FOR_MAX_SIZE;
use resourceclaim_controller::requests::{Answer, Write};
use resourceclaim_controller::state::{Key, State};
use resourceclaim_controller::view::{ClaimSource, ClaimView, ClaimantView, ConsumerKind, Entry};
use resourceclaim_controller::{ResourceClaimController, Stores};

use crate::server::others::{Act, numbered, pod};
use crate::server::{Bug, CROWDED, FREE, GROUP, Server, is_made, lives};
use crate::support::key;

const PODS: usize = 3;

pub(crate) fn any_action() -> impl Strategy<Value = Act> {
    let pod = 0..PODS;
    let claim = 0..8_usize;
    prop_oneof![
        4 => (pod.clone(), 0..8_usize).prop_map(|(pod, shape)| Act::MakePod(pod, shape)),
        1 => pod.clone().prop_map(Act::Bind),
        1 => pod.clone().prop_map(Act::Finish),
        1 => pod.clone().prop_map(Act::DeletePod),
        1 => pod.clone().prop_map(Act::RemovePod),
        1 => (pod.clone(), 0..8_usize).prop_map(|(pod, shape)| Act::ReplacePod(pod, shape)),
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

fn key_of(owner: &OwnerRef) -> ObjectKey {
    key(&owner.name)
}

impl Model for Server {
    type Controller = ResourceClaimController;
    type Act = Act;

    fn controller(&self) -> ResourceClaimController {
        let config = Config {
            feature_gates: Some(format!("DRAWorkloadResourceClaims={}", self.has_groups)),
            ..Config::default()
        };
        ResourceClaimController::new(&config, config.gates(), &Registry::new()).unwrap()
    }

    fn permit_every(&self) -> Duration {
        self.permit_every
    }

    fn arrives_within(&self) -> Duration {
        if self.is_prompt {
            Duration::ZERO
        } else {
            Duration::MAX
        }
    }

    fn act(&mut self, action: &Act, _: Now) {
        self.let_others(action);
    }

    fn arrive(&mut self, ask: &RequestOf<ResourceClaimController>, _: Now) -> Completed<Answer> {
        self.answer(ask)
    }

    fn server(&self, ask: &RequestOf<ResourceClaimController>, now: Now) -> Option<Embedded> {
        self.as_stored(ask, now)
    }

    fn compare_with(
        &self,
        ask: &RequestOf<ResourceClaimController>,
        server: &Embedded,
    ) -> Result<(), String> {
        self.compare_stored(ask, server)
    }

    fn watches(&mut self) -> Vec<(&'static str, &mut dyn Watch<ResourceClaimController>)> {
        vec![
            ("pods", &mut self.pods),
            ("podgroups", &mut self.groups),
            ("resourceclaims", &mut self.claims),
            ("resourceclaimtemplates", &mut self.templates),
        ]
    }

    fn keys(&self) -> Vec<Key> {
        // Claims that went long before need nothing more.
        let claims = self.claims.objects().keys().chain(&self.gone);
        let claims: BTreeSet<_> = claims.cloned().map(Key::Claim).collect();
        let pods = (0..PODS).map(|number| Key::Pod(pod(number)));
        pods.chain([Key::PodGroup(key(GROUP))]).chain(claims).collect()
    }

    /// True for an object that is gone or replaced by now, and for a claim whose pod is not shown yet, because the watch
    /// will show that; and for a claim whose pod was replaced, because its deletion is the garbage collector's as much
    /// as ours.
    fn is_left(&self, key: &Key, stores: &Stores) -> bool {
        let claim = match key {
            Key::Claim(claim) => claim,
            Key::Pod(key) | Key::PodGroup(key) => {
                let judged = stores.pods.get(key).or_else(|| stores.groups.get(key));
                let there = self.claimant(key).map(|there| &there.uid);
                return judged.is_some_and(|judged| there != Some(&judged.uid));
            }
            Key::Gates => return false,
        };
        let judged = stores.claims.get(claim).map(|claim| claim.uid.clone());
        let claim = self.claim(claim);
        let claim = claim.filter(|claim| judged.is_none_or(|judged| judged == claim.uid));
        let owner = claim.map(|claim| claim.owning_pod());
        let is_there = |owner: &OwnerRef| {
            let shown = stores.pods.get(&key_of(owner));
            let shown = shown.or_else(|| stores.groups.get(&key_of(owner)));
            let there = self.claimant(&key_of(owner));
            there.is_some_and(|there| {
                there.uid == owner.uid && shown.is_some_and(|shown| shown.uid == there.uid)
            })
        };
        owner.is_none_or(|owner| owner.is_some_and(|owner| !is_there(owner)))
    }

    /// The templates appear, and the garbage collector runs.
    fn come_to_rest(&mut self) -> bool {
        let before = self.version();
        self.make_template("late");
        self.collect_garbage();
        self.version() != before
    }

    fn clear(&mut self) {
        for claim in self.claims.objects().keys().cloned().collect::<Vec<_>>() {
            self.remove_claim(&claim);
        }
        self.pods.clear();
        self.groups.clear();
    }

    /// A pod that no longer needs its claims is not read.
    fn leaves_writes(&self) -> bool {
        true
    }

    fn process_bug(&self) -> Option<ProcessBug> {
        match self.bug {
            Some(Bug::Process(bug)) => Some(bug),
            _ => None,
        }
    }

    /// A process that has not seen a name recorded cannot know that the name must not be used again.
    fn may_act(&self, action: &Act, processes: &[&Process<Self>]) -> bool {
        let claim = match action {
            Act::DeleteClaim(number) => numbered(self, *number),
            _ => None,
        };
        claim.is_none_or(|claim| processes.iter().all(|process| sees_recorded(process, claim)))
    }

    fn remembered(&self, state: &State) -> usize {
        state.held()
    }

    fn check(&self, _: &Loop<ResourceClaimController>, _: Now) -> Result<(), String> {
        let claimants = self.pods.objects().values().chain(self.groups.objects().values());
        for SimObject { view, .. } in claimants.filter(|held| lives(&held.view) && !held.view.deleting) {
            for entry in view.entries.iter() {
                check_entry(self, view, entry)?;
            }
        }
        for claim in self.all_claims() {
            let is_free = claim.reserved.iter().all(|consumer| {
                consumer.kind == ConsumerKind::Other || self.is_live(&key(&consumer.name), &consumer.uid)
            });
            if !is_free || self.is_unused_and_allocated(claim) || (claim.finalizer && !claim.allocated) {
                return Err(format!("never freed: {claim:?}"));
            }
            if claim.owning_pod().is_some() && !self.owner_is_live(claim) {
                return Err(format!("never deleted: {claim:?}"));
            }
        }
        Ok(())
    }
}

/// True if everything that the process may still act on shows that the claim is recorded.
fn sees_recorded(process: &Process<Server>, claim: &ClaimView) -> bool {
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

/// Checks that the entry has its claim, and the claim its reservation.
fn check_entry(server: &Server, pod: &ClaimantView, entry: &Entry) -> Result<(), String> {
    // The entry waits for its group.
    let Some(holder) = server.holder(pod, entry) else {
        return Ok(());
    };
    let recorded = pod.status(&entry.name).and_then(|status| status.claim.as_ref());
    let name = match &entry.source {
        ClaimSource::Claim(name) => Some(name),
        _ => recorded,
    };
    let claim = name.and_then(|name| server.claim(&key(name)));
    let needs_it = |claim: &&ClaimView| {
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
