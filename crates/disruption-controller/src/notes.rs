//! What is said of budgets and their pods in events: once when something begins, not at every sync.
//!
//! | rule | function | test |
//! |---|---|---|
//! | DIS-10 | `Notes::computed` | `tests/sync/notes.rs::a_budget_without_pods_is_told_once`, `tests/sync/notes.rs::a_restart_repeats_no_event` |
//! | DIS-13 | `Notes::overlap` | `tests/sync/notes.rs::a_pod_that_several_budgets_match_is_told_once` |

use std::collections::HashMap;
use std::sync::Arc;

use controller_core::events::{Event, EventType, Recorder, reference};
use controller_core::meta::{ObjectKey, Uid};
use parking_lot::Mutex;

use crate::budgets::Snapshot;
use crate::decide::{Cause, Decision, Demand, Failure, demand};
use crate::view::{PdbView, PodView};

/// Publishes the events.
pub struct Notes {
    events: Recorder,
    /// What was last seen of each budget.
    seen: Mutex<HashMap<ObjectKey, Seen>>,
}

/// What a budget was like when it was last computed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    uid: Uid,
    no_pods: bool,
    unmanaged: bool,
    failure: Option<Cause>,
}

impl Notes {
    /// Publishes through `events`.
    pub fn new(events: Recorder) -> Self {
        Self {
            events,
            seen: Mutex::default(),
        }
    }

    /// A budget was computed; `wrote` says whether that changed its status. What was so before this process looked is
    /// no news.
    pub fn computed(&self, snapshot: &Snapshot, decision: &Decision, wrote: bool) {
        let pdb = &snapshot.pdb;
        let now = Seen {
            uid: pdb.uid.clone(),
            no_pods: snapshot.counts.matched == 0,
            unmanaged: snapshot.counts.unmanaged > 0 && demand(pdb).is_ok_and(Demand::needs_scales),
            failure: decision
                .result
                .as_ref()
                .err()
                .map(|failure| failure.cause.clone()),
        };
        let before = self.seen.lock().insert(pdb.key.clone(), now.clone());
        let before = before.filter(|before| before.uid == now.uid);
        let is_news =
            |is: bool, was: fn(&Seen) -> bool| is && before.as_ref().map_or(wrote, |seen| !was(seen));
        if let Err(failure) = &decision.result {
            let was = |seen: &Seen| {
                seen.failure
                    .as_ref()
                    .is_some_and(|was| was.is_like(&failure.cause))
            };
            if before.as_ref().map_or(wrote, |seen| !was(seen)) {
                self.failed(pdb, failure);
            }
        }
        if is_news(now.no_pods, |seen| seen.no_pods) {
            self.on_pdb(
                pdb,
                EventType::Normal,
                "NoPods",
                "No matching pods found".to_owned(),
            );
        }
        if is_news(now.unmanaged, |seen| seen.unmanaged) {
            let note = format!(
                "{} of the pods that this PodDisruptionBudget selects are unmanaged: no controller says how many of \
                 them there should be, so they do not count as expected. To account for them, set \
                 \".spec.minAvailable\" to an integer.",
                snapshot.counts.unmanaged
            );
            self.on_pdb(pdb, EventType::Warning, "UnmanagedPods", note);
        }
        if wrote {
            for (pod, uid) in &decision.overdue {
                let note = format!("Pod was expected by PDB {} to be deleted but it wasn't", pdb.key);
                let key = ObjectKey {
                    namespace: pdb.key.namespace.clone(),
                    name: Arc::clone(pod),
                };
                self.on_pod(&key, uid, "NotDeleted", note);
            }
        }
    }

    /// Several budgets match a pod (DIS-13).
    pub fn overlap(&self, pod: &PodView, pdbs: &[Arc<str>]) {
        let note = format!(
            "Pod {} matches multiple PodDisruptionBudgets, so the eviction API refuses to evict it: {}",
            pod.key,
            pdbs.join(", ")
        );
        tracing::warn!(pod = %pod.key, "{note}");
        self.on_pod(&pod.key, &pod.uid, "MultiplePodDisruptionBudgets", note);
    }

    /// Another writer keeps undoing our status.
    pub fn rival(&self, pdb: &PdbView, manager: &str) {
        let note = format!(
            "{manager} keeps writing another status over that of this and perhaps other PodDisruptionBudgets; writes \
             to them back off. Does the built-in disruption controller still run?"
        );
        tracing::warn!(pdb = %pdb.key, manager, "rival: {note}");
        self.on_pdb(pdb, EventType::Warning, "RivalWriter", note);
    }

    /// Leaves nothing of a budget behind (DIS-16).
    pub fn forget(&self, pdb: &ObjectKey) {
        self.seen.lock().remove(pdb);
    }

    fn failed(&self, pdb: &PdbView, failure: &Failure) {
        let note = format!("Failed to calculate the number of expected pods: {failure}");
        tracing::warn!(pdb = %pdb.key, "{note}");
        self.on_pdb(pdb, EventType::Warning, "CalculateExpectedPodCountFailed", note);
    }

    fn on_pdb(&self, pdb: &PdbView, type_: EventType, reason: &'static str, note: String) {
        self.events.publish(Event {
            regarding: reference("policy/v1", "PodDisruptionBudget", &pdb.key, &pdb.uid),
            related: None,
            type_,
            reason,
            action: "Compute",
            note,
        });
    }

    fn on_pod(&self, pod: &ObjectKey, uid: &Uid, reason: &'static str, note: String) {
        self.events.publish(Event {
            regarding: reference("v1", "Pod", pod, uid),
            related: None,
            type_: EventType::Warning,
            reason,
            action: "Compute",
            note,
        });
    }
}
