//! What the controller may write, and what must have become of the claims.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controller_testing::fault_history::{At, Draw, EndState, History};
use controller_testing::history::{NEVER_NEEDED, Scene, Scripted};
use controller_testing::objects::{each, edit, text};
use controller_testing::past::UndoneWrites;
use embedded_apiserver::{
    PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RecordedRequest, RequestVerb, Resource, Server,
};
use parking_lot::Mutex;
use resourceclaim_controller::ResourceClaimController;
use serde_json::Value;
use tokio::task::JoinSet;

use super::ledger::{Claim, Ledger, Pod, Sight};
use super::scheduler::Scheduler;
use super::steps;
use crate::world::claims_of;

/// Most writes that one step may cause.
const WRITES_A_STEP: usize = 10;
/// The end of a history, in which nothing happens.
const QUIET: Duration = Duration::from_secs(25);
/// Most writes that giving a claim back takes.
const MOST_STEPS: usize = 4;
/// Most times that a process sends a write which is refused, beside one for each step and fault: the waits double from
/// 5 ms on, and a refusal lasts for at most two minutes.
const MOST_TRIES: usize = 20;

/// Everything but the controller.
#[derive(Default)]
pub(super) struct Claims {
    pub(super) ledger: Arc<Mutex<Ledger>>,
    pub(super) scheduler: Scheduler,
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
    ];
    const WRITES: &'static [&'static Resource] = &[&RESOURCE_CLAIMS, &PODS];
    /// The scheduler and the kubelet act between the steps.
    const REWINDS: bool = false;
    const HAS_RIVAL: bool = true;
    const LENGTH: Duration = Duration::from_secs(90);
    /// Five more minutes pass before a finalizer is removed that a scheduler has left.
    const SETTLES_WITHIN: Duration = Duration::from_mins(12);

    fn steps(draw: &mut Draw) -> Vec<At<Scripted<Self>>> {
        steps::drawn(draw, Self::LENGTH)
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
        steps::rest(server);
        self.ledger.lock().look(server);
        while self.ends.try_join_next().is_some() {}
        if !self.ends.is_empty() || self.scheduler.is_binding(server, &self.ledger) {
            return Err("the scheduler or the kubelet is still at work".to_owned());
        }
        Sight::of(server).is_settled(server)
    }

    /// The claim of each entry: whether a pod was bound, and so what is reserved, depends on the controller's delays.
    fn state(&self, server: &Server) -> EndState {
        let sight = Sight::of(server);
        let pods = sight.pods.iter().filter(|pod| pod.lives());
        let claims = |pod: &Pod| {
            let claims = pod.entries.iter().map(|entry| {
                let claim = pod.claim_of(entry).and_then(|name| sight.claims.get(name));
                let whose = claim.map(|claim| match &entry.users {
                    Some(name) => name.as_str(),
                    None if claim.is_of(&pod.uid) => "its own",
                    None => "another\'s",
                });
                format!("{}: {}", entry.name, whose.unwrap_or("none"))
            });
            claims.collect::<Vec<_>>().join(", ")
        };
        pods.map(|pod| (pod.name.clone(), claims(pod))).collect()
    }

    fn permits(&mut self, server: &Server, write: &RecordedRequest) -> Result<(), String> {
        let mut ledger = self.ledger.lock();
        let sight = ledger.look(server);
        if let Some(wrong) = &ledger.wrong {
            return Err(wrong.clone());
        }
        let now = server.elapsed();
        match (&*write.resource, write.verb, &*write.subresource) {
            ("pods", RequestVerb::Patch, "status") => permits_record(&sight, write),
            ("resourceclaims", RequestVerb::Create, "") => permits_create(&ledger, &sight, &write.body),
            ("resourceclaims", RequestVerb::Patch, "status") => {
                permits_status(&mut ledger, &sight, write, now)
            }
            ("resourceclaims", RequestVerb::Patch, "") => permits_finalizer(&ledger, &sight, write, now),
            ("resourceclaims", RequestVerb::Delete, "") => permits_delete(&sight, write),
            _ => Err(NEVER_NEEDED.to_owned()),
        }
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

/// The claim that a write is about; `None` if it is not the one that was judged, because then the API server refuses
/// the write.
fn judged<'a>(sight: &'a Sight, write: &RecordedRequest, judged: &Value) -> Option<&'a Claim> {
    let differs = |field: &str, is: &str| judged[field].as_str().is_some_and(|expected| expected != is);
    let claim = sight.claims.get(&write.name)?;
    (!differs("uid", &claim.uid) && !differs("resourceVersion", &claim.version)).then_some(claim)
}

/// Permits one claim for an entry, under a name that none before it had, as its template wants it.
fn permits_create(ledger: &Ledger, sight: &Sight, body: &Value) -> Result<(), String> {
    let claim = Claim::of(body);
    if sight.claims.contains_key(&claim.name) {
        return Ok(());
    }
    let (Some((_, uid)), Some(entry)) = (&claim.owner, &claim.entry) else {
        return Err("nobody could tell whose claim that is".to_owned());
    };
    // The pod may be gone, which the garbage collector will notice.
    let Some(pod) = sight.pod(uid).filter(|pod| pod.lives()) else {
        return Ok(());
    };
    if ledger.was_recorded(uid, &claim.name) {
        return Err(format!("it has the name of the one before, of {entry}"));
    }
    if let Some(other) = sight.made_for(pod, entry).next() {
        return Err(format!("{entry} has {} already", other.name));
    }
    let template = pod.entries.iter().find(|of| of.name == *entry);
    let Some(template) = template.and_then(|entry| entry.template.as_ref()) else {
        return Err(format!("{entry} has no template"));
    };
    let is_wanted = ledger.is_of_template(template, body);
    is_wanted
        .then_some(())
        .ok_or_else(|| format!("{template} never wanted such a claim"))
}

/// Forbids losing a record, and recording somebody else's claim.
fn permits_record(sight: &Sight, request: &RecordedRequest) -> Result<(), String> {
    let Some(uid) = request.body["metadata"]["uid"].as_str() else {
        return Err("it may hit another pod of the name".to_owned());
    };
    let Some(pod) = sight.pod(uid) else {
        return Ok(());
    };
    let sent = claims_of(&request.body);
    for (entry, held) in &pod.recorded {
        let Some(name) = sent.get(entry) else {
            return Err(format!("it forgets that {entry} is {held}"));
        };
        let is_there = |claim: &Claim| claim.is_of(uid) && claim.entry.as_ref() == Some(entry);
        if name != held && sight.claims.get(held).is_some_and(is_there) {
            return Err(format!("{entry} is {held} already"));
        }
    }
    let strange = sent.iter().find(|(entry, name)| {
        let is_its = |claim: &Claim| claim.is_of(uid) && claim.entry.as_ref() == Some(entry);
        sight.claims.get(*name).is_some_and(|claim| !is_its(claim))
    });
    match strange {
        Some((entry, name)) => Err(format!("{name} was not made for {entry}")),
        None => Ok(()),
    }
}

/// Permits reservations for pods that need them and lack them, and their removal from pods that no longer need them;
/// the allocation goes with the last one.
fn permits_status(
    ledger: &mut Ledger,
    sight: &Sight,
    request: &RecordedRequest,
    now: Duration,
) -> Result<(), String> {
    let Some(claim) = judged(sight, request, &request.body["metadata"]) else {
        return Ok(());
    };
    let status = &request.body["status"];
    let change = &status["reservedFor"];
    let (gone, made): (Vec<_>, Vec<_>) = each(change).partition(|entry| entry["$patch"] == "delete");
    for consumer in made {
        permits_reservation(sight, claim, consumer)?;
        if ledger.has_taken_off(&request.user_agent, claim, &text(&consumer["uid"])) {
            return Err(format!("{} was taken off before", consumer["name"]));
        }
    }
    let all = status.get("reservedFor").is_some_and(Value::is_null);
    let goes = |uid: &String| all || gone.iter().any(|entry| entry["uid"] == **uid);
    let (lost, left): (Vec<_>, Vec<_>) = claim.reserved.iter().partition(|(_, uid)| goes(uid));
    if let Some((name, _)) = lost.iter().find(|(_, uid)| sight.lives(uid)) {
        return Err(format!("{name} loses its reservation"));
    }
    for (_, uid) in lost {
        ledger.takes_off(&request.user_agent, claim, uid);
    }
    if status.get("allocation").is_some() {
        if !left.is_empty() {
            return Err("it takes the allocation of a claim that is in use".to_owned());
        }
        ledger.releases(claim, now);
    }
    Ok(())
}

fn permits_reservation(sight: &Sight, claim: &Claim, consumer: &Value) -> Result<(), String> {
    let uid = text(&consumer["uid"]);
    // The process may not know yet that the pod is gone.
    let Some(pod) = sight.pod(&uid) else { return Ok(()) };
    let uses = pod.entries.iter().any(|entry| match &entry.users {
        Some(name) => *name == claim.name,
        None => claim.is_of(&uid) && claim.entry.as_ref() == Some(&entry.name),
    });
    if !uses {
        return Err(format!("{} has nothing to do with this claim", pod.name));
    }
    if !pod.bound || !claim.allocated || claim.deleting {
        return Err(format!("it is not for us to reserve this claim for {}", pod.name));
    }
    Ok(())
}

/// Permits removing the finalizer of a claim that is not allocated, unless the scheduler may be about to allocate it.
fn permits_finalizer(
    ledger: &Ledger,
    sight: &Sight,
    request: &RecordedRequest,
    now: Duration,
) -> Result<(), String> {
    let Some(claim) = judged(sight, request, &request.body["metadata"]) else {
        return Ok(());
    };
    if claim.allocated || !claim.reserved.is_empty() {
        return Err("nothing protects the allocation any more".to_owned());
    }
    if !ledger.may_lose_its_finalizer(claim, now) {
        return Err("the scheduler may be about to allocate it".to_owned());
    }
    Ok(())
}

/// Permits deleting a pod's own claim, once the pod no longer needs it and nobody uses it.
fn permits_delete(sight: &Sight, request: &RecordedRequest) -> Result<(), String> {
    let Some(claim) = judged(sight, request, &request.body["preconditions"]) else {
        return Ok(());
    };
    match &claim.owner {
        None => Err("it is no pod's claim".to_owned()),
        Some((pod, uid)) if sight.lives(uid) => Err(format!("{pod} needs it")),
        Some(_) if !claim.reserved.is_empty() => Err("it is in use".to_owned()),
        Some(_) => Ok(()),
    }
}
