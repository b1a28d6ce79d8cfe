//! What becomes of the entries of a pod or a `PodGroup` (RC-1, RC-2, RC-5, RC-6, RC-7, RC-17).

use std::sync::Arc;

use controller_core::meta::{ObjectKey, Uid};

use super::{Claimant, Gates, Group, Known, Reservation, base_name, claim_name, reservation, shares};
use crate::view::{
    ClaimSource, ClaimStatus, ClaimView, ClaimantKind, ClaimantView, Entry, TemplateView, beside,
};

/// How many names of an entry are tried to find the one that is recorded.
const NAMES_TRIED: u32 = 10_000;

/// What an entry says of its claim (RC-1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The user's own claim has this name.
    Users(Arc<str>),
    /// The claim that was made for it has this name.
    Made(Arc<str>),
    /// No claim is needed.
    NotNeeded,
    /// No claim was made yet, or none is recorded.
    NotYet,
    /// It names neither a claim nor a template.
    Unknown,
}

/// What a live read of the recorded claim has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen<'a> {
    /// It was not asked for.
    Unasked,
    /// This.
    Found(Option<&'a ClaimView>),
}

/// What becomes of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// No claim is needed.
    NotNeeded,
    /// The user's claim of this name, which the user makes.
    Users(Arc<str>),
    /// The claim of this name is there and recorded.
    Keep(Arc<str>),
    /// The claim of this name is there, and to be recorded.
    Adopt(Arc<str>),
    /// The claim of this name is recorded, and the cache does not show it as ours: only the API server can tell.
    Ask(Arc<str>),
    /// A claim is to be made.
    Create(Create),
    /// The claim is its group's, which has none yet.
    OfGroup,
    /// Nothing can be done.
    Failed(Failure),
}

/// The plan: one claim from a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    /// For what kind of object.
    pub kind: ClaimantKind,
    /// Its namespace and name.
    pub claimant: ObjectKey,
    /// Its uid.
    pub uid: Uid,
    /// For which entry of it.
    pub entry: Arc<str>,
    /// From what.
    pub template: Arc<TemplateView>,
    /// The how manieth.
    pub n: u32,
}

/// Why an entry has no claim.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Its template is not there; its creation wakes the pod.
    #[error("ResourceClaimTemplate {0:?} not found")]
    TemplateMissing(Arc<str>),
    /// The pod's group is not there; its creation wakes the pod.
    #[error("PodGroup {0:?} not found")]
    GroupMissing(Arc<str>),
    /// RC-7.
    #[error("ResourceClaimTemplate {0:?} asks for admin access, but the feature is disabled")]
    AdminAccessDisabled(Arc<str>),
    /// RC-7.
    #[error(
        "ResourceClaimTemplate {0:?} includes a prioritized list of subrequests, but the feature is disabled"
    )]
    PrioritizedListDisabled(Arc<str>),
    /// RC-1.
    #[error("none of the supported fields are set")]
    UnknownSource,
}

impl Failure {
    /// Whether something else has to happen first, which will wake who waits.
    pub const fn waits(&self) -> bool {
        matches!(self, Self::TemplateMissing(_) | Self::GroupMissing(_))
    }
}

/// What `entry` says of its claim.
pub fn recorded(claimant: &Claimant<'_>, entry: &Entry) -> Recorded {
    match &entry.source {
        ClaimSource::Claim(name) => Recorded::Users(Arc::clone(name)),
        ClaimSource::Unknown => Recorded::Unknown,
        ClaimSource::Template(_) => {
            let mut statuses = claimant.view.statuses.iter();
            match statuses.find(|status| status.entry == entry.name) {
                None => Recorded::NotYet,
                Some(ClaimStatus { claim: None, .. }) => Recorded::NotNeeded,
                Some(ClaimStatus {
                    claim: Some(name), ..
                }) => Recorded::Made(Arc::clone(name)),
            }
        }
    }
}

/// Whether `claim` was made for the claimant, or for the group of a pod, of which the pod knows the name alone.
pub fn is_for(claimant: &Claimant<'_>, claim: &ClaimView) -> bool {
    let group = match claimant.group {
        Group::None => None,
        Group::Known(group) => Some(&group.key.name),
        Group::Missing(name) => Some(name),
    };
    claim.is_controlled_by(&claimant.view.uid)
        || group.is_some_and(|group| claim.owning_group().is_some_and(|owner| owner.name == *group))
}

/// Whether a pod or a group wants claims: it may run, and is not on its way out.
pub fn wants_claims(claimant: &ClaimantView) -> bool {
    !claimant.deleting && !claimant.is_done()
}

/// What becomes of `entry`; `seen` once [`Answer::Ask`] was answered.
pub fn answer(
    claimant: &Claimant<'_>,
    entry: &Entry,
    known: &impl Known,
    gates: Gates,
    seen: Seen<'_>,
) -> Answer {
    let name = match recorded(claimant, entry) {
        Recorded::Users(name) => return Answer::Users(name),
        Recorded::NotNeeded => return Answer::NotNeeded,
        Recorded::Unknown => return Answer::Failed(Failure::UnknownSource),
        Recorded::NotYet => return make(claimant, entry, None, known, gates),
        Recorded::Made(name) => name,
    };
    let cached;
    let found = match seen {
        Seen::Found(found) => found,
        Seen::Unasked => {
            cached = known.claim(&beside(&claimant.view.key, &name));
            cached.as_deref()
        }
    };
    match (found, seen) {
        (Some(claim), _) if is_for(claimant, claim) => Answer::Keep(name),
        // A cache that lags must not lead to a second claim.
        (_, Seen::Unasked) => Answer::Ask(name),
        (_, Seen::Found(_)) => make(claimant, entry, Some(&name), known, gates),
    }
}

/// Another claim than the one that is recorded, if any.
fn make(
    claimant: &Claimant<'_>,
    entry: &Entry,
    recorded: Option<&Arc<str>>,
    known: &impl Known,
    gates: Gates,
) -> Answer {
    let ClaimSource::Template(name) = &entry.source else {
        return Answer::Failed(Failure::UnknownSource);
    };
    // The claims before the one that is recorded are gone, whatever a cache that lags behind shows.
    let number = recorded.and_then(|recorded| number_of(claimant, entry, recorded));
    let is_of_before = |name: &str| (0..number.unwrap_or(0)).any(|n| name_of(claimant, entry, n) == name);
    let made_for = |owner: &ClaimantView| {
        let claims = known.controlled_by(&owner.uid);
        // An owner reference may go with the uid of an object of another kind or namespace.
        let is_ours = |claim: &&Arc<ClaimView>| {
            claim.entry.as_ref() == Some(&entry.name)
                && claim.is_made_for(owner.kind)
                && claim.key.namespace == owner.key.namespace
        };
        let others = claims.iter().filter(is_ours);
        let others = others.filter(|claim| Some(&claim.key.name) != recorded);
        let mut ours: Vec<_> = others.filter(|claim| !is_of_before(&claim.key.name)).collect();
        // One that stays rather than one that goes.
        ours.sort_by_key(|claim| claim.deleting.is_some());
        ours.first().map(|claim| Arc::clone(&claim.key.name))
    };
    match claimant.group {
        Group::Missing(group) => return Answer::Failed(Failure::GroupMissing(Arc::clone(group))),
        Group::Known(group) if shares(group, entry) => {
            return made_for(group).map_or(Answer::OfGroup, Answer::Adopt);
        }
        Group::Known(_) | Group::None => {}
    }
    if let Some(name) = made_for(claimant.view) {
        return Answer::Adopt(name);
    }
    let Some(template) = known.template(&beside(&claimant.view.key, name)) else {
        return Answer::Failed(Failure::TemplateMissing(Arc::clone(name)));
    };
    if let Some(failure) = disabled(&template, name, gates) {
        return Answer::Failed(failure);
    }
    let mut create = Create {
        kind: claimant.view.kind,
        claimant: claimant.view.key.clone(),
        uid: claimant.view.uid.clone(),
        entry: Arc::clone(&entry.name),
        template,
        n: 0,
    };
    // Two numbers may have one name.
    if let Some((recorded, number)) = recorded.zip(number) {
        create.n = number + 1;
        while name_of(claimant, entry, create.n) == **recorded {
            create.n += 1;
        }
    }
    while let Some(claim) = known.claim(&create.claim()) {
        // The watch has shown it since the look at all claims of the claimant.
        if create.is_met_by(&claim) {
            return Answer::Adopt(Arc::clone(&claim.key.name));
        }
        create.n += 1;
    }
    Answer::Create(create)
}

/// What the template `name` asks for that is switched off (RC-7).
fn disabled(template: &TemplateView, name: &Arc<str>, gates: Gates) -> Option<Failure> {
    if template.admin_access && !gates.admin_access {
        return Some(Failure::AdminAccessDisabled(Arc::clone(name)));
    }
    let is_off = template.prioritized_list && !gates.prioritized_list;
    is_off.then(|| Failure::PrioritizedListDisabled(Arc::clone(name)))
}

impl Create {
    /// Namespace and name of the claim.
    pub fn claim(&self) -> ObjectKey {
        let name = claim_name(&self.claimant.name, &self.uid, &self.entry, self.n);
        beside(&self.claimant, &name.into())
    }

    /// Its `generateName`.
    pub fn generate_name(&self) -> String {
        base_name(&self.claimant.name, &self.entry)
    }

    /// Whether the claim that has its name already is the one that was to be made: another process, or an answer that
    /// was lost.
    pub fn is_met_by(&self, found: &ClaimView) -> bool {
        found.is_controlled_by(&self.uid) && found.entry.as_ref() == Some(&self.entry)
    }

    /// The same claim under the next name, for another has this one.
    #[must_use]
    pub fn renamed(self) -> Self {
        Self {
            n: self.n.saturating_add(1),
            ..self
        }
    }
}

fn name_of(claimant: &Claimant<'_>, entry: &Entry, n: u32) -> String {
    claim_name(&claimant.view.key.name, &claimant.view.uid, &entry.name, n)
}

/// The how manieth claim of the entry has this name; none if it is none of our names.
fn number_of(claimant: &Claimant<'_>, entry: &Entry, name: &str) -> Option<u32> {
    let is_ours = name.starts_with(&base_name(&claimant.view.key.name, &entry.name));
    let mut numbers = 0..if is_ours { NAMES_TRIED } else { 0 };
    numbers.find(|n| name_of(claimant, entry, *n) == name)
}

/// The whole of `status.resourceClaimStatuses`, if it says something else of an entry: `names` are the claims of the
/// entries that have one, and what is recorded of the others stays (RC-5).
pub fn statuses(claimant: &Claimant<'_>, names: &[(Arc<str>, Arc<str>)]) -> Option<Vec<ClaimStatus>> {
    let of_template = |entry: &&Entry| matches!(entry.source, ClaimSource::Template(_));
    let view = claimant.view;
    let wanted = view.entries.iter().filter(of_template).filter_map(|entry| {
        let held = view.statuses.iter().find(|status| status.entry == entry.name);
        let made = names.iter().find(|(of, _)| *of == entry.name);
        match made {
            Some((_, name)) => Some(ClaimStatus {
                entry: Arc::clone(&entry.name),
                claim: Some(Arc::clone(name)),
            }),
            None => held.cloned(),
        }
    });
    let wanted: Vec<_> = wanted.collect();
    let differs = wanted.iter().any(|status| !view.statuses.contains(status));
    differs.then_some(wanted)
}

/// Whether a sync of the pod (RC-16) or of the group (RC-17) would do or tell anything.
pub fn needs_work(claimant: &Claimant<'_>, known: &impl Known, gates: Gates) -> bool {
    let view = claimant.view;
    let needs = |entry: &Entry| match answer(claimant, entry, known, gates, Seen::Unasked) {
        Answer::NotNeeded | Answer::OfGroup => false,
        Answer::Adopt(_) | Answer::Ask(_) | Answer::Create(_) | Answer::Failed(_) => true,
        Answer::Users(name) | Answer::Keep(name) => known
            .claim(&beside(&view.key, &name))
            .is_some_and(|claim| reservation(claimant, entry, &claim, gates) != Reservation::Nothing),
    };
    let counts = gates.workload_claims || view.kind == ClaimantKind::Pod;
    counts && wants_claims(view) && view.entries.iter().any(needs)
}
