//! What is remembered of one budget.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controller_core::controller::{Outcome, Priority};
use controller_core::meta::Uid;
use jiff::Timestamp;

use crate::decide::{Counts, Decision, Fate, Write, fate};
use crate::events::Seen;
use crate::route;
use crate::view::{PdbView, PodView, Status};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    pub(crate) pdb: Arc<PdbView>,
    pub(super) counts: Counts,
    /// How many of its pods no other budget matches. The API server evicts no pod that several match.
    pub(super) sole: i64,
    /// The pods of its `disruptedPods`: when each was approved to go, and which uid had its name when that was first
    /// seen (DIS-6).
    entries: BTreeMap<Arc<str>, (Timestamp, Option<Uid>)>,
    sending: Option<Sending>,
    /// What a write of unknown fate allows; nothing once a newer version is known.
    in_doubt: i64,
    /// What it was computed with last; nothing when that does not hold any more.
    pub(crate) basis: Option<Basis>,
    /// Since when its status does not say what its pods are.
    pub(super) behind: Option<Duration>,
    /// The status that we wrote last.
    pub(crate) ours: Option<Status>,
    /// What events are about, when it was computed last.
    pub(crate) seen: Option<Seen>,
}

/// A status that is on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sending {
    /// What it makes of the budget.
    made: PdbView,
    /// Since when the status before it does not say what the pods are.
    behind: Option<Duration>,
}

/// What the number allowed is made of, besides the healthy pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Basis {
    desired: i64,
    going: i64,
    by_scale: bool,
}

impl Basis {
    /// That of a decision; `by_scale` says whether scales were needed.
    pub fn of(decision: &Decision, by_scale: bool) -> Self {
        match decision.result {
            // Where no pods are expected nothing is allowed.
            Ok(numbers) => Self {
                desired: if numbers.expected > 0 {
                    numbers.desired.into()
                } else {
                    i64::MAX
                },
                going: decision.going,
                by_scale,
            },
            // What fails allows nothing: nothing is less.
            Err(_) => Self {
                desired: i64::MAX,
                going: 0,
                by_scale: false,
            },
        }
    }
}

impl Budget {
    pub(super) fn new(pdb: &Arc<PdbView>, seen: Option<Seen>) -> Self {
        Self {
            pdb: Arc::clone(pdb),
            counts: Counts::default(),
            sole: 0,
            entries: BTreeMap::new(),
            sending: None,
            in_doubt: 0,
            basis: None,
            behind: None,
            ours: None,
            seen,
        }
    }

    /// Takes over a newer version, and remembers which pod each new entry is about, as of now. Returns whether the
    /// change concerns a rule: our own write does not.
    pub(super) fn renew(&mut self, pdb: &Arc<PdbView>, pods: &BTreeMap<Arc<str>, Arc<PodView>>) -> bool {
        let sending = self.sending.as_ref();
        let ours = sending.filter(|sending| sending.made.status == pdb.status);
        let requeues = route::pdb_wakes(ours.map_or(&*self.pdb, |ours| &ours.made), pdb);
        if pdb.version != self.pdb.version {
            // A write of an older version has been carried out by now, or is a conflict.
            self.in_doubt = 0;
        }
        if pdb.generation != self.pdb.generation {
            // It may ask for something else.
            self.basis = None;
        }
        self.pdb = Arc::clone(pdb);
        let entries = &pdb.status.disrupted_pods;
        self.entries
            .retain(|name, (since, _)| entries.get(name) == Some(&*since));
        for (name, since) in entries {
            if !self.entries.contains_key(name) {
                let uid = pods.get(name).map(|pod| pod.uid.clone());
                self.entries.insert(Arc::clone(name), (*since, uid));
                self.one_more_goes();
            }
        }
        requeues
    }

    /// The pod of a name that an entry may be about has come or changed after the entry: it may be the one that is to go,
    /// and then counts as little as before.
    pub(super) fn note_pod(&mut self, old: Option<&PodView>, pod: &PodView) {
        let Some((_, seen)) = self.entries.get_mut(&pod.key.name) else {
            return;
        };
        seen.get_or_insert_with(|| pod.uid.clone());
        if pod.is_healthy() && !old.is_some_and(PodView::is_healthy) {
            self.one_more_goes();
        }
    }

    /// Of the healthy pods one more may be on its way than when it was computed last.
    const fn one_more_goes(&mut self) {
        if let Some(basis) = &mut self.basis {
            basis.going += 1;
        }
    }

    pub(super) fn fate(&self, name: &Arc<str>, since: Timestamp, pod: Option<&Arc<PodView>>) -> Fate {
        let pod = pod.filter(|pod| self.pdb.selector.matches(&pod.labels));
        let seen = self.entries.get(name).and_then(|(_, seen)| seen.as_ref());
        fate(pod.map(|pod| &**pod), seen, since)
    }

    /// Whether less may be allowed now than the API server believes. `other_scales` says that a controller came, went or
    /// wants another number of pods.
    pub(super) fn is_urgent(&mut self, other_scales: bool) -> bool {
        if other_scales {
            // Their scales are not known.
            self.basis = self.basis.filter(|basis| !basis.by_scale);
        }
        self.promises_too_much()
    }

    /// The same, as far as is known.
    pub(super) fn promises_too_much(&self) -> bool {
        self.basis.is_none() || route::urgency(self.estimate(), self.promised())
    }

    /// How urgent it is to compute (DIS-14). One whose pods have other budgets, too, lets nobody evict them.
    pub(crate) fn priority(&self) -> Priority {
        match () {
            () if self.sole == 0 && self.counts.matched > 0 => Priority::Low,
            () if self.promises_too_much() => Priority::High,
            () => Priority::Normal,
        }
    }

    /// What is allowed now for certain: nothing, when what it was computed with last does not hold any more.
    fn estimate(&self) -> i64 {
        self.basis.map_or(0, |basis| {
            let healthy = self.counts.healthy.saturating_sub(basis.going);
            healthy.saturating_sub(basis.desired).max(0)
        })
    }

    /// The most that the API server may believe to be allowed.
    fn promised(&self) -> i64 {
        let sending = self.sending.iter();
        let sent = sending.map(|sending| sending.made.status.disruptions_allowed);
        let held = self.pdb.status.disruptions_allowed.max(self.in_doubt);
        sent.fold(held, i64::max)
    }

    /// This write is being sent.
    pub(crate) fn sent(&mut self, write: &Write) {
        self.sending = Some(Sending {
            made: write.applied_to(&self.pdb, None),
            behind: self.behind.take(),
        });
    }

    /// The write has ended; since when the status did not say what the pods are, where it does now.
    pub(crate) fn ended(&mut self, outcome: &Outcome) -> Option<Duration> {
        let Sending { made, behind } = self.sending.take()?;
        match outcome {
            Outcome::Accepted(_) => {
                self.ours = Some(made.status);
                return behind;
            }
            Outcome::Failed(failed) if failed.fate_unknown() && made.version == self.pdb.version => {
                self.in_doubt = self.in_doubt.max(made.status.disruptions_allowed);
            }
            Outcome::Failed(_) | Outcome::Planned => {}
        }
        self.behind = behind.or(self.behind);
        None
    }

    /// Nothing was written, for nothing was to be; this was seen.
    pub(crate) fn left(&mut self, seen: Seen) {
        self.behind = None;
        self.seen = Some(seen);
    }

    /// Whether [`left`](Self::left) with `seen` would change nothing.
    pub(crate) fn is_left(&self, seen: &Seen) -> bool {
        self.behind.is_none() && self.seen.as_ref() == Some(seen)
    }
}
