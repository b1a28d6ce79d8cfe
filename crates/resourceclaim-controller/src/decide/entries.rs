//! What to do about the entries of a pod or a `PodGroup` (RC-1, RC-2, RC-5, RC-6, RC-7, RC-17).

use std::sync::Arc;

use controller_core::meta::{ObjectKey, Uid};

use super::reserve::is_reserved_for;
use super::{Claimant, Gates, Group, Known, Names, Reservation, base_name, claim_name, reservation, shares};
use crate::view::{
    ClaimSource, ClaimStatus, ClaimView, ClaimantKind, ClaimantView, Entry, TemplateView, in_namespace_of,
};

/// What the pod or the group says about the claim of an entry (RC-1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The user's own claim has this name.
    Users(Arc<str>),
    /// The claim that was made for the entry has this name.
    Made(Arc<str>),
    /// No claim is needed.
    NotNeeded,
    /// No claim was made yet, or none is recorded.
    NotYet,
    /// The entry names neither a claim nor a template.
    Unknown,
}

/// The result of a live read of the recorded claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveClaim<'a> {
    /// Not read.
    Unasked,
    Found(Option<&'a ClaimView>),
}

/// What to do about an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryVerdict {
    /// No claim is needed.
    NotNeeded,
    /// The user's claim of this name, which the user makes.
    Users(Arc<str>),
    /// The claim of this name exists and is recorded.
    Keep(Arc<str>),
    /// The claim of this name exists, and must be recorded.
    Adopt(Arc<str>),
    /// The claim of this name is recorded, but the cache does not show it as ours: only the API server can tell.
    Ask(Arc<str>),
    /// A claim must be made.
    Create(Create),
    /// The claim is its group's, which has none yet.
    OfGroup,
    /// Nothing can be done.
    Failed(EntryFailure),
}

/// The plan: one claim from a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    /// The kind of the claimant.
    pub kind: ClaimantKind,
    /// The pod or group for which the claim is made.
    pub claimant: ObjectKey,
    pub uid: Uid,
    pub entry: Arc<str>,
    pub template: Arc<TemplateView>,
    pub n: u32,
}

/// Why an entry has no claim.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryFailure {
    /// Its template does not exist; creating it enqueues the pod.
    #[error("ResourceClaimTemplate {0:?} not found")]
    TemplateMissing(Arc<str>),
    /// The pod's group does not exist; creating it enqueues the pod.
    #[error("PodGroup {0:?} not found")]
    GroupMissing(Arc<str>),
    /// RC-17: whether the claim would be the pod's or its group's is unknown.
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

impl EntryFailure {
    /// True if something else must happen first, which will enqueue the pod.
    pub const fn waits(&self) -> bool {
        matches!(
            self,
            Self::TemplateMissing(_) | Self::GroupMissing(_) | Self::GroupsOff(_)
        )
    }
}

/// What is recorded about the claim of `entry`.
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

/// True if `claim` was made for the claimant, or for the group of a pod; the pod knows only the group's name.
pub fn is_for(claimant: &Claimant<'_>, claim: &ClaimView) -> bool {
    let group = match claimant.group {
        Group::None => None,
        Group::Known(group) => Some(&group.key.name),
        Group::Missing(name) | Group::Off(name) => Some(name),
    };
    claim.is_controlled_by(&claimant.view.uid)
        || group.is_some_and(|group| claim.owning_group().is_some_and(|owner| owner.name == *group))
}

/// True if a pod or a group wants claims: it may run, and is not being deleted.
pub fn wants_claims(claimant: &ClaimantView) -> bool {
    !claimant.deleting && !claimant.is_done()
}

/// What to do about `entry`; `seen` is the answer to [`EntryVerdict::Ask`].
pub fn answer(
    claimant: &Claimant<'_>,
    entry: &Entry,
    known: &impl Known,
    gates: Gates,
    seen: LiveClaim<'_>,
) -> EntryVerdict {
    let name = match recorded(claimant, entry) {
        Recorded::Users(name) => return EntryVerdict::Users(name),
        Recorded::NotNeeded => return EntryVerdict::NotNeeded,
        Recorded::Unknown => return EntryVerdict::Failed(EntryFailure::UnknownSource),
        Recorded::NotYet => return make(claimant, entry, None, known, gates),
        Recorded::Made(name) => name,
    };
    let cached;
    let found = match seen {
        LiveClaim::Found(found) => found,
        LiveClaim::Unasked => {
            cached = known.claim(&in_namespace_of(&claimant.view.key, &name));
            cached.as_deref()
        }
    };
    match (found, seen) {
        (Some(claim), _) if is_for(claimant, claim) => EntryVerdict::Keep(name),
        // The kubelet goes by the recorded name: another one would be a claim that the pod does not run with.
        _ if claimant.view.node.is_some() && made_after(claimant, entry, &name, known).is_none() => {
            EntryVerdict::Keep(name)
        }
        // A cache that lags must not lead to a second claim.
        (_, LiveClaim::Unasked) => EntryVerdict::Ask(name),
        (_, LiveClaim::Found(_)) => make(claimant, entry, Some(&name), known, gates),
    }
}

/// Another claim than the recorded one, if any.
fn make(
    claimant: &Claimant<'_>,
    entry: &Entry,
    recorded: Option<&Arc<str>>,
    known: &impl Known,
    gates: Gates,
) -> EntryVerdict {
    let ClaimSource::Template(template) = &entry.source else {
        return EntryVerdict::Failed(EntryFailure::UnknownSource);
    };
    let view = claimant.view;
    let number = recorded.and_then(|name| Names::of(&view.key.name, &view.uid, &entry.name).number(name));
    let made_for = |owner| made_for(owner, claimant, entry, recorded, number, known);
    match claimant.group {
        Group::Missing(group) => return EntryVerdict::Failed(EntryFailure::GroupMissing(Arc::clone(group))),
        Group::Known(group) if shares(group, entry) => {
            return made_for(group).map_or(EntryVerdict::OfGroup, EntryVerdict::Adopt);
        }
        Group::Known(_) | Group::Off(_) | Group::None => {}
    }
    if let Some(name) = made_for(view) {
        return EntryVerdict::Adopt(name);
    }
    if let Group::Off(group) = claimant.group {
        return EntryVerdict::Failed(EntryFailure::GroupsOff(Arc::clone(group)));
    }
    match usable(template, claimant, known, gates) {
        Ok(template) => create(claimant, entry, template, recorded.zip(number), known),
        Err(failure) => EntryVerdict::Failed(failure),
    }
}

/// The claim that was made for the entry of `owner`, except the recorded one (number `number`) and those before it:
/// they are gone, whatever a lagging cache shows. Prefers claims that are not being deleted.
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

/// The last claim made for the entry after the recorded one, which was gone then. Valid only if the record is known to
/// be the latest: else the claim in the cache may have been recorded and deleted since. A pod on a node must have the
/// claim reserved: it runs with that one, and the record is a write that came late.
pub fn made_after(
    claimant: &Claimant<'_>,
    entry: &Entry,
    recorded: &str,
    known: &impl Known,
) -> Option<Arc<str>> {
    let view = claimant.view;
    let names = Names::of(&view.key.name, &view.uid, &entry.name);
    let claims = known.made_for(view, &entry.name);
    let runs_with = |claim: &ClaimView| view.node.is_none() || is_reserved_for(view, claim);
    let stays = { claims.iter() }.filter(|claim| claim.deleting.is_none() && runs_with(claim));
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
) -> Result<Arc<TemplateView>, EntryFailure> {
    let template = known.template(&in_namespace_of(&claimant.view.key, name));
    let template = template.ok_or_else(|| EntryFailure::TemplateMissing(Arc::clone(name)))?;
    match disabled(&template, name, gates) {
        Some(failure) => Err(failure),
        None => Ok(template),
    }
}

/// The first claim with a free name after the recorded one, which has this number; or the claim that was made already.
fn create(
    claimant: &Claimant<'_>,
    entry: &Entry,
    template: Arc<TemplateView>,
    recorded: Option<(&Arc<str>, u32)>,
    known: &impl Known,
) -> EntryVerdict {
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
        // The watch has shown the claim since the entry's claims were looked up.
        if create.is_met_by(&claim) {
            return EntryVerdict::Adopt(Arc::clone(&claim.key.name));
        }
        create.n += 1;
    }
    EntryVerdict::Create(create)
}

/// The disabled feature that the template `name` needs (RC-7).
fn disabled(template: &TemplateView, name: &Arc<str>, gates: Gates) -> Option<EntryFailure> {
    if template.admin_access && !gates.admin_access {
        return Some(EntryFailure::AdminAccessDisabled(Arc::clone(name)));
    }
    let is_off = template.prioritized_list && !gates.prioritized_list;
    is_off.then(|| EntryFailure::PrioritizedListDisabled(Arc::clone(name)))
}

impl Create {
    /// Namespace and name of the claim.
    pub fn claim(&self) -> ObjectKey {
        let name = claim_name(&self.claimant.name, &self.uid, &self.entry, self.n);
        in_namespace_of(&self.claimant, &name.into())
    }

    pub fn generate_name(&self) -> String {
        base_name(&self.claimant.name, &self.entry)
    }

    /// True if the existing claim with this name is the one to be made: created by another process, or by us when the
    /// answer was lost.
    pub fn is_met_by(&self, found: &ClaimView) -> bool {
        found.is_controlled_by(&self.uid) && found.entry.as_ref() == Some(&self.entry)
    }

    /// This claim under the next name, because another object has this one.
    #[must_use]
    pub fn renamed(self) -> Self {
        Self {
            n: self.n.saturating_add(1),
            ..self
        }
    }
}

/// The whole of `status.resourceClaimStatuses`, or `None` if it would not change. `names` are the claims of the entries
/// that have one, in the order of the entries; the records of other entries stay (RC-5).
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

/// True if a sync of the pod (RC-16) or of the group (RC-17) would write or report anything.
pub fn needs_work(claimant: &Claimant<'_>, known: &impl Known, gates: Gates) -> bool {
    any_needs_work(claimant, claimant.view.entries.iter(), known, gates)
}

/// True if a sync would write or report anything about this claim.
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
    let needs = |entry: &Entry| match answer(claimant, entry, known, gates, LiveClaim::Unasked) {
        EntryVerdict::NotNeeded | EntryVerdict::OfGroup => false,
        EntryVerdict::Adopt(_) | EntryVerdict::Ask(_) | EntryVerdict::Create(_) | EntryVerdict::Failed(_) => {
            true
        }
        EntryVerdict::Users(name) | EntryVerdict::Keep(name) => known
            .claim(&in_namespace_of(&view.key, &name))
            .is_some_and(|claim| reservation(claimant, entry, &claim) != Reservation::Nothing),
    };
    let counts = gates.groups.is_on() || view.kind == ClaimantKind::Pod;
    counts && wants_claims(view) && entries.any(needs)
}
