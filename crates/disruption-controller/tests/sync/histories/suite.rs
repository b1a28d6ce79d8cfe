//! What the controller may write, and what the statuses must say.

use std::time::Duration;

use controller_testing::fault_history::{At, Draw, EndState, History, Life};
use controller_testing::history::{NEVER_NEEDED, Scene, Scripted, accepting};
use controller_testing::objects::{condition, edit, name, stays, text};
use controller_testing::past::{UndoneWrites, now};
use disruption_controller::DisruptionController;
use embedded_apiserver::{POD_DISRUPTION_BUDGETS, PODS, RecordedRequest, RequestVerb, Resource, Server};
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};

use super::ledger::{Sight, approved};
use super::steps::{self, Asked};
use super::tap::{Notes, tapped};
use crate::budget::Numbers;

/// The message about a custom resource that is not defined.
const UNKNOWN: &str = "no matches for kind \"Widget\" in version \"example.com/v1\"";
const RIVALS_WORDS: &str = "in other words";
/// How long a pod marked for disruption may stay before the mark is stale (DIS-15).
const STALE_AFTER: Duration = Duration::from_mins(2);

#[derive(Default)]
pub(super) struct Budgets {
    pub(super) asked: Asked,
    /// The statuses that were sent.
    notes: Notes,
    undone: UndoneWrites,
}

impl Scene for Budgets {
    type App = DisruptionController;

    const READS: &'static [&'static Resource] = &[&POD_DISRUPTION_BUDGETS, &PODS];
    const WRITES: &'static [&'static Resource] = &[&POD_DISRUPTION_BUDGETS, &POD_DISRUPTION_BUDGETS, &PODS];
    const HAS_RIVAL: bool = true;
    const LENGTH: Duration = Duration::from_secs(90);

    fn steps(draw: &mut Draw) -> Vec<At<Scripted<Self>>> {
        steps::drawn(draw, Self::LENGTH)
    }

    fn client(&self, life: &Life) -> Client {
        tapped(life.client.clone(), life.clock.clone(), &self.notes)
    }

    /// Says the same in other words.
    fn undo(&mut self, server: &Server) -> bool {
        let mut budgets = server.list(&POD_DISRUPTION_BUDGETS);
        budgets.retain(|pdb| {
            let message = &condition(pdb, "DisruptionAllowed")["message"];
            message.is_string() && *message != RIVALS_WORDS
        });
        for pdb in &budgets {
            edit(server, &POD_DISRUPTION_BUDGETS, &name(pdb), |pdb| {
                pdb["status"]["conditions"][0]["message"] = json!(RIVALS_WORDS);
            });
            self.undone.add(server, &name(pdb));
        }
        !budgets.is_empty()
    }

    fn afterwards(&self, _: &Server, _: &History<Scripted<Self>>) -> Result<(), String> {
        self.undone.were_left()
    }

    /// Which evictions passed depends on the controller's delays: first, evicted pods are brought back.
    fn settled(&mut self, server: &Server) -> Result<(), String> {
        self.asked.rest(server);
        let sight = Sight::of(server);
        for pdb in server.list(&POD_DISRUPTION_BUDGETS) {
            says_it_all(&sight, &pdb).map_err(|why| format!("{}: {why}", name(&pdb)))?;
        }
        let mut pods = server.list(&PODS).into_iter();
        match pods.find(|pod| stays(Some(pod)) && wanted_since(pod).is_some()) {
            Some(pod) => Err(format!("{} is still a DisruptionTarget", name(&pod))),
            None => Ok(()),
        }
    }

    fn state(&self, server: &Server) -> EndState {
        let sight = Sight::of(server);
        let told = |pdb: &Value| {
            let condition = condition(pdb, "DisruptionAllowed");
            let [says, reason, message] =
                ["status", "reason", "message"].map(|field| text(&condition[field]));
            // If a budget cannot be computed, its other numbers are from some time before.
            let numbers = (reason != "SyncFailed").then(|| Numbers::of(&pdb["status"]));
            if sight.truths(pdb).len() > 1 {
                return "one of several truths".to_owned();
            }
            // A kind that goes brings no event, so that the reason depends on when the kind was looked for.
            let message = if sight.has_unknown(pdb) {
                String::new()
            } else {
                message
            };
            format!("{numbers:?} {says} {reason} {message}")
        };
        let budgets = server.list(&POD_DISRUPTION_BUDGETS).into_iter();
        budgets.map(|pdb| (name(&pdb), told(&pdb))).collect()
    }

    fn permits(&mut self, server: &Server, write: &RecordedRequest) -> Result<(), String> {
        match (&*write.resource, write.verb, &*write.subresource) {
            ("poddisruptionbudgets", RequestVerb::Patch, "status") => self.permits_status(server, write),
            ("pods", RequestVerb::Patch, "status") => permits_reset(server, write),
            _ => Err(NEVER_NEEDED.to_owned()),
        }
    }
}

impl Budgets {
    /// Forbids a status that allows too much, or that undoes an approved eviction.
    fn permits_status(&self, server: &Server, write: &RecordedRequest) -> Result<(), String> {
        let pdb = accepting(server, &POD_DISRUPTION_BUDGETS, write, &write.body["metadata"]);
        let Some(pdb) = pdb else {
            return Ok(());
        };
        let sent = self.notes.lock().get(&write.body.to_string()).cloned();
        let sent = sent.ok_or("nobody saw that it was sent")?;
        let is_known = |pod: &str, since: &str| sent.known.contains(&(pod.to_owned(), since.to_owned()));
        if let Some((pod, _)) = approved(&pdb).find(|(pod, since)| !is_known(pod, since)) {
            return Err(format!("it overwrites the approved eviction of {pod}"));
        }
        sent.judged
    }
}

/// Permits a reset of a stale condition, and of nothing else in the pod.
fn permits_reset(server: &Server, write: &RecordedRequest) -> Result<(), String> {
    let Some(pod) = accepting(server, &PODS, write, &write.body["metadata"]) else {
        return Ok(());
    };
    let stale_from = wanted_since(&pod).map(|since| since.checked_add(STALE_AFTER).unwrap());
    match stale_from {
        Some(stale_from) if stale_from <= now(server) => Ok(()),
        _ => Err("the pod's condition is not stale".to_owned()),
    }
}

/// Since when the pod is marked for disruption.
fn wanted_since(pod: &Value) -> Option<Timestamp> {
    let target = condition(pod, "DisruptionTarget");
    let since = target["lastTransitionTime"].as_str()?.parse().unwrap();
    (target["status"] == "True").then_some(since)
}

/// Checks that the status of a budget is what the rules demand of everything that exists.
fn says_it_all(sight: &Sight, pdb: &Value) -> Result<(), String> {
    let truths = sight.truths(pdb).into_iter();
    let mut said = truths.map(|numbers| says(sight, pdb, numbers));
    let first = said.next().unwrap();
    said.fold(first, Result::or)
}

fn says(sight: &Sight, pdb: &Value, numbers: Option<Numbers>) -> Result<(), String> {
    let (status, condition) = (&pdb["status"], condition(pdb, "DisruptionAllowed"));
    // A budget that cannot be computed keeps its entries.
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
    let (says, reason) = match numbers {
        None => ("False", "SyncFailed"),
        Some(Numbers { allowed: 0, .. }) => ("False", "InsufficientPods"),
        Some(_) => ("True", "SufficientPods"),
    };
    if condition["reason"] != reason || condition["status"] != says {
        return Err(format!("it should say {reason}: {condition}"));
    }
    let written = Numbers::of(status);
    match numbers {
        Some(numbers) if written != numbers => Err(format!("it should be {numbers:?}, and is {written:?}")),
        None if written.allowed != 0 => Err(format!("it should allow nothing: {written:?}")),
        None if !is_why(sight, pdb, &text(&condition["message"])) => {
            Err(format!("it tells of others: {condition}"))
        }
        _ if condition["message"] == RIVALS_WORDS => Err(format!("it is in a rival's words: {condition}")),
        _ => Ok(()),
    }
}

/// Returns whether this is why a budget cannot be computed once everything can be read.
fn is_why(sight: &Sight, pdb: &Value, message: &str) -> bool {
    let orphans = sight.orphans(pdb);
    if sight.has_unknown(pdb) {
        // Controllers are looked for up to the first of a kind that is not defined.
        let mut some = orphans
            .iter()
            .map(|pod| format!("found no controllers for pod {pod:?}"));
        return message == UNKNOWN || some.any(|missing| message.starts_with(&missing));
    }
    message
        == match *orphans {
            [] => String::new(),
            [only] => format!("found no controllers for pod {only:?}"),
            [first, ref others @ ..] => {
                format!("found no controllers for pod {first:?} and {} more", others.len())
            }
        }
}
