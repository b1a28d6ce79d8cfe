//! The explanation in words.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use controller_core::meta::Uid;

use super::Found;
use crate::decide::{
    ClaimPlan, Claimant, EntryVerdict, Evidence, IDLE_FINALIZER_AGE, Known, LiveClaim, Next, Ownership,
    RESERVED_FOR_MAX_SIZE, Recorded, Reservation, Standing, answer, group_of, next_step, owner, recorded,
    reservation, standing, wants_claims,
};
use crate::view::{ClaimOrigin, ClaimSource, ClaimView, ClaimantView, Consumer, Entry, in_namespace_of};

/// Most users of a claim that are listed.
const TOLD: usize = 20;

/// A pod and its claims.
pub(super) struct Pod<'a>(pub(super) &'a Found<'a>, pub(super) &'a ClaimantView);

/// A claim and its users.
pub(super) struct Claim<'a>(pub(super) &'a Found<'a>, pub(super) &'a ClaimView);

impl fmt::Display for Pod<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(found, pod) = self;
        let place = match &pod.node {
            Some(node) => format!("on node {node}"),
            None => "on no node yet".to_owned(),
        };
        writeln!(f, "Pod {}, {place}", pod.key)?;
        if pod.entries.is_empty() && pod.extended.is_none() {
            return writeln!(f, "uses no ResourceClaims");
        }
        if !wants_claims(pod) {
            let why = if pod.over {
                "it has finished"
            } else if pod.is_done() {
                "it was deleted before it was scheduled"
            } else {
                "it is being deleted, and keeps what it has until it is gone"
            };
            writeln!(f, "gets no claims and no reservations any more: {why}")?;
        }
        for entry in pod.entries.iter() {
            self.write_entry(f, entry)?;
        }
        if let Some(name) = &pod.extended {
            writeln!(
                f,
                "extended resources: ResourceClaim {name}, made by the scheduler"
            )?;
            if let Some(claim) = found.claim(&in_namespace_of(&pod.key, name)) {
                writeln!(f, "  {}", State(&claim))?;
            }
        }
        if pod.is_done() {
            for name in pod.claims() {
                if let Some(claim) = found.claim(&in_namespace_of(&pod.key, &name)) {
                    write!(f, "{}", Claim(found, &claim))?;
                }
            }
        }
        Ok(())
    }
}

impl Pod<'_> {
    fn write_entry(&self, f: &mut fmt::Formatter<'_>, entry: &Entry) -> fmt::Result {
        let Self(found, pod) = self;
        let claimant = Claimant {
            view: pod,
            group: group_of(pod, found.group, found.gates),
        };
        let source = match &entry.source {
            ClaimSource::Claim(name) => format!("ResourceClaim {name}"),
            ClaimSource::Template(name) => format!("a claim from ResourceClaimTemplate {name}"),
            ClaimSource::Unknown => "a claim of a kind that is not known".to_owned(),
        };
        writeln!(f, "{}: {source}", entry.name)?;
        let noted = match recorded(&claimant, entry) {
            Recorded::Made(name) => Some(name),
            _ => None,
        };
        let seen = noted
            .as_ref()
            .and_then(|name| found.claim(&in_namespace_of(&pod.key, name)));
        let answer = answer(
            &claimant,
            entry,
            *found,
            found.gates,
            LiveClaim::Found(seen.as_deref()),
        );
        if let (Some(name), EntryVerdict::Keep(_), None) = (&noted, &answer, &seen) {
            return writeln!(
                f,
                "  {name} is gone, and stays recorded: the kubelet goes by its name"
            );
        }
        if let (Some(name), false) = (&noted, matches!(answer, EntryVerdict::Keep(_))) {
            let why = if seen.is_some() {
                "belongs to another"
            } else {
                "is gone"
            };
            writeln!(f, "  {name}, which its status names, {why}")?;
        }
        let name = match answer {
            EntryVerdict::NotNeeded => return writeln!(f, "  its status says that it needs none"),
            EntryVerdict::OfGroup => {
                return writeln!(f, "  its PodGroup has the same entry, and no claim for it yet");
            }
            EntryVerdict::Failed(failure) => return writeln!(f, "  no claim can be made: {failure}"),
            EntryVerdict::Create(create) if wants_claims(pod) => {
                return writeln!(f, "  to be made: {}", create.claim().name);
            }
            EntryVerdict::Create(_) => return writeln!(f, "  has none"),
            EntryVerdict::Adopt(name) => {
                writeln!(f, "  {name} was made for it, and is to be recorded in its status")?;
                name
            }
            EntryVerdict::Users(name) | EntryVerdict::Keep(name) | EntryVerdict::Ask(name) => name,
        };
        self.write_claim(f, &claimant, entry, &name)
    }

    /// Writes the claim of this name, and whether it must be reserved.
    fn write_claim(
        &self,
        f: &mut fmt::Formatter<'_>,
        claimant: &Claimant<'_>,
        entry: &Entry,
        name: &Arc<str>,
    ) -> fmt::Result {
        let Self(found, pod) = self;
        let Some(claim) = found.claim(&in_namespace_of(&pod.key, name)) else {
            return writeln!(f, "  {name} is not there; its user has to make it");
        };
        writeln!(f, "  {name}: {}", State(&claim))?;
        match reservation(claimant, entry, &claim) {
            Reservation::Nothing => Ok(()),
            Reservation::Full => writeln!(
                f,
                "  waits for room: it is reserved for {RESERVED_FOR_MAX_SIZE} consumers, more than which it cannot have"
            ),
            Reservation::Write(reserve) => writeln!(f, "  to be reserved for {}", reserve.consumer),
        }
    }
}

impl fmt::Display for Claim<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(found, claim) = self;
        writeln!(f, "ResourceClaim {}: {}", claim.key, State(claim))?;
        let mut gone = Vec::new();
        for (place, consumer) in claim.reserved.iter().enumerate() {
            let judged = standing(consumer, false, &found.sight(claim, consumer), found.gates);
            if matches!(judged, Standing::Done | Standing::Gone) {
                gone.push(consumer.uid.clone());
            }
            if place < TOLD {
                let why = match judged {
                    Standing::Holds | Standing::Unsure => "stays reserved",
                    Standing::Done => "is done",
                    Standing::Gone => "is gone",
                };
                writeln!(f, "  {consumer} {why}")?;
            }
        }
        if let more @ 1.. = claim.reserved.len().saturating_sub(TOLD) {
            writeln!(f, "  and {more} more")?;
        }
        let mut ownership = Ownership::Leave;
        if let Some(pod) = claim.owning_pod() {
            ownership = owner(claim, false, &found.sight(claim, &Consumer::pod(pod)));
            let how = match ownership {
                Ownership::Over => "needs it no more",
                Ownership::Leave | Ownership::Unsure => {
                    "may need it, or is gone and leaves it to the garbage collector"
                }
            };
            writeln!(f, "was made for pod {}, which {how}", pod.name)?;
        }
        write_steps(f, claim, gone, ownership)
    }
}

fn write_steps(
    f: &mut fmt::Formatter<'_>,
    claim: &ClaimView,
    gone: Vec<Uid>,
    owner: Ownership,
) -> fmt::Result {
    let evidence = Evidence {
        gone,
        owner,
        unchanged: Duration::ZERO,
    };
    let (mut state, mut nothing) = (Some(claim.clone()), true);
    while let Some(claim) = state {
        let step = match next_step(&claim, &evidence) {
            Next::Do(step) => step,
            Next::LookAgain(_) => {
                return writeln!(
                    f,
                    "to be done: remove its finalizer, once it has stayed so for {} min",
                    IDLE_FINALIZER_AGE.as_secs() / 60
                );
            }
            Next::Leave if nothing => return writeln!(f, "nothing is to be done"),
            Next::Leave => return Ok(()),
        };
        nothing = false;
        let what = match &step {
            ClaimPlan::Release { gone, deallocate, .. } => match (gone.len(), deallocate) {
                (0, _) => "clear its allocation".to_owned(),
                (count, false) => format!("take {} off it", reservations(count)),
                (count, true) => format!("take {} off it, and its allocation", reservations(count)),
            },
            ClaimPlan::RemoveFinalizer => "remove its finalizer".to_owned(),
            ClaimPlan::Delete => "delete it".to_owned(),
        };
        writeln!(f, "to be done: {what}")?;
        state = step.done_to(&claim);
    }
    Ok(())
}

fn reservations(count: usize) -> String {
    match count {
        1 => "1 reservation".to_owned(),
        count => format!("{count} reservations"),
    }
}

/// The state of a claim in words.
struct State<'a>(&'a ClaimView);

impl fmt::Display for State<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(claim) = self;
        f.write_str(if claim.allocated {
            "allocated"
        } else {
            "not allocated"
        })?;
        match claim.reserved.len() {
            0 => f.write_str(", reserved for nobody")?,
            count => write!(f, ", reserved for {count}")?,
        }
        if claim.finalizer {
            f.write_str(", protected by its finalizer")?;
        }
        if claim.deleting.is_some() {
            f.write_str(", being deleted")?;
        }
        if claim.origin == ClaimOrigin::Extended {
            f.write_str(", made for extended resources")?;
        }
        Ok(())
    }
}
