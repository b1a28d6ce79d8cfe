//! What exists, and what the rules demand of it, without the controller's own code.

use std::collections::BTreeMap;

use controller_testing::objects::{each, is_deleting, name, owner_of, text, uid};
use embedded_apiserver::{POD_GROUPS, PODS, RESOURCE_CLAIMS, Server};
use serde_json::{Value, json};

use super::ledger::Ledger;
use crate::world::{FINALIZER, claims_of};

pub(super) const ENTRY: &str = "resource.kubernetes.io/pod-claim-name";

#[derive(Debug, Default)]
pub(super) struct Sight {
    pub(super) pods: Vec<Claimant>,
    pub(super) groups: Vec<Claimant>,
    pub(super) claims: BTreeMap<String, Claim>,
}

/// A pod or a `PodGroup`.
#[allow(clippy::struct_excessive_bools, reason = "what the rules ask")]
#[derive(Clone, Debug)]
pub(super) struct Claimant {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) is_group: bool,
    /// The group of a pod.
    pub(super) group: Option<String>,
    pub(super) bound: bool,
    pub(super) deleting: bool,
    /// Its phase is final.
    pub(super) over: bool,
    pub(super) entries: Vec<Entry>,
    /// The claims of its entries.
    pub(super) recorded: BTreeMap<String, String>,
    /// The claim for its extended resources.
    pub(super) extended: Option<String>,
    pub(super) asks_extended: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    /// The user's claim; without one there is a template.
    pub(super) users: Option<String>,
    pub(super) template: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) version: String,
    /// The pod or the group that controls the claim.
    pub(super) owner: Option<Owner>,
    pub(super) entry: Option<String>,
    /// By name and uid.
    pub(super) reserved: Vec<(String, String)>,
    pub(super) finalizer: bool,
    pub(super) allocated: bool,
    pub(super) deleting: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub(super) is_group: bool,
    pub(super) name: String,
    pub(super) uid: String,
}

impl Claimant {
    pub(super) fn of(claimant: &Value) -> Self {
        let (spec, status) = (&claimant["spec"], &claimant["status"]);
        let some = |value: &Value| value.as_str().map(ToOwned::to_owned);
        let entries = each(&spec["resourceClaims"]).map(|entry| Entry {
            name: text(&entry["name"]),
            users: some(&entry["resourceClaimName"]),
            template: some(&entry["resourceClaimTemplateName"]),
        });
        Self {
            name: name(claimant),
            uid: uid(claimant),
            is_group: claimant["kind"] == "PodGroup",
            group: some(&spec["schedulingGroup"]["podGroupName"]),
            bound: spec["nodeName"].is_string(),
            deleting: is_deleting(claimant),
            over: matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")),
            entries: entries.collect(),
            recorded: claims_of(claimant),
            extended: some(&status["extendedResourceClaimStatus"]["resourceClaimName"]),
            asks_extended: !spec["containers"][0]["resources"]["limits"].is_null(),
        }
    }

    /// Returns whether it needs its claims, or will (RC-10): a group does as long as it exists (RC-17).
    pub(super) const fn lives(&self) -> bool {
        self.is_group || (!self.over && (!self.deleting || self.bound))
    }

    /// The name of the claim of one of its entries.
    pub(super) fn claim_of<'a>(&'a self, entry: &'a Entry) -> Option<&'a str> {
        let recorded = self.recorded.get(&entry.name);
        entry.users.as_ref().or(recorded).map(String::as_str)
    }

    /// As the claims that it has reserved name it.
    pub(super) fn consumer(&self) -> Value {
        let mut consumer = json!({ "resource": "pods", "name": self.name, "uid": self.uid });
        if self.is_group {
            consumer["apiGroup"] = json!("scheduling.k8s.io");
            consumer["resource"] = json!("podgroups");
        }
        consumer
    }
}

impl Claim {
    pub(super) fn of(claim: &Value) -> Self {
        let (metadata, status) = (&claim["metadata"], &claim["status"]);
        Self {
            name: name(claim),
            uid: uid(claim),
            version: text(&metadata["resourceVersion"]),
            owner: owner_of(claim).map(|owner| Owner {
                is_group: owner["kind"] == "PodGroup",
                name: text(&owner["name"]),
                uid: text(&owner["uid"]),
            }),
            entry: metadata["annotations"][ENTRY].as_str().map(ToOwned::to_owned),
            reserved: { each(&status["reservedFor"]) }
                .map(|consumer| (text(&consumer["name"]), text(&consumer["uid"])))
                .collect(),
            finalizer: each(&metadata["finalizers"]).any(|finalizer| finalizer == FINALIZER),
            allocated: status["allocation"].is_object(),
            deleting: is_deleting(claim),
        }
    }

    /// Returns whether the pod or the group with this uid controls the claim.
    pub(super) fn is_of(&self, claimant: &str) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.uid == claimant)
    }

    /// Returns whether the claim was made for an entry of the claimant, or of a group that had the name of a pod's: all
    /// that a pod knows of its group.
    pub(super) fn is_for(&self, claimant: &Claimant, entry: &str) -> bool {
        let of_group = |owner: &Owner| owner.is_group && claimant.group.as_ref() == Some(&owner.name);
        let is_for = self.is_of(&claimant.uid) || self.owner.as_ref().is_some_and(of_group);
        is_for && self.entry.as_deref() == Some(entry)
    }
}

impl Sight {
    pub(super) fn of(server: &Server) -> Self {
        let claims = server.list(&RESOURCE_CLAIMS);
        let claims = claims.iter().map(Claim::of);
        let all = |resource| server.list(resource).iter().map(Claimant::of).collect();
        Self {
            pods: all(&PODS),
            groups: all(&POD_GROUPS),
            claims: claims.map(|claim| (claim.name.clone(), claim)).collect(),
        }
    }

    /// The pod or the group with this uid.
    pub(super) fn claimant(&self, uid: &str) -> Option<&Claimant> {
        let mut all = self.pods.iter().chain(&self.groups);
        all.find(|claimant| claimant.uid == uid)
    }

    pub(super) fn group(&self, name: &str) -> Option<&Claimant> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// Who has the claim of this entry, and is it reserved for: the group of a pod, if it has the same entry. `None`
    /// while the group is missing.
    pub(super) fn holder<'a>(&'a self, claimant: &'a Claimant, entry: &Entry) -> Option<&'a Claimant> {
        let Some(group) = &claimant.group else {
            return Some(claimant);
        };
        let group = self.group(group)?;
        Some(if group.entries.contains(entry) {
            group
        } else {
            claimant
        })
    }

    /// Returns whether the claimant with this uid needs its claims.
    pub(super) fn lives(&self, uid: &str) -> bool {
        self.claimant(uid).is_some_and(Claimant::lives)
    }

    /// The pods that ended before their status named their claim: the controller may not know them, and frees the
    /// claim with the pod, or within an hour (RC-15).
    pub(super) fn never_named(&self) -> impl Iterator<Item = &Claimant> {
        let has_claim = |pod: &Claimant| self.claims.values().any(|claim| claim.is_of(&pod.uid));
        let is_known = |pod: &Claimant| !pod.entries.is_empty() || pod.extended.is_some();
        self.pods
            .iter()
            .filter(move |pod| pod.over && !is_known(pod) && has_claim(pod))
    }

    /// The claims that were made for an entry of a pod or a group.
    pub(super) fn made_for<'a>(
        &'a self,
        of: &'a Claimant,
        entry: &'a str,
    ) -> impl Iterator<Item = &'a Claim> {
        let claims = self.claims.values();
        claims.filter(move |claim| claim.is_of(&of.uid) && claim.entry.as_deref() == Some(entry))
    }

    /// The names of the claims that were made for an entry, without those that its claimant does not use and that the
    /// controller could not know of.
    fn known_of<'a>(&'a self, ledger: &Ledger, of: &'a Claimant, entry: &'a str) -> Vec<&'a str> {
        let mut made: Vec<_> = self.made_for(of, entry).map(|claim| &*claim.name).collect();
        if made.len() > 1 {
            let recorded = of.recorded.get(entry);
            made.retain(|name| recorded.is_some_and(|recorded| recorded == name) || !ledger.came_late(name));
        }
        made
    }

    /// Checks what must hold at every moment.
    pub(super) fn is_right(&self, ledger: &Ledger) -> Result<(), String> {
        for claim in self.claims.values() {
            if claim.allocated && !claim.finalizer {
                return Err(format!("{} is allocated and nothing protects it", claim.name));
            }
        }
        let claimants = self.pods.iter().chain(&self.groups);
        for claimant in claimants.filter(|claimant| claimant.lives()) {
            for entry in &claimant.entries {
                let made = self.known_of(ledger, claimant, &entry.name);
                if made.len() > 1 {
                    let (entry, of) = (&entry.name, &claimant.name);
                    return Err(format!("{entry} of {of} has several claims: {made:?}"));
                }
            }
        }
        Ok(())
    }

    /// Checks what must hold once nothing happens any more.
    pub(super) fn is_settled(&self, ledger: &Ledger) -> Result<(), String> {
        let claimants = self.pods.iter().chain(&self.groups);
        for claimant in claimants.filter(|claimant| claimant.lives() && !claimant.deleting) {
            self.has_its_claims(ledger, claimant)
                .map_err(|why| format!("{}: {why}", claimant.name))?;
        }
        for claim in self.claims.values() {
            self.is_not_left(claim)
                .map_err(|why| format!("{}: {why}", claim.name))?;
        }
        Ok(())
    }

    fn has_its_claims(&self, ledger: &Ledger, claimant: &Claimant) -> Result<(), String> {
        for entry in &claimant.entries {
            // Whether a pod had its claim before its group went depends on the controller's delays, and on a node it keeps
            // what it had.
            let Some(holder) = self.holder(claimant, entry) else {
                continue;
            };
            let keeps_old = claimant.bound && ledger.has_lost_its_group(self, claimant);
            if holder.is_group && (holder.deleting || keeps_old) {
                continue;
            }
            let Some(name) = claimant.claim_of(entry) else {
                return Err(format!("{} has no claim", entry.name));
            };
            let Some(claim) = self.claims.get(name) else {
                return Err(format!("{} should be {name}, which is gone", entry.name));
            };
            if entry.users.is_none() {
                let made = self.known_of(ledger, holder, &entry.name);
                if made != [name] {
                    return Err(format!("{} is {name}, and these were made: {made:?}", entry.name));
                }
            }
            let is_reserved = claim.reserved.iter().any(|(_, uid)| *uid == holder.uid);
            if claimant.bound && claim.allocated && !claim.deleting && !is_reserved {
                return Err(format!("{name} is not reserved for {}", holder.name));
            }
        }
        let of_templates = |name: &String| {
            let mut entries = claimant.entries.iter();
            entries.any(|entry| entry.name == *name && entry.users.is_none())
        };
        match claimant.recorded.keys().find(|entry| !of_templates(entry)) {
            Some(entry) => Err(format!("a claim of {entry} is recorded")),
            None => Ok(()),
        }
    }

    fn is_not_left(&self, claim: &Claim) -> Result<(), String> {
        if let Some((name, _)) = claim.reserved.iter().find(|(_, uid)| !self.lives(uid)) {
            return Err(format!("it is still reserved for {name}"));
        }
        if claim.allocated && claim.reserved.is_empty() {
            return Err("it is allocated for nobody".to_owned());
        }
        if claim.finalizer && !claim.allocated {
            return Err("the finalizer is left".to_owned());
        }
        match &claim.owner {
            Some(owner) if !self.lives(&owner.uid) => Err(format!("{} needs it no more", owner.name)),
            _ => Ok(()),
        }
    }
}
