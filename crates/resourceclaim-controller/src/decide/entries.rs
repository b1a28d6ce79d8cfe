//! What becomes of the entries of a pod or a `PodGroup` (RC-1, RC-2, RC-5, RC-6, RC-7, RC-17).

use std::sync::Arc;

use controller_core::meta::{ObjectKey, Uid};

use super::{Claimant, Gates, Group, Known, Names, Reservation, base_name, claim_name, reservation, shares};
use crate::view::{
    ClaimSource, ClaimStatus, ClaimView, ClaimantKind, ClaimantView, Entry, TemplateView, beside,
};

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
    pub uid: Uid,
    /// For which entry of it.
    pub entry: Arc<str>,
    pub template: Arc<TemplateView>,
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
    /// RC-17: whether the claim would be the pod's or its group's is not known.
    #[error(
        "nothing is made for a pod of PodGroup {0:?}: the API server serves PodGroups, and \
         DRAWorkloadResourceClaims is off"
    )]
    GroupsOff(Arc<str>),
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
        matches!(
            self,
            Self::TemplateMissing(_) | Self::GroupMissing(_) | Self::GroupsOff(_)
        )
    }
}

/// What `entry` says of its claim.
pub fn recorded(claimant: &Claimant<'_>, entry: &Entry) -> Recorded {
    match &entry.source {
        ClaimSource::Claim(name) => Recorded::Users(Arc::clone(name)),
        ClaimSource::Unknown => Recorded::Unknown,
        ClaimSource::Template(_) => match claimant.view.status(&entry.name) {
            None => Recorded::NotYet,
            Some(ClaimStatus { claim: None, .. }) => Recorded::NotNeeded,
            Some(ClaimStatus {
                claim: Some(name), ..
            }) => Recorded::Made(Arc::clone(name)),
        },
    }
}

/// Whether `claim` was made for the claimant, or for the group of a pod, of which the pod knows the name alone.
pub fn is_for(claimant: &Claimant<'_>, claim: &ClaimView) -> bool {
    let group = match claimant.group {
        Group::None => None,
        Group::Known(group) => Some(&group.key.name),
        Group::Missing(name) | Group::Off(name) => Some(name),
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
    // Its kubelet goes by what is recorded: another name would tell it of a claim that the pod does not run with.
    if claimant.view.node.is_some() {
        return Answer::Keep(name);
    }
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
    let ClaimSource::Template(template) = &entry.source else {
        return Answer::Failed(Failure::UnknownSource);
    };
    let view = claimant.view;
    let number = recorded.and_then(|name| Names::of(&view.key.name, &view.uid, &entry.name).number(name));
    let made_for = |owner| made_for(owner, claimant, entry, recorded, number, known);
    match claimant.group {
        Group::Missing(group) => return Answer::Failed(Failure::GroupMissing(Arc::clone(group))),
        Group::Known(group) if shares(group, entry) => {
            return made_for(group).map_or(Answer::OfGroup, Answer::Adopt);
        }
        Group::Known(_) | Group::Off(_) | Group::None => {}
    }
    if let Some(name) = made_for(view) {
        return Answer::Adopt(name);
    }
    if let Group::Off(group) = claimant.group {
        return Answer::Failed(Failure::GroupsOff(Arc::clone(group)));
    }
    match usable(template, claimant, known, gates) {
        Ok(template) => create(claimant, entry, template, recorded.zip(number), known),
        Err(failure) => Answer::Failed(failure),
    }
}

/// The claim that was made for the entry of `owner`, and is neither the one that is recorded, the `number`th, nor one
/// before it: those are gone, whatever a cache that lags behind shows. One that stays rather than one that goes.
fn made_for(
    owner: &ClaimantView,
    claimant: &Claimant<'_>,
    entry: &Entry,
    recorded: Option<&Arc<str>>,
    number: Option<u32>,
    known: &impl Known,
) -> Option<Arc<str>> {
    let mut claims = known.made_for(owner, &entry.name);
    claims.retain(|claim| Some(&claim.key.name) != recorded);
    if let Some(number) = number.filter(|_| !claims.is_empty()) {
        let view = claimant.view;
        let before = Names::of(&view.key.name, &view.uid, &entry.name).first(number);
        claims.retain(|claim| !before.contains(&claim.key.name));
    }
    let first = claims.iter().min_by_key(|claim| claim.deleting.is_some());
    first.map(|claim| Arc::clone(&claim.key.name))
}

/// The last claim that was made for the entry after the one that is recorded, which was gone then. Only where what is
/// recorded is known to be the last that was: the cache may show a claim that was recorded, and is gone, since.
pub fn made_after(
    claimant: &Claimant<'_>,
    entry: &Entry,
    recorded: &str,
    known: &impl Known,
) -> Option<Arc<str>> {
    let view = claimant.view;
    let names = Names::of(&view.key.name, &view.uid, &entry.name);
    let claims = known.made_for(view, &entry.name);
    let stays = claims.iter().filter(|claim| claim.deleting.is_none());
    let after = stays.filter_map(|claim| Some((names.number(&claim.key.name)?, &claim.key.name)));
    let (number, name) = after.max()?;
    (number > names.number(recorded)?).then(|| Arc::clone(name))
}

/// The template of this name, if a claim may be made from it.
fn usable(
    name: &Arc<str>,
    claimant: &Claimant<'_>,
    known: &impl Known,
    gates: Gates,
) -> Result<Arc<TemplateView>, Failure> {
    let template = known.template(&beside(&claimant.view.key, name));
    let template = template.ok_or_else(|| Failure::TemplateMissing(Arc::clone(name)))?;
    match disabled(&template, name, gates) {
        Some(failure) => Err(failure),
        None => Ok(template),
    }
}

/// The first claim after the recorded one, which has this number, whose name is free; or the one that has it already.
fn create(
    claimant: &Claimant<'_>,
    entry: &Entry,
    template: Arc<TemplateView>,
    recorded: Option<(&Arc<str>, u32)>,
    known: &impl Known,
) -> Answer {
    let mut create = Create {
        kind: claimant.view.kind,
        claimant: claimant.view.key.clone(),
        uid: claimant.view.uid.clone(),
        entry: Arc::clone(&entry.name),
        template,
        n: 0,
    };
    if let Some((recorded, number)) = recorded {
        create.n = number + 1;
        // Two numbers may have one name.
        while create.claim().name == *recorded {
            create.n += 1;
        }
    }
    while let Some(claim) = known.claim(&create.claim()) {
        // The watch has shown it since the look at the claims of the entry.
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

/// The whole of `status.resourceClaimStatuses`, if it says something else of an entry: `names` are the claims of the
/// entries that have one, in the order of the entries, and what is recorded of the others stays (RC-5).
pub fn statuses(claimant: &Claimant<'_>, names: &[(Arc<str>, Arc<str>)]) -> Option<Vec<ClaimStatus>> {
    let of_template = |entry: &&Entry| matches!(entry.source, ClaimSource::Template(_));
    let view = claimant.view;
    let mut differs = false;
    let wanted = view.entries.iter().filter(of_template).filter_map(|entry| {
        let held = view.status(&entry.name);
        let made = names.binary_search_by(|(of, _)| of.cmp(&entry.name));
        let Some((_, name)) = made.ok().and_then(|at| names.get(at)) else {
            return held.cloned();
        };
        let wanted = ClaimStatus {
            entry: Arc::clone(&entry.name),
            claim: Some(Arc::clone(name)),
        };
        differs |= held != Some(&wanted);
        Some(wanted)
    });
    let wanted: Vec<_> = wanted.collect();
    differs.then_some(wanted)
}

/// Whether a sync of the pod (RC-16) or of the group (RC-17) would do or tell anything.
pub fn needs_work(claimant: &Claimant<'_>, known: &impl Known, gates: Gates) -> bool {
    any_needs_work(claimant, claimant.view.entries.iter(), known, gates)
}

/// Whether it would do or tell anything about this claim.
pub fn needs_work_on(claimant: &Claimant<'_>, claim: &ClaimView, known: &impl Known, gates: Gates) -> bool {
    any_needs_work(claimant, claimant.view.entries_of(claim), known, gates)
}

fn any_needs_work<'a>(
    claimant: &Claimant<'_>,
    mut entries: impl Iterator<Item = &'a Entry>,
    known: &impl Known,
    gates: Gates,
) -> bool {
    let view = claimant.view;
    let needs = |entry: &Entry| match answer(claimant, entry, known, gates, Seen::Unasked) {
        Answer::NotNeeded | Answer::OfGroup => false,
        Answer::Adopt(_) | Answer::Ask(_) | Answer::Create(_) | Answer::Failed(_) => true,
        Answer::Users(name) | Answer::Keep(name) => known
            .claim(&beside(&view.key, &name))
            .is_some_and(|claim| reservation(claimant, entry, &claim) != Reservation::Nothing),
    };
    let counts = gates.groups.is_on() || view.kind == ClaimantKind::Pod;
    counts && wants_claims(view) && entries.any(needs)
}
