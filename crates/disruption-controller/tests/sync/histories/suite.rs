//! How the controller is run through a history, what it may write, and what the statuses must say.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controller_core::clock::Clock;
use disruption_controller::DisruptionController;
use disruption_controller::config::Config;
use harness::history::is_refused;
use harness::objects::{each, stays, text};
use harness::{Run, Start};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use testkit::embedded::{
    DEPLOYMENTS, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS, Request, Resource, Server, Verb,
};
use testkit::history::{At, Draw, Life, State, Suite};

use super::ledger::{Answer, Owner, Pod, Sight, Workload, approved};
use super::steps::{self, Action, WORKLOADS};
use super::tap::{Notes, tapped};
use super::world::{self, World};
use crate::budget::{Numbers, condition_of};

/// How long a pod that somebody wanted to go may stay (DIS-15).
const STALE_AFTER: Duration = Duration::from_mins(2);

/// The disruption-controller, or one with a bug put in.
#[derive(Clone)]
pub(super) struct Budgets {
    run: Run<Config>,
    world: Arc<Mutex<World>>,
    /// The statuses that were sent.
    notes: Notes,
}

impl Budgets {
    pub(super) fn new(run: Run<Config>) -> Self {
        Self {
            run,
            world: Arc::default(),
            notes: Arc::default(),
        }
    }

    /// No status is written that allows too much, or that undoes an approved eviction.
    fn permits_status(&self, server: &Server, request: &Request) -> Result<(), String> {
        let Some(pdb) = server.get(&POD_DISRUPTION_BUDGETS, "default", &request.name) else {
            return Ok(());
        };
        if is_refused(&pdb, &request.body["metadata"]) {
            return Ok(());
        }
        let sent = self.notes.lock().get(&request.body.to_string()).cloned();
        let Some(sent) = sent else {
            return Err("nobody saw that it was sent".to_owned());
        };
        let unknown = { approved(&pdb) }.find(|(pod, since)| {
            let entry = ((*pod).to_owned(), (*since).to_owned());
            !sent.known.contains(&entry)
        });
        if let Some((pod, _)) = unknown {
            return Err(format!("it overwrites the approved eviction of {pod}"));
        }
        sent.judged
    }
}

impl Suite for Budgets {
    type Action = Action;

    const NAME: &'static str = "disruption-controller";
    const RESOURCES: &'static [&'static Resource] = &[
        &POD_DISRUPTION_BUDGETS,
        &POD_DISRUPTION_BUDGETS,
        &PODS,
        &PODS,
        &REPLICA_SETS,
        &DEPLOYMENTS,
    ];

    const LENGTH: Duration = Duration::from_secs(90);
    /// Five minutes pass before the client gives up a watch that is silent, or a budget that no event mends is tried
    /// again.
    const SETTLES_WITHIN: Duration = Duration::from_mins(10);

    fn fresh(&self) -> Self {
        Self::new(self.run)
    }

    fn actions(&self, draw: &mut Draw) -> Vec<At<Action>> {
        steps::drawn(draw, Self::LENGTH)
    }

    fn act(&self, server: &Server, action: &Action) {
        self.world.lock().take(server, action);
    }

    fn process(&self, life: Life) -> impl Future<Output = Result<(), String>> + Send + 'static {
        let tap = Clock::starting_at(life.now);
        let life = Life {
            client: tapped(life.client, tap, &self.notes),
            ..life
        };
        Start::of::<DisruptionController>().running(self.run).live(life)
    }

    /// Which evictions passed depends on what held the controller up: what they took is brought back first.
    fn settled(&self, server: &Server, _: &[At<Action>]) -> Result<(), String> {
        self.world.lock().rest(server);
        let sight = everything(server);
        for pdb in server.list(&POD_DISRUPTION_BUDGETS) {
            says_it_all(&sight, &pdb).map_err(|why| format!("{}: {why}", pdb["metadata"]["name"]))?;
        }
        let mut pods = server.list(&PODS).into_iter();
        let wanted = pods.find(|pod| stays(Some(pod)) && wanted_since(pod).is_some());
        match wanted {
            Some(pod) => Err(format!("{} is still a DisruptionTarget", pod["metadata"]["name"])),
            None => Ok(()),
        }
    }

    fn state(&self, server: &Server) -> State {
        let budgets = server.list(&POD_DISRUPTION_BUDGETS).into_iter();
        budgets
            .map(|pdb| {
                let condition = condition_of(&pdb["status"]);
                let says = ["status", "reason", "message"].map(|field| text(&condition[field]));
                // The other numbers of one that cannot be computed are those of some time before.
                let numbers = (says[1] != "SyncFailed").then(|| Numbers::of(&pdb["status"]));
                let told = format!("{numbers:?} {}", says.join(" "));
                (text(&pdb["metadata"]["name"]), told)
            })
            .collect()
    }

    fn permits(&self, server: &Server, request: &Request) -> Result<(), String> {
        if !request.verb.is_write() || matches!(&*request.resource, "leases" | "events") {
            return Ok(());
        }
        let permitted = match (&*request.resource, request.verb, &*request.subresource) {
            ("poddisruptionbudgets", Verb::Patch, "status") => self.permits_status(server, request),
            ("pods", Verb::Patch, "status") => permits_reset(server, request),
            _ => Err("no such write is ever needed".to_owned()),
        };
        permitted.map_err(|why| format!("{why}: {request}"))
    }
}

/// Only a condition that is stale is reset, and nothing else of the pod.
fn permits_reset(server: &Server, request: &Request) -> Result<(), String> {
    let Some(pod) = server.get(&PODS, "default", &request.name) else {
        return Ok(());
    };
    if is_refused(&pod, &request.body["metadata"]) {
        return Ok(());
    }
    let stale_from = wanted_since(&pod).map(|since| since.checked_add(STALE_AFTER).unwrap());
    match stale_from {
        Some(stale_from) if stale_from <= world::now(server) => Ok(()),
        _ => Err("the pod's condition is not stale".to_owned()),
    }
}

/// Since when somebody wants the pod to go.
fn wanted_since(pod: &Value) -> Option<Timestamp> {
    let mut conditions = each(&pod["status"]["conditions"]);
    let target = conditions.find(|condition| condition["type"] == "DisruptionTarget")?;
    let since = target["lastTransitionTime"].as_str()?.parse().unwrap();
    (target["status"] == "True").then_some(since)
}

/// All that there is.
fn everything(server: &Server) -> Sight {
    let pods = server.list(&PODS).into_iter();
    let pods = pods.map(|pod| (text(&pod["metadata"]["name"]), Pod::of(&pod)));
    let resources: BTreeMap<&str, _> = (0..WORKLOADS.len())
        .map(|workload| (WORKLOADS[workload].0, world::resource(workload)))
        .collect();
    let workloads = resources.into_iter().flat_map(|(kind, resource)| {
        let objects = server.list(resource).into_iter();
        objects.map(move |object| {
            let name = text(&object["metadata"]["name"]);
            ((kind.to_owned(), name), Workload::of(&object))
        })
    });
    Sight {
        pods: pods.collect(),
        workloads: workloads.collect(),
    }
}

/// Whether the status of a budget is what the rules make of all that there is.
fn says_it_all(sight: &Sight, pdb: &Value) -> Result<(), String> {
    let nobody = |_: &Owner| -> Vec<Answer> { vec![None] };
    let numbers = sight.numbers(pdb, 0, nobody);
    let [numbers] = *numbers else {
        return Err("there is one truth alone".to_owned());
    };
    let status = &pdb["status"];
    let condition = condition_of(&pdb["status"]);
    // One that cannot be computed keeps what it remembers.
    if numbers.is_some() && approved(pdb).next().is_some() {
        return Err(format!(
            "evictions are still remembered: {}",
            status["disruptedPods"]
        ));
    }
    let generation = &pdb["metadata"]["generation"];
    if status["observedGeneration"] != *generation || condition["observedGeneration"] != *generation {
        return Err(format!("generation {generation} was not observed: {status}"));
    }
    let reason = match numbers {
        None => "SyncFailed",
        Some(Numbers { allowed: 0, .. }) => "InsufficientPods",
        Some(_) => "SufficientPods",
    };
    if condition["reason"] != reason || condition["status"] != boolean(reason == "SufficientPods") {
        return Err(format!("it should say {reason}: {condition}"));
    }
    let written = Numbers::of(&pdb["status"]);
    match numbers {
        Some(numbers) if written != numbers => Err(format!("it should be {numbers:?}, and is {written:?}")),
        None if written.allowed != 0 => Err(format!("it should allow nothing: {written:?}")),
        None if condition["message"] != message(sight, pdb) => {
            Err(format!("it tells of others: {condition}"))
        }
        _ => Ok(()),
    }
}

/// Why a budget cannot be computed once everything can be read.
fn message(sight: &Sight, pdb: &Value) -> String {
    match *sight.orphans(pdb) {
        [] => String::new(),
        [only] => format!("found no controllers for pod {only:?}"),
        [first, ref others @ ..] => {
            format!("found no controllers for pod {first:?} and {} more", others.len())
        }
    }
}

const fn boolean(truth: bool) -> &'static str {
    if truth { "True" } else { "False" }
}
