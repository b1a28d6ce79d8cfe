//! What users see of budgets: events when something begins, not at every sync; log lines and metrics.
//!
//! | rule | function | test |
//! |---|---|---|
//! | DIS-10 | `LastSync::news` | `tests/sync/notes.rs::a_budget_without_pods_is_reported_once`, `tests/sync/notes.rs::a_restart_repeats_no_event` |
//! | DIS-13 | `Event::record` | `tests/sync/notes.rs::a_pod_that_several_budgets_match_is_reported_once` |

use std::sync::Arc;
use std::time::Duration;

use controller_core::events::{Event as Published, Recorder, Reference, reference};
use controller_core::meta::{ObjectKey, Uid};

use crate::decide::Cause;
use crate::metrics::DisruptionMetrics;
use crate::view::{PdbView, PodView};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A budget selects no pods (DIS-10).
    NoPods(Arc<PdbView>),
    /// This number of its pods has no controller, and the number matters (DIS-2).
    Unmanaged(Arc<PdbView>, i64),
    /// The budget cannot be computed (DIS-9).
    CannotCompute(Arc<PdbView>, Cause),
    /// Its pod with this name and uid was approved to go and stayed (DIS-6).
    NotDeleted(Arc<PdbView>, Arc<str>, Uid),
    /// Its selector has so many values that each evaluation is expensive.
    LargeSelector(Arc<PdbView>),
    /// Several budgets match a pod (DIS-13).
    Overlap(Arc<PodView>, Vec<Arc<str>>),
    /// Another writer has undone our status.
    Undone,
    /// This field manager keeps undoing our status (CORE-17).
    Rival(Arc<PdbView>, String),
    /// A status was written this long after its pods had changed.
    Written(Duration),
    /// A `/scale` was read, with this HTTP status code; `None` if no answer came.
    ScaleRead(Option<u16>),
}

/// What the last computation of a budget saw, as far as events and metrics depend on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LastSync {
    /// The budget selects no pods.
    pub no_pods: bool,
    /// The number of its pods without a controller, if that number matters.
    pub unmanaged: i64,
    /// Why the budget cannot be computed.
    pub failure: Option<Cause>,
    /// Why no state of its pods allows a disruption, as far as is known.
    pub never: Option<&'static str>,
    /// A dry run would have written.
    pub planned: bool,
}

impl LastSync {
    /// The events about `pdb`, which was as in `before`. What already held before the first computation of this process
    /// is no news, unless that computation `wrote`.
    pub fn news(&self, before: Option<&Self>, pdb: &Arc<PdbView>, wrote: bool) -> Vec<Event> {
        let is_news = |was: fn(&Self, &Self) -> bool| before.map_or(wrote, |before| !was(before, self));
        let failed_alike = |before: &Self, now: &Self| match (&before.failure, &now.failure) {
            (Some(before), Some(now)) => before.is_like(now),
            (before, now) => before.is_none() && now.is_none(),
        };
        let failure = self.failure.as_ref().filter(|_| is_news(failed_alike));
        let no_pods = self.no_pods && is_news(|before, _| before.no_pods);
        let unmanaged = self.unmanaged > 0 && is_news(|before, _| before.unmanaged > 0);
        let events = [
            failure.map(|cause| Event::CannotCompute(Arc::clone(pdb), cause.clone())),
            no_pods.then(|| Event::NoPods(Arc::clone(pdb))),
            unmanaged.then(|| Event::Unmanaged(Arc::clone(pdb), self.unmanaged)),
        ];
        events.into_iter().flatten().collect()
    }
}

impl Event {
    pub fn record(self, numbers: &DisruptionMetrics, recorder: &dyn Recorder) {
        let (regarding, reason, note) = match self {
            Self::Undone => return numbers.rival_writes.inc(),
            Self::Written(lag) => return numbers.lag.observe(lag.as_secs_f64()),
            Self::ScaleRead(code) => return numbers.scale_read(code),
            Self::NoPods(pdb) => {
                let note = "No matching pods found";
                return recorder.publish(Published::normal(on_pdb(&pdb), "NoPods", "Compute", note));
            }
            Self::Unmanaged(pdb, pods) => {
                let note = format!(
                    "{pods} of the pods that this PodDisruptionBudget selects are unmanaged: no controller says how \
                     many of them there should be, so they do not count as expected. To account for them, set \
                     \".spec.minAvailable\" to an integer."
                );
                (on_pdb(&pdb), "UnmanagedPods", note)
            }
            Self::CannotCompute(pdb, cause) => {
                let note = format!("Failed to calculate the number of expected pods: {cause}");
                tracing::warn!(pdb = %pdb.key, "{note}");
                (on_pdb(&pdb), "CalculateExpectedPodCountFailed", note)
            }
            Self::NotDeleted(pdb, name, uid) => {
                let note = format!("Pod was expected by PDB {} to be deleted but it wasn't", pdb.key);
                let namespace = pdb.key.namespace.clone();
                let pod = reference("v1", "Pod", &ObjectKey { namespace, name }, &uid);
                (pod, "NotDeleted", note)
            }
            Self::LargeSelector(pdb) => {
                let note = format!(
                    "Its selector names {} values: select by a label that its pods share instead",
                    pdb.selector.values()
                );
                tracing::warn!(pdb = %pdb.key, "{note}");
                (on_pdb(&pdb), "LargeSelector", note)
            }
            Self::Overlap(pod, pdbs) => {
                let note = format!(
                    "Pod {} matches multiple PodDisruptionBudgets, so the eviction API refuses to evict it: {}",
                    pod.key,
                    pdbs.join(", ")
                );
                tracing::warn!(pod = %pod.key, "{note}");
                let pod = reference("v1", "Pod", &pod.key, &pod.uid);
                (pod, "MultiplePodDisruptionBudgets", note)
            }
            Self::Rival(pdb, manager) => {
                let note = format!(
                    "{manager} keeps writing another status over that of this and perhaps other \
                     PodDisruptionBudgets; writes that allow no less back off. Does the built-in disruption controller still run?"
                );
                tracing::warn!(pdb = %pdb.key, manager, "rival: {note}");
                (on_pdb(&pdb), "RivalWriter", note)
            }
        };
        recorder.publish(Published::warning(regarding, reason, "Compute", note));
    }
}

fn on_pdb(pdb: &PdbView) -> Reference {
    reference("policy/v1", "PodDisruptionBudget", &pdb.key, &pdb.uid)
}
