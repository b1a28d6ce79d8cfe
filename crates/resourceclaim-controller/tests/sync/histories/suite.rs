//! What can happen around the controller, and what must have become of the claims.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controller_testing::Start;
use controller_testing::fault_history::{At, Draw, EndState, History, UNDECIDED};
use controller_testing::history::{Scene, Scripted};
use controller_testing::objects::edit;
use controller_testing::past::UndoneWrites;
use embedded_apiserver::{
    POD_GROUPS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RecordedRequest, Resource, Server,
};
use parking_lot::Mutex;
use resourceclaim_controller::ResourceClaimController;
use resourceclaim_controller::config::Config;
use tokio::task::JoinSet;

use super::ledger::Ledger;
use super::scheduler::Scheduler;
use super::sight::{Claimant, Entry, Sight};
use super::{judge, steps};

/// Most writes that one step may cause.
const WRITES_A_STEP: usize = 10;
/// The end of a history, in which nothing happens.
const QUIET: Duration = Duration::from_secs(25);
/// Most writes that giving a claim back takes.
const MOST_STEPS: usize = 4;
/// Most times that a process sends a write which is refused, apart from one for each step and fault: the waits double from
/// 5 ms on, and a refusal lasts for at most two minutes.
const MOST_TRIES: usize = 20;

/// Everything but the controller.
#[derive(Default)]
pub(super) struct Claims {
    pub(super) ledger: Arc<Mutex<Ledger>>,
    pub(super) scheduler: Scheduler,
    /// The API server serves `PodGroups`, and the controller makes claims for them.
    pub(super) has_groups: bool,
    /// Pods that are ending.
    pub(super) ends: JoinSet<()>,
    undone: UndoneWrites,
}

impl Scene for Claims {
    type App = ResourceClaimController;

    const READS: &'static [&'static Resource] = &[
        &RESOURCE_CLAIMS,
        &RESOURCE_CLAIMS,
        &PODS,
        &PODS,
        &RESOURCE_CLAIM_TEMPLATES,
        &POD_GROUPS,
    ];
    const WRITES: &'static [&'static Resource] =
        &[&RESOURCE_CLAIMS, &RESOURCE_CLAIMS, &PODS, &PODS, &POD_GROUPS];
    /// The scheduler and the kubelet act between the steps.
    const REWINDS: bool = false;
    const HAS_RIVAL: bool = true;
    const LENGTH: Duration = Duration::from_secs(90);
    /// Five more minutes pass before a finalizer is removed that a scheduler has left.
    const SETTLES_WITHIN: Duration = Duration::from_mins(12);

    fn steps(draw: &mut Draw) -> Vec<At<Scripted<Self>>> {
        steps::drawn(draw, Self::LENGTH)
    }

    fn start(&self) -> Start<Config> {
        let gates = format!("DRAWorkloadResourceClaims={}", self.has_groups);
        Start::of::<Self::App>().configured(move |config| config.feature_gates = Some(gates))
    }

    /// Drops the record of one claim.
    fn undo(&mut self, server: &Server) -> bool {
        let mut ledger = self.ledger.lock();
        let sight = ledger.look(server);
        let mut pods = sight.pods.iter().filter(|pod| pod.lives() && !pod.bound);
        let Some((pod, dropped)) = pods.find_map(|pod| Some((pod, pod.recorded.last_key_value()?))) else {
            return false;
        };
        let (entry, claim) = dropped;
        edit(server, &PODS, &pod.name, |pod| {
            if let Some(statuses) = pod["status"]["resourceClaimStatuses"].as_array_mut() {
                statuses.retain(|status| status["name"] != **entry);
            }
        });
        ledger.forgets(&pod.uid, claim);
        self.undone.add(server, &format!("{entry} of {}", pod.name));
        true
    }

    fn settled(&mut self, server: &Server) -> Result<(), String> {
        steps::rest(server, self.has_groups);
        let sight = self.ledger.lock().look(server);
        while self.ends.try_join_next().is_some() {}
        if !self.ends.is_empty() || self.scheduler.is_binding(server, &self.ledger) {
            return Err("the scheduler or the kubelet is still at work".to_owned());
        }
        sight.is_settled(&self.ledger.lock())
    }

    /// The claim of each entry: whether a pod was bound, and so what is reserved, depends on the controller's delays. So
    /// does what a pod had of a group that is going or was replaced.
    fn state(&self, server: &Server) -> EndState {
        let (sight, ledger) = (Sight::of(server), self.ledger.lock());
        let claim = |pod: &Claimant, entry: &Entry| {
            let Some(holder) = sight.holder(pod, entry) else {
                return "none, without its group";
            };
            let claim = pod.claim_of(entry).and_then(|name| sight.claims.get(name));
            match (claim, &entry.users) {
                (None, _) => "none",
                (Some(_), Some(_)) => "the user's",
                (Some(claim), None) if !claim.is_of(&holder.uid) => "another's",
                (Some(_), None) if holder.is_group => "its group's",
                (Some(_), None) => "its own",
            }
        };
        let claims = |pod: &Claimant| {
            let group = pod.group.as_ref().and_then(|group| sight.group(group));
            if ledger.has_lost_its_group(&sight, pod) || group.is_some_and(|group| group.deleting) {
                return UNDECIDED.to_owned();
            }
            let entries = pod.entries.iter();
            let claims = entries.map(|entry| format!("{}: {}", entry.name, claim(pod, entry)));
            claims.collect::<Vec<_>>().join(", ")
        };
        let pods = sight.pods.iter().filter(|pod| pod.lives());
        pods.map(|pod| (pod.name.clone(), claims(pod))).collect()
    }

    fn permits(&mut self, server: &Server, write: &RecordedRequest) -> Result<(), String> {
        judge::permits(&mut self.ledger.lock(), server, write)
    }

    /// Checks for hot loops, during the steps and once they are over.
    fn afterwards(&self, server: &Server, history: &History<Scripted<Self>>) -> Result<(), String> {
        if let Some(wrong) = &self.ledger.lock().wrong {
            return Err(wrong.clone());
        }
        self.undone.were_left()?;
        let writes = server.requests_where(|write| {
            let is_judged = write.verb.is_write() && !matches!(&*write.resource, "leases" | "events");
            is_judged && write.user_agent.starts_with("resourceclaim-controller")
        });
        let (refused, others): (Vec<_>, Vec<_>) = writes
            .iter()
            .partition(|write| matches!(write.code, Some(403 | 422 | 429)));
        let steps = history.actions.len() + history.faults.len();
        let most = WRITES_A_STEP * steps;
        if others.len() > most {
            return Err(format!("{} writes, where {most} are many", others.len()));
        }
        let mut tries = BTreeMap::new();
        for write in refused {
            // A claim has another name in each try.
            let (of, entry) = (
                &write.body["metadata"]["ownerReferences"],
                &write.body["metadata"]["annotations"],
            );
            let what = format!("{} {} {} {of} {entry}", write.user_agent, write.verb, write.name);
            let tries = tries.entry(what).or_insert(0);
            *tries += 1;
            if *tries > MOST_TRIES + steps {
                return Err(format!("refused {tries} times: {write}"));
            }
        }
        let rest = server.elapsed().saturating_sub(QUIET);
        // Refused writes are retried, more and more rarely, until a broken watch is back.
        let late = writes.only(|write| write.arrived > rest && matches!(write.code, Some(200 | 201)));
        let mut times = BTreeMap::new();
        for write in &*late {
            *times.entry((&write.resource, &write.name)).or_insert(0) += 1;
        }
        match times.into_iter().find(|(_, times)| *times > MOST_STEPS) {
            Some(((_, name), times)) => Err(format!("nothing happens, and {name} is written {times} times")),
            None => Ok(()),
        }
    }
}
