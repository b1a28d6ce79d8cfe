//! The state of one budget.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controller_core::controller::{Outcome, Priority};
use controller_core::meta::Uid;
use jiff::Timestamp;

use crate::decide::{Counts, Decision, Demand, Fate, Scale, Scales, StatusPatch, fate};
use crate::events::LastSync;
use crate::route;
use crate::view::{PdbView, PodView, Status};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    pub(crate) pdb: Arc<PdbView>,
    pub(super) counts: Counts,
    /// The number of its pods that no other budget matches. The API server evicts no pod that several match.
    pub(super) sole: i64,
    /// The pods of its `disruptedPods`: when each was approved to go, and which uid had its name when the entry was
    /// first seen (DIS-6).
    entries: BTreeMap<Arc<str>, (Timestamp, Option<Uid>)>,
    sending: Option<Sending>,
    /// What a write with an unknown fate allows; 0 once a newer version is known.
    in_doubt: i64,
    /// What it was last computed from; `None` once that is out of date.
    pub(crate) basis: Option<Basis>,
    /// Since when its status does not match its pods.
    pub(super) behind: Option<Duration>,
    /// The status that we wrote last.
    pub(crate) ours: Option<Status>,
    /// What the last computation saw.
    pub(crate) seen: Option<LastSync>,
    /// Since when a dry run would write another status.
    pub(super) disagrees: Option<Duration>,
}

/// A status write in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sending {
    /// The budget after the write.
    made: PdbView,
    /// Since when the status before the write does not match the pods.
    behind: Option<Duration>,
}

/// What the allowed number is computed from, besides the healthy pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Basis {
    desired: i64,
    going: i64,
    by: ExpectedBy,
}

/// What the expected pods depend on, besides the spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExpectedBy {
    /// The pods that the budget selects, or nothing.
    Selected,
    /// The scales of their controllers.
    Scales,
    /// These, and the pods that exist.
    ScalesAndPods,
}

impl ExpectedBy {
    /// For a budget with this demand, if it can be read, and these scales.
    pub fn of(demand: Option<Demand>, scales: &Scales) -> Self {
        match demand {
            Some(demand) if demand.needs_scales() => {
                if scales.values().any(Scale::counts_pods) {
                    Self::ScalesAndPods
                } else {
                    Self::Scales
                }
            }
            _ => Self::Selected,
        }
    }
}

impl Basis {
    /// The basis of a decision.
    pub fn of(decision: &Decision, by: ExpectedBy) -> Self {
        match decision.result {
            // If no pods are expected, nothing is allowed.
            Ok(numbers) => Self {
                desired: if numbers.expected > 0 {
                    numbers.desired.into()
                } else {
                    i64::MAX
                },
                going: decision.going,
                by,
            },
            // A failure allows nothing, and nothing is less.
            Err(_) => Self {
                desired: i64::MAX,
                going: 0,
                by: ExpectedBy::Selected,
            },
        }
    }
}

impl Budget {
    pub(super) fn new(pdb: &Arc<PdbView>, seen: Option<LastSync>) -> Self {
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
            disagrees: None,
        }
    }

    /// Takes a newer version over, and remembers which pod each new entry is about, as of now. Returns whether the
    /// change concerns a rule: our own write does not.
    pub(super) fn renew(&mut self, pdb: &Arc<PdbView>, pods: &BTreeMap<Arc<str>, Arc<PodView>>) -> bool {
        let sending = self.sending.as_ref();
        let ours = sending.filter(|sending| sending.made.status == pdb.status);
        let requeues = route::pdb_wakes(ours.map_or(&*self.pdb, |ours| &ours.made), pdb);
        if pdb.version != self.pdb.version {
            // By now a write of an older version has been carried out, or conflicts.
            self.in_doubt = 0;
        }
        if pdb.generation != self.pdb.generation {
            // The spec may demand something else.
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

    /// A pod with the name of an entry has come or changed after the entry: it may be the approved one, and then must
    /// not count as healthy, just like before.
    pub(super) fn note_pod(&mut self, old: Option<&PodView>, pod: &PodView) {
        let Some((_, seen)) = self.entries.get_mut(&pod.key.name) else {
            return;
        };
        seen.get_or_insert_with(|| pod.uid.clone());
        if pod.is_healthy() && !old.is_some_and(PodView::is_healthy) {
            self.one_more_goes();
        }
    }

    /// One more of the healthy pods may be on its way than at the last computation.
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

    /// Returns true if less may be allowed now than the API server believes. `other_scales`: a controller came, went or
    /// wants another number of pods; `other_pods`: one came or went.
    pub(super) fn is_urgent(&mut self, other_scales: bool, other_pods: bool) -> bool {
        // What is expected now is unknown.
        self.basis = self.basis.filter(|basis| match basis.by {
            ExpectedBy::Selected => true,
            ExpectedBy::Scales => !other_scales,
            ExpectedBy::ScalesAndPods => !other_scales && !other_pods,
        });
        self.promises_too_much()
    }

    /// True if less may be allowed than the API server believes, as far as we know.
    pub(super) fn promises_too_much(&self) -> bool {
        self.basis.is_none() || route::urgency(self.estimate(), self.promised())
    }

    /// How urgent a computation is (DIS-14). If other budgets match all its pods too, nobody can evict them anyway.
    pub(crate) fn priority(&self) -> Priority {
        match () {
            () if self.sole == 0 && self.counts.matched > 0 => Priority::Low,
            () if self.promises_too_much() => Priority::High,
            () => Priority::Normal,
        }
    }

    /// What is certainly allowed now: 0 once the basis is out of date.
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

    /// Notes that this write is being sent.
    pub(crate) fn sent(&mut self, write: &StatusPatch) {
        self.sending = Some(Sending {
            made: write.applied_to(&self.pdb, None),
            behind: self.behind.take(),
        });
    }

    /// Notes that the write has ended. If the status now matches the pods, returns since when it did not.
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

    /// Notes that nothing was written at `now`, and what was seen.
    pub(crate) fn left(&mut self, seen: LastSync, now: Duration) {
        self.behind = None;
        self.disagrees = seen.planned.then(|| self.disagrees.unwrap_or(now));
        self.seen = Some(seen);
    }

    /// True if [`left`](Self::left) with `seen` would change nothing.
    pub(crate) fn is_left(&self, seen: &LastSync) -> bool {
        self.behind.is_none() && self.seen.as_ref() == Some(seen)
    }
}
