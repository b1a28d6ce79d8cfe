//! Nodes and pods on the API server, what others do to them, and what the ledger says of each write.

use std::sync::Arc;
use std::time::Duration;

use controller_core::api::{AnswerClass, CallFailed};
use controller_core::config::GoDuration;
use controller_core::controller::{Accepted, Now};
use controller_core::meta::{ObjectKey, Uid};
use controller_core::time::saturating_add;
use controller_testing::past::{Ends, at, millis};
use controller_testing::sim::{self, SimResource};
use jiff::{SignedDuration, Timestamp};
use taint_eviction_controller::brake::Note;
use taint_eviction_controller::config::Config;
use taint_eviction_controller::decide::Eviction;
use taint_eviction_controller::requests::Write;
use taint_eviction_controller::view::{NodeView, Operator, PodView, Taint, Toleration};
use taint_eviction_controller::{Stores, TaintEvictionController};

use super::Bug;
use super::acts::Act;
use crate::ledger::{self, Bound, Eyes, FAILED, Ledger};

pub(super) const NODES: usize = 2;
pub(super) const PODS: usize = 4;
/// Keys and values.
pub(super) const TAINTS: [(&str, &str); 4] = [("k", ""), ("k", "v"), (FAILED[0], ""), (FAILED[1], "")];
/// With a brake, one pod goes within this time.
const WINDOW: u32 = 20;
/// Nobody knows any more what ended this number of milliseconds ago.
const LONG_AGO: i64 = 24 * 3_600_000;

#[derive(Clone)]
pub(super) struct Cluster {
    /// How many names pods have.
    pub(super) pod_names: usize,
    /// How many names nodes have.
    pub(super) node_names: usize,
    pub(super) pods: SimResource<TaintEvictionController, PodView>,
    /// Only nodes with taints are shown.
    pub(super) nodes: SimResource<TaintEvictionController, NodeView>,
    pub(super) ledger: Ledger,
    pub(super) uids: u64,
    pub(super) bug: Option<Bug>,
    pub(super) config: Config,
    /// What the Lease says of the brake.
    pub(super) notes: Note,
    /// When pods were deleted by us, by the wall clock.
    pub(super) gone: Vec<Timestamp>,
    /// Until when budgets refuse each eviction.
    pub(super) refuses_until: Timestamp,
    /// Everything is shown at once.
    pub(super) shows_all: bool,
    /// A write that came too early.
    pub(super) wrong: Option<String>,
}

pub(super) fn node(number: usize) -> Arc<str> {
    format!("node-{number}").into()
}

pub(super) fn pod(number: usize) -> ObjectKey {
    ObjectKey::namespaced("ns", format!("pod-{number}"))
}

fn shown(tolerations: &[ledger::Toleration]) -> Arc<Vec<Toleration>> {
    let shown = tolerations.iter().map(|toleration| Toleration {
        key: toleration.key.unwrap_or_default().into(),
        operator: toleration.value.map_or(Operator::Exists, |_| Operator::Equal),
        value: toleration.value.unwrap_or_default().into(),
        seconds: toleration.seconds,
    });
    Arc::new(shown.collect())
}

/// In milliseconds since the start, as objects have it.
fn seconds_ago(ago: i64, now: Now) -> i64 {
    (millis(now.uptime) / 1000 - ago) * 1000
}

/// Some pods have a grace period, others go at once.
pub(super) fn has_grace(pod: &ObjectKey) -> bool {
    pod.name.ends_with(['0', '2'])
}

impl Cluster {
    pub(super) fn new() -> Self {
        Self {
            pod_names: PODS,
            node_names: NODES,
            pods: SimResource::new(|stores: &mut Stores| &mut stores.pods),
            nodes: SimResource::new(|stores: &mut Stores| &mut stores.nodes),
            ledger: Ledger::default(),
            uids: 0,
            bug: None,
            config: Config::default(),
            notes: Note::default(),
            gone: Vec::new(),
            refuses_until: Timestamp::MIN,
            shows_all: false,
            wrong: None,
        }
    }

    /// With a brake that lets one pod go within [`WINDOW`], and a hold that ends after a while or never.
    pub(super) fn braked(release_after: Option<GoDuration>) -> Self {
        let mut cluster = Self::new();
        cluster.config.eviction_brake_pods = Some("1".to_owned());
        cluster.config.eviction_brake_window = GoDuration::from_secs(WINDOW);
        cluster.config.eviction_brake_release_after = release_after;
        cluster
    }

    /// With budgets, for which pods wait whatever the taint.
    pub(super) fn through_budgets(mut self) -> Self {
        self.config.evict_through_budgets = Some(TAINTS.map(|(key, _)| key).join(","));
        self
    }

    pub(super) const fn is_held_for_ever(&self) -> bool {
        self.config.eviction_brake_pods.is_some() && self.config.eviction_brake_release_after.is_none()
    }

    pub(super) fn taints(&self, node: &str) -> Vec<Taint> {
        let taints = self.ledger.taints(node).map(|stay| Taint {
            key: stay.key.into(),
            value: stay.value.into(),
            time_added: stay.added.map(at),
        });
        taints.collect()
    }

    fn show_taints(&mut self, name: Arc<str>) {
        let taints = self.taints(&name);
        let key = ObjectKey::cluster(name);
        if !taints.is_empty() {
            self.nodes.put(NodeView { key, taints }, Uid::from("node"));
        } else if !matches!(self.bug, Some(Bug::HidesUntaints)) {
            self.nodes.delete(&key);
        }
    }

    pub(super) fn is_deleting(&self, key: &ObjectKey) -> bool {
        self.pods.objects().get(key).is_some_and(|pod| pod.view.deleting)
    }

    /// True if nobody has deleted this very pod.
    pub(super) fn stays(&self, past: &ledger::Pod) -> bool {
        let held = self.pods.objects().get(&ObjectKey::namespaced("ns", &*past.name));
        held.is_some_and(|held| held.uid.to_string() == past.uid && !held.view.deleting)
    }

    pub(super) fn ends(&self) -> Ends {
        let left = self.ledger.pods.0.iter().filter(|past| past.until.is_none());
        left.map(|past| (past.name.clone(), (self.ledger.fate(past), self.stays(past))))
            .collect()
    }

    pub(super) fn take(&mut self, action: &Act, now: Now) {
        let ms = millis(now.uptime);
        match *action {
            Act::Taint { node: on, taint, ago } => {
                let added = ago.map(|ago| seconds_ago(ago, now));
                let (key, value) = TAINTS[taint];
                let other = |stay: &ledger::Stay| stay.key == key && stay.value != value;
                self.ledger.untainted(ms, &node(on), other);
                self.ledger.tainted(ms, &node(on), (key, value), added);
                self.show_taints(node(on));
            }
            Act::Untaint { node: on, taint } => {
                let same = |stay: &ledger::Stay| (stay.key, stay.value) == TAINTS[taint];
                self.ledger.untainted(ms, &node(on), same);
                self.show_taints(node(on));
            }
            Act::Bind {
                pod: number,
                node: on,
                ago,
                ref tolerations,
            } => self.bind(&pod(number), node(on), seconds_ago(ago, now), tolerations, ms),
            Act::Tolerate(number, ref tolerations) => {
                let key = pod(number);
                self.pods.edit(&key, |pod| pod.tolerations = shown(tolerations));
                self.ledger
                    .pods
                    .tell_at(ms, &key.name, |bound| bound.tolerations.clone_from(tolerations));
            }
            Act::Delete(number) => {
                self.pods.edit(&pod(number), |pod| {
                    pod.generation += i64::from(!pod.deleting);
                    pod.deleting = true;
                });
                self.ledger.pods.end(ms, &pod(number).name);
            }
            Act::End(number) if self.is_deleting(&pod(number)) => self.pods.delete(&pod(number)),
            Act::End(_) => {}
            Act::Refuse => self.refuses_until = saturating_add(now.wall, Duration::from_mins(5)),
        }
    }

    fn bind(
        &mut self,
        key: &ObjectKey,
        node: Arc<str>,
        bound: i64,
        tolerations: &[ledger::Toleration],
        now: i64,
    ) {
        self.uids += 1;
        let uid = format!("uid-{}", self.uids);
        let told = Bound {
            node: node.to_string(),
            at: bound,
            tolerations: tolerations.to_vec(),
        };
        self.ledger
            .pods
            .begin(now, key.name.to_string(), uid.clone(), told);
        self.ledger.stays.retain(|stay| stay.lasts_to(now - LONG_AGO));
        self.ledger.pods.0.retain(|past| past.until.is_none());
        let uid = Uid::from(&*uid);
        let view = PodView {
            key: key.clone(),
            uid: uid.clone(),
            node,
            tolerations: shown(tolerations),
            bound: Some(at(bound)),
            generation: 1,
            deleting: false,
        };
        self.pods.put(view, uid);
    }

    pub(super) fn write(&mut self, write: &Write, now: Now) -> Result<Accepted, CallFailed> {
        let eviction = match write {
            Write::Mark(eviction, _) | Write::Delete(eviction) | Write::Evict(eviction) => eviction,
            Write::Note(_, note, _) => {
                let evicting_until = note.evicting_until.or(self.notes.evicting_until);
                self.notes = Note {
                    evicting_until,
                    ..note.clone()
                };
                return Ok(sim::accepted(Uid::from("lease"), 0));
            }
        };
        let gone = if matches!(write, Write::Delete(_)) {
            sim::deleted_before
        } else {
            sim::gone
        };
        let held = self.pods.objects().get(&eviction.pod).ok_or_else(gone)?.clone();
        // Budgets are asked before the uid is compared.
        if matches!(write, Write::Evict(_)) && !held.view.deleting && now.wall < self.refuses_until {
            let throttled = AnswerClass::Throttled(Duration::from_secs(1));
            return Err(sim::failed(throttled, Some(429)));
        }
        if held.uid != eviction.uid {
            return Err(sim::gone());
        }
        self.judge(eviction, now);
        let lies = matches!(self.bug, Some(Bug::DeletesNothing)) && matches!(write, Write::Delete(_));
        let goes = !write.is_mark() && !held.view.deleting && !lies;
        let mut version = held.version;
        if let Write::Evict(_) = write {
            // The API server writes the condition first.
            self.pods.edit(&eviction.pod, |_| {});
        }
        if goes {
            self.gone.push(now.wall);
            version = self.pods.next_version();
            self.pods.edit(&eviction.pod, |pod| {
                pod.deleting = true;
                pod.generation += 1;
            });
        } else if write.is_mark() {
            // The condition is in no view.
            version = self.pods.next_version();
            self.pods.edit(&eviction.pod, |_| {});
        }
        // Without a grace period, a pod is deleted after that.
        if goes && !has_grace(&eviction.pod) {
            version = self.pods.next_version();
            self.pods.delete(&eviction.pod);
        }
        if let Write::Evict(_) = write {
            return Ok(Accepted::default());
        }
        let deleting = held.view.deleting || !write.is_mark();
        Ok(Accepted {
            deleting,
            ..sim::accepted(held.uid, version)
        })
    }

    /// Notes a violation unless the pod may go, by what a process may have been shown.
    fn judge(&mut self, eviction: &Eviction, now: Now) {
        let uid = eviction.uid.to_string();
        let mut pods = self.ledger.pods.0.iter();
        let Some(past) = pods.find(|past| past.uid == uid && past.until.is_none()) else {
            return;
        };
        let now = millis(now.uptime);
        let due = if self.shows_all {
            self.ledger.earliest(past, now + 1, Eyes::SOUND)
        } else {
            self.ledger.first_deadline(past, 0)
        };
        if let Err(why) = ledger::check_due(due, now) {
            self.wrong.get_or_insert(format!("{} goes, and {why}", past.name));
        }
    }

    /// Whatever fails, and whichever replica leads.
    pub(super) fn check_window(&self) -> Result<(), String> {
        for pair in self.gone.windows(2) {
            let between = pair[1].duration_since(pair[0]);
            if between < SignedDuration::from_secs(WINDOW.into()) {
                return Err(format!("two pods went within {between:#}"));
            }
        }
        Ok(())
    }
}
