//! What exists and what existed, and what the rules demand, without the controller's own code.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use controller_testing::objects::{each, is_deleting, name, owner_of, text, uid};
use embedded_apiserver::{
    PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RecordedRequest, RequestVerb, Server,
};
use serde_json::Value;

use crate::world::{FINALIZER, claims_of};

const ENTRY: &str = "resource.kubernetes.io/pod-claim-name";
/// How long a finalizer must have been alone before it is removed (RC-11).
const IDLE_FINALIZER_AGE: Duration = Duration::from_mins(5);

#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The claim names that were recorded for the pod with this uid.
    recorded: BTreeMap<String, BTreeSet<String>>,
    /// The specs that each template has had, with their labels and annotations.
    templates: BTreeMap<String, Vec<Value>>,
    /// By uid: the version of a claim, and since when.
    versions: BTreeMap<String, (String, Duration)>,
    /// By uid: when the controller sent the write that takes the last reservation off a claim, until its effect is
    /// seen.
    released: BTreeMap<String, Duration>,
    /// Removed reservations: process, claim and pod.
    taken_off: BTreeSet<(String, String, String)>,
    /// The first violation.
    pub(super) wrong: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Sight {
    pub(super) pods: Vec<Pod>,
    pub(super) claims: BTreeMap<String, Claim>,
}

#[allow(clippy::struct_excessive_bools, reason = "what the rules ask")]
#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) name: String,
    pub(super) uid: String,
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

#[derive(Clone, Debug)]
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
    /// The pod that controls the claim, by name and uid.
    pub(super) owner: Option<(String, String)>,
    pub(super) entry: Option<String>,
    /// By name and uid.
    pub(super) reserved: Vec<(String, String)>,
    pub(super) finalizer: bool,
    pub(super) allocated: bool,
    pub(super) deleting: bool,
}

impl Pod {
    pub(super) fn of(pod: &Value) -> Self {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let some = |value: &Value| value.as_str().map(ToOwned::to_owned);
        let entries = each(&spec["resourceClaims"]).map(|entry| Entry {
            name: text(&entry["name"]),
            users: some(&entry["resourceClaimName"]),
            template: some(&entry["resourceClaimTemplateName"]),
        });
        Self {
            name: name(pod),
            uid: uid(pod),
            bound: spec["nodeName"].is_string(),
            deleting: is_deleting(pod),
            over: matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")),
            entries: entries.collect(),
            recorded: claims_of(pod),
            extended: some(&status["extendedResourceClaimStatus"]["resourceClaimName"]),
            asks_extended: !spec["containers"][0]["resources"]["limits"].is_null(),
        }
    }

    /// Returns whether the pod needs its claims, or will (RC-10).
    pub(super) const fn lives(&self) -> bool {
        !self.over && (!self.deleting || self.bound)
    }

    /// The name of the claim of one of its entries.
    pub(super) fn claim_of<'a>(&'a self, entry: &'a Entry) -> Option<&'a str> {
        let recorded = self.recorded.get(&entry.name);
        entry.users.as_ref().or(recorded).map(String::as_str)
    }
}

impl Claim {
    pub(super) fn of(claim: &Value) -> Self {
        let (metadata, status) = (&claim["metadata"], &claim["status"]);
        let pair = |value: &Value| (text(&value["name"]), text(&value["uid"]));
        Self {
            name: name(claim),
            uid: uid(claim),
            version: text(&metadata["resourceVersion"]),
            owner: owner_of(claim).map(pair),
            entry: metadata["annotations"][ENTRY].as_str().map(ToOwned::to_owned),
            reserved: each(&status["reservedFor"]).map(pair).collect(),
            finalizer: each(&metadata["finalizers"]).any(|finalizer| finalizer == FINALIZER),
            allocated: status["allocation"].is_object(),
            deleting: is_deleting(claim),
        }
    }

    /// Returns whether the pod with this uid controls the claim.
    pub(super) fn is_of(&self, pod: &str) -> bool {
        self.owner.as_ref().is_some_and(|(_, uid)| uid == pod)
    }
}

impl Sight {
    pub(super) fn of(server: &Server) -> Self {
        let claims = server.list(&RESOURCE_CLAIMS);
        let claims = claims.iter().map(Claim::of);
        Self {
            pods: server.list(&PODS).iter().map(Pod::of).collect(),
            claims: claims.map(|claim| (claim.name.clone(), claim)).collect(),
        }
    }

    pub(super) fn pod(&self, uid: &str) -> Option<&Pod> {
        self.pods.iter().find(|pod| pod.uid == uid)
    }

    /// Returns whether the pod with this uid needs its claims.
    pub(super) fn lives(&self, uid: &str) -> bool {
        self.pod(uid).is_some_and(Pod::lives)
    }

    /// The pods that ended before their status named their claim: the controller may not know them, and frees the
    /// claim with the pod, or within an hour (RC-15).
    pub(super) fn never_named(&self) -> impl Iterator<Item = &Pod> {
        let has_claim = |pod: &Pod| self.claims.values().any(|claim| claim.is_of(&pod.uid));
        let is_known = |pod: &Pod| !pod.entries.is_empty() || pod.extended.is_some();
        self.pods
            .iter()
            .filter(move |pod| pod.over && !is_known(pod) && has_claim(pod))
    }

    /// The claims that were made for an entry of a pod.
    pub(super) fn made_for<'a>(&'a self, pod: &'a Pod, entry: &'a str) -> impl Iterator<Item = &'a Claim> {
        let claims = self.claims.values();
        claims.filter(move |claim| claim.is_of(&pod.uid) && claim.entry.as_deref() == Some(entry))
    }

    /// The names of the claims that were made for an entry of a pod, without those that its pod does not use and that
    /// the controller could not know of.
    fn known_of<'a>(&'a self, server: &Server, pod: &'a Pod, entry: &'a str) -> Vec<&'a str> {
        let mut made: Vec<_> = self.made_for(pod, entry).map(|claim| &*claim.name).collect();
        if made.len() > 1 {
            let recorded = pod.recorded.get(entry);
            made.retain(|name| recorded.is_some_and(|recorded| recorded == name) || !came_late(server, name));
        }
        made
    }

    /// Checks what must hold at every moment.
    fn is_right(&self, server: &Server) -> Result<(), String> {
        for claim in self.claims.values() {
            if claim.allocated && !claim.finalizer {
                return Err(format!("{} is allocated and nothing protects it", claim.name));
            }
        }
        for pod in self.pods.iter().filter(|pod| pod.lives()) {
            for entry in &pod.entries {
                let made = self.known_of(server, pod, &entry.name);
                if made.len() > 1 {
                    return Err(format!(
                        "{} of {} has several claims: {made:?}",
                        entry.name, pod.name
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks what must hold once nothing happens any more.
    pub(super) fn is_settled(&self, server: &Server) -> Result<(), String> {
        for pod in self.pods.iter().filter(|pod| pod.lives() && !pod.deleting) {
            self.has_its_claims(server, pod)
                .map_err(|why| format!("{}: {why}", pod.name))?;
        }
        for claim in self.claims.values() {
            self.is_not_left(claim)
                .map_err(|why| format!("{}: {why}", claim.name))?;
        }
        Ok(())
    }

    fn has_its_claims(&self, server: &Server, pod: &Pod) -> Result<(), String> {
        for entry in &pod.entries {
            let Some(name) = pod.claim_of(entry) else {
                return Err(format!("{} has no claim", entry.name));
            };
            let Some(claim) = self.claims.get(name) else {
                return Err(format!("{} should be {name}, which is gone", entry.name));
            };
            if entry.users.is_none() {
                let made = self.known_of(server, pod, &entry.name);
                if made != [name] {
                    return Err(format!("{} is {name}, and these were made: {made:?}", entry.name));
                }
            }
            let is_reserved = claim.reserved.iter().any(|(_, uid)| *uid == pod.uid);
            if pod.bound && claim.allocated && !claim.deleting && !is_reserved {
                return Err(format!("{name} is not reserved for it"));
            }
        }
        let of_templates = pod.entries.iter().filter(|entry| entry.users.is_none()).count();
        if pod.recorded.len() != of_templates {
            return Err(format!("{:?} is recorded", pod.recorded));
        }
        Ok(())
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
        if let Some((name, uid)) = &claim.owner
            && !self.lives(uid)
        {
            return Err(format!("{name} needs it no more"));
        }
        Ok(())
    }
}

/// Returns whether the claim of this name was created again while a create that the controller had given up could still
/// take effect.
fn came_late(server: &Server, name: &str) -> bool {
    let creates = server.requests_where(|request| {
        request.verb == RequestVerb::Create
            && request.resource == "resourceclaims"
            && request.body["metadata"]["name"] == name
    });
    let is_given_up = |create: &RecordedRequest| create.served.is_some() && create.code.is_none();
    creates.iter().any(is_given_up) && creates.iter().any(|create| create.code == Some(201))
}

impl Ledger {
    /// Takes in the current state.
    pub(super) fn look(&mut self, server: &Server) -> Sight {
        let sight = Sight::of(server);
        for pod in &sight.pods {
            let recorded = self.recorded.entry(pod.uid.clone()).or_default();
            recorded.extend(pod.recorded.values().cloned());
        }
        for template in server.list(&RESOURCE_CLAIM_TEMPLATES) {
            let specs = self.templates.entry(name(&template)).or_default();
            if !specs.contains(&template["spec"]) {
                specs.push(template["spec"].clone());
            }
        }
        for claim in sight.claims.values() {
            let now = || (claim.version.clone(), server.elapsed());
            let seen = self.versions.entry(claim.uid.clone()).or_insert_with(now);
            if seen.0 != claim.version {
                let released = self.released.remove(&claim.uid);
                let released = released.filter(|_| claim.reserved.is_empty());
                *seen = (
                    claim.version.clone(),
                    released.unwrap_or_else(|| server.elapsed()),
                );
            }
        }
        if let Err(wrong) = sight.is_right(server) {
            self.wrong.get_or_insert(wrong);
        }
        sight
    }

    /// Somebody drops the record of this claim, so that nobody who has not seen it can know of it.
    pub(super) fn forgets(&mut self, pod: &str, claim: &str) {
        self.recorded.entry(pod.to_owned()).or_default().remove(claim);
    }

    /// Returns whether the pod with this uid ever had a claim of this name recorded.
    pub(super) fn was_recorded(&self, pod: &str, claim: &str) -> bool {
        self.recorded
            .get(pod)
            .is_some_and(|recorded| recorded.contains(claim))
    }

    /// Returns whether a template has ever described this claim.
    pub(super) fn is_of_template(&self, template: &str, claim: &Value) -> bool {
        let specs = self.templates.get(template);
        specs.into_iter().flatten().any(|spec| {
            let mut annotations = claim["metadata"]["annotations"].clone();
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.remove(ENTRY);
            }
            spec["spec"] == claim["spec"]
                && spec["metadata"]["labels"] == claim["metadata"]["labels"]
                && spec["metadata"]["annotations"] == annotations
        })
    }

    /// The controller takes the last reservation off the claim.
    pub(super) fn releases(&mut self, claim: &Claim, now: Duration) {
        self.released.insert(claim.uid.clone(), now);
    }

    /// The process takes the pod's reservation off the claim.
    pub(super) fn takes_off(&mut self, process: &str, claim: &Claim, pod: &str) {
        self.taken_off
            .insert((process.to_owned(), claim.uid.clone(), pod.to_owned()));
    }

    /// Returns whether the process has seen that the pod no longer needs the claim.
    pub(super) fn has_taken_off(&self, process: &str, claim: &Claim, pod: &str) -> bool {
        let pair = (process.to_owned(), claim.uid.clone(), pod.to_owned());
        self.taken_off.contains(&pair)
    }

    /// Returns whether a finalizer without an allocation may be removed now.
    pub(super) fn may_lose_its_finalizer(&self, claim: &Claim, now: Duration) -> bool {
        let unchanged = self
            .versions
            .get(&claim.uid)
            .map(|(_, since)| now.saturating_sub(*since));
        claim.deleting || unchanged.is_some_and(|unchanged| unchanged >= IDLE_FINALIZER_AGE)
    }
}
