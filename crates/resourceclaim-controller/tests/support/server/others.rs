//! Users, kubelets, the scheduler and the garbage collector.

use std::sync::Arc;

use controller_core::meta::ObjectKey;
use resourceclaim_controller::decide::{RESERVED_FOR_MAX_SIZE, claim_name};
use resourceclaim_controller::pod_group::GroupVersion;
use resourceclaim_controller::view::{
    ClaimSource, ClaimView, ClaimantKind, ClaimantView, Consumer, ConsumerKind, Entry,
};

use super::{CROWDED, FREE, GROUP, Server, is_group, is_made, lives};
use crate::support::{a_pod, claim, key, owner_ref, pod_with, template, templated, users};

/// What others do.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    MakePod(usize, usize),
    Bind(usize),
    Finish(usize),
    DeletePod(usize),
    RemovePod(usize),
    /// Its controller makes a pod of the same name anew.
    ReplacePod(usize, usize),
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

pub(crate) fn pod(number: usize) -> ObjectKey {
    key(&format!("p{number}"))
}

/// The claim with this number, wrapping around.
pub(crate) fn numbered(server: &Server, number: usize) -> Option<&ClaimView> {
    server.all_claims().cycle().take(16).nth(number)
}

fn key_numbered(server: &Server, number: usize) -> ObjectKey {
    numbered(server, number).map_or_else(|| key("none"), |claim| claim.key.clone())
}

/// The entries of a pod: one template that is always there, one that may come later, the user's claims. Those of the group
/// are the first.
fn entries(shape: usize) -> Vec<Entry> {
    let (early, late) = (|| templated("a", "early"), || templated("b", "late"));
    match shape % 4 {
        0 => vec![early()],
        1 => vec![early(), late()],
        2 => vec![users("c", CROWDED), early()],
        _ => vec![users("c", FREE)],
    }
}

/// What a pod or a group reserves.
fn consumer(holder: &ClaimantView) -> Consumer {
    Consumer {
        kind: match holder.kind {
            ClaimantKind::Pod => ConsumerKind::Pod,
            ClaimantKind::PodGroup(_) => ConsumerKind::PodGroup,
        },
        uid: holder.uid.clone(),
        ..a_pod(&holder.key.name)
    }
}

impl Server {
    pub(crate) fn let_others(&mut self, act: &Act) {
        match *act {
            Act::MakePod(number, shape) => self.make_pod(&pod(number), shape),
            Act::Bind(number) => self.bind(&pod(number)),
            Act::Finish(number) => self.change_pod(&pod(number), |pod| pod.over = true),
            Act::DeletePod(number) => self.change_pod(&pod(number), |pod| pod.deleting = true),
            Act::RemovePod(number) => self.remove_pod(&pod(number)),
            Act::ReplacePod(number, shape) => {
                self.remove_pod(&pod(number));
                self.make_pod(&pod(number), shape);
            }
            Act::MakeLateTemplate => self.make_template("late"),
            Act::MakeUsersClaims => self.make_users_claims(),
            Act::Squat(number, n) => self.squat(&pod(number), n),
            Act::Forge(victim, owner) => self.forge(&pod(victim), &pod(owner)),
            Act::DeleteClaim(number) => self.delete_claim_by_hand(&key_numbered(self, number)),
            Act::Allocate(number) => self.allocate(&key_numbered(self, number)),
            Act::Schedule(number) => self.schedule(&pod(number)),
            Act::Unreserve(number) => self.unreserve(&key_numbered(self, number)),
            Act::MakeGroup => self.make_group(),
            Act::RemoveGroup => self.remove_pod(&key(GROUP)),
            Act::CollectGarbage => self.collect_garbage(),
        }
    }

    pub(crate) fn make_template(&mut self, name: &str) {
        if !self.templates.objects().contains_key(&key(name)) {
            self.templates.put(template(name), name.into());
        }
    }

    pub(crate) fn make_users_claims(&mut self) {
        let others = (1..RESERVED_FOR_MAX_SIZE).map(|number| Consumer {
            kind: ConsumerKind::Other,
            name: number.to_string().into(),
            uid: number.to_string().as_str().into(),
        });
        for (name, others) in [(CROWDED, others.collect()), (FREE, Box::default())] {
            if self.claim(&key(name)).is_none() {
                let crowded = name == CROWDED;
                self.put_claim(ClaimView {
                    uid: format!("{name}-{}", self.version()).as_str().into(),
                    reserved: others,
                    finalizer: crowded,
                    allocated: crowded,
                    ..claim(name)
                });
            }
        }
    }

    /// A claim of somebody else that has one of our names, for good.
    pub(crate) fn squat(&mut self, pod: &ObjectKey, n: u32) {
        let Some(pod) = self.claimant(pod) else { return };
        let name = claim_name(&pod.key.name, &pod.uid, "a", n);
        if self.claim(&key(&name)).is_none() {
            self.put_claim(claim(&name));
        }
    }

    /// A claim whose owner reference has the name of one pod and the uid of another.
    pub(crate) fn forge(&mut self, victim: &ObjectKey, owner: &ObjectKey) {
        let Some(victim) = self.claimant(victim) else {
            return;
        };
        let forged = format!("forged-{}", victim.uid);
        let owner = owner_ref("v1", "Pod", &owner.name, victim.uid.clone());
        if self.claim(&key(&forged)).is_none() {
            let uid = format!("forged-{}", self.version());
            self.put_claim(ClaimView {
                uid: uid.as_str().into(),
                owner: Some(Arc::new(owner)),
                ..claim(&forged)
            });
        }
    }

    /// From the fourth shape on, it is in the group.
    pub(crate) fn make_pod(&mut self, name: &ObjectKey, shape: usize) {
        if self.claimant(name).is_some() {
            return;
        }
        let uid = format!("{}-{}", name.name, self.version());
        self.put_pod(ClaimantView {
            key: name.clone(),
            uid: uid.as_str().into(),
            group: (shape >= 4).then(|| GROUP.into()),
            ..pod_with(entries(shape))
        });
    }

    pub(crate) fn make_group(&mut self) {
        if self.claimant(&key(GROUP)).is_none() {
            let uid = format!("{GROUP}-{}", self.version());
            self.put_pod(ClaimantView {
                kind: ClaimantKind::PodGroup(GroupVersion::V1Beta1),
                key: key(GROUP),
                uid: uid.as_str().into(),
                ..pod_with(entries(0))
            });
        }
    }

    /// Who has the claim of the entry of the pod, and is it reserved for; none where the group is missing.
    pub(crate) fn holder<'a>(&'a self, pod: &'a ClaimantView, entry: &Entry) -> Option<&'a ClaimantView> {
        let group = match &pod.group {
            Some(group) => self.claimant(&key(group))?,
            None => pod,
        };
        Some(if group.entries.contains(entry) { group } else { pod })
    }

    /// Somebody takes a reservation off the claim that is still needed.
    pub(crate) fn unreserve(&mut self, name: &ObjectKey) {
        let Some(mut claim) = self.claim(name).cloned() else {
            return;
        };
        let holds = |consumer: &Consumer| self.is_live(&key(&consumer.name), &consumer.uid);
        if let Some(last) = claim.reserved.iter().rposition(holds) {
            let mut reserved = claim.reserved.into_vec();
            reserved.remove(last);
            claim.reserved = reserved.into();
            let uid = self.put_claim(claim).uid;
            self.used.remove(&uid);
        }
    }

    pub(crate) fn change_pod(&mut self, name: &ObjectKey, change: impl FnOnce(&mut ClaimantView)) {
        self.claimants(name).edit(name, change);
    }

    /// The API server lets nobody bind a pod that is being deleted.
    pub(crate) fn bind(&mut self, name: &ObjectKey) {
        self.change_pod(name, |pod| {
            if !pod.deleting && !pod.over {
                pod.node = Some("node".into());
            }
        });
    }

    pub(crate) fn remove_pod(&mut self, name: &ObjectKey) {
        self.claimants(name).delete(name);
    }

    pub(crate) fn delete_claim_by_hand(&mut self, name: &ObjectKey) {
        if let Some(claim) = self.claim(name).cloned()
            && claim.deleting.is_none()
        {
            self.delete_claim(&claim);
        }
    }

    /// The scheduler adds the finalizer, then it allocates.
    pub(crate) fn allocate(&mut self, name: &ObjectKey) {
        let claim = self.claim(name).cloned();
        let open = claim.filter(|claim| claim.deleting.is_none() && !claim.allocated);
        if let Some(mut claim) = open {
            claim.allocated = claim.finalizer;
            claim.finalizer = true;
            self.put_claim(claim);
        }
    }

    /// The scheduler reserves all claims of a pod that waits, as far as it can, and binds it when all are.
    pub(crate) fn schedule(&mut self, name: &ObjectKey) {
        let Some(pod) = self.claimant(name).cloned() else {
            return;
        };
        if !lives(&pod) || pod.deleting || pod.node.is_some() || is_group(name) {
            return;
        }
        let mut ready = true;
        for entry in pod.entries.iter() {
            let claim = match &entry.source {
                ClaimSource::Claim(claim) => Some(claim),
                _ => { pod.statuses.iter() }
                    .find(|status| status.entry == entry.name)
                    .and_then(|status| status.claim.as_ref()),
            };
            let claim = claim.and_then(|name| self.claim(&key(name)));
            let held = claim.zip(self.holder(&pod, entry));
            let held = held.filter(|(claim, holder)| !is_made(entry) || claim.is_controlled_by(&holder.uid));
            let Some((claim, holder)) = held else {
                ready = false;
                continue;
            };
            let consumer = consumer(holder);
            if claim.reserved.contains(&consumer) {
                continue;
            }
            if claim.deleting.is_some() || claim.reserved.len() >= RESERVED_FOR_MAX_SIZE {
                ready = false;
                continue;
            }
            let consumers = claim.reserved.iter().cloned().chain([consumer]);
            self.put_claim(ClaimView {
                reserved: consumers.collect(),
                allocated: true,
                finalizer: true,
                ..claim.clone()
            });
        }
        if ready {
            self.bind(name);
        }
    }

    pub(crate) fn collect_garbage(&mut self) {
        let is_orphan = |claim: &&ClaimView| {
            let owner = claim.owning_pod().or_else(|| claim.owning_group());
            owner.is_some_and(|owner| {
                let there = self.claimant(&key(&owner.name));
                there.is_none_or(|there| there.uid != owner.uid)
            })
        };
        let orphans = self.all_claims().filter(is_orphan).cloned();
        for claim in orphans.collect::<Vec<_>>() {
            if claim.deleting.is_none() {
                self.delete_claim(&claim);
            }
        }
    }
}
