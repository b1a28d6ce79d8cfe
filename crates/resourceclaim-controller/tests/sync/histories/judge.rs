//! What the controller may write.

use std::time::Duration;

use controller_testing::history::NEVER_NEEDED;
use controller_testing::objects::{each, text};
use embedded_apiserver::{RecordedRequest, RequestVerb, Server};
use serde_json::Value;

use super::ledger::Ledger;
use super::sight::{Claim, Claimant, Entry, Sight};
use crate::world::claims_of;

/// Says whether the controller may make this write now.
pub(super) fn permits(ledger: &mut Ledger, server: &Server, write: &RecordedRequest) -> Result<(), String> {
    let sight = ledger.look(server);
    if let Some(wrong) = &ledger.wrong {
        return Err(wrong.clone());
    }
    let now = server.elapsed();
    match (&*write.resource, write.verb, &*write.subresource) {
        ("pods" | "podgroups", RequestVerb::Patch, "status") => permits_record(&sight, write),
        ("resourceclaims", RequestVerb::Create, "") => permits_create(ledger, &sight, &write.body),
        ("resourceclaims", RequestVerb::Patch, "status") => permits_status(ledger, &sight, write, now),
        ("resourceclaims", RequestVerb::Patch, "") => permits_finalizer(ledger, &sight, write, now),
        ("resourceclaims", RequestVerb::Delete, "") => permits_delete(&sight, write),
        _ => Err(NEVER_NEEDED.to_owned()),
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
    let (Some(owner), Some(entry)) = (&claim.owner, &claim.entry) else {
        return Err("nobody could tell whose claim that is".to_owned());
    };
    // The claimant may be gone, which the garbage collector will notice.
    let claimant = sight.claimant(&owner.uid);
    let Some(claimant) = claimant.filter(|claimant| claimant.lives()) else {
        return Ok(());
    };
    if claimant.is_group != owner.is_group {
        return Err(format!("{} is of another kind", owner.name));
    }
    if ledger.was_recorded(&owner.uid, &claim.name) {
        return Err(format!("it has the name of the one before, of {entry}"));
    }
    if let Some(other) = sight.made_for(claimant, entry).next() {
        return Err(format!("{entry} has {} already", other.name));
    }
    let named = claimant.entries.iter().find(|of| of.name == *entry);
    let Some((named, template)) = named.and_then(|entry| Some((entry, entry.template.as_ref()?))) else {
        return Err(format!("{entry} has no template"));
    };
    let holder = sight.holder(claimant, named);
    if holder.is_some_and(|holder| holder.uid != claimant.uid) {
        return Err(format!("the group of {} has the claim of {entry}", claimant.name));
    }
    let is_wanted = ledger.is_of_template(template, body);
    is_wanted
        .then_some(())
        .ok_or_else(|| format!("{template} never wanted such a claim"))
}

/// Forbids losing a record, and recording somebody else's claim.
fn permits_record(sight: &Sight, request: &RecordedRequest) -> Result<(), String> {
    let Some(uid) = request.body["metadata"]["uid"].as_str() else {
        return Err("it may hit another object of the name".to_owned());
    };
    let Some(claimant) = sight.claimant(uid) else {
        return Ok(());
    };
    let sent = claims_of(&request.body);
    for (entry, held) in &claimant.recorded {
        let Some(name) = sent.get(entry) else {
            return Err(format!("it forgets that {entry} is {held}"));
        };
        let is_there = |claim: &Claim| claim.is_for(claimant, entry);
        if name != held && sight.claims.get(held).is_some_and(is_there) {
            return Err(format!("{entry} is {held} already"));
        }
    }
    let strange = sent.iter().find(|(entry, name)| {
        let claim = sight.claims.get(*name);
        claim.is_some_and(|claim| !claim.is_for(claimant, entry))
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
        permits_reservation(ledger, sight, claim, consumer)?;
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

fn permits_reservation(
    ledger: &Ledger,
    sight: &Sight,
    claim: &Claim,
    consumer: &Value,
) -> Result<(), String> {
    // The process may not know yet that the consumer is gone.
    let Some(claimant) = sight.claimant(&text(&consumer["uid"])) else {
        return Ok(());
    };
    let name = &claimant.name;
    if claim.reserved.iter().any(|(_, uid)| *uid == claimant.uid) {
        return Err(format!("{name} has its reservation already"));
    }
    if *consumer != claimant.consumer() {
        return Err(format!("{name} is not {consumer}"));
    }
    let names_it = |entry: &&Entry| match &entry.users {
        Some(name) => *name == claim.name,
        None => claim.is_for(claimant, &entry.name) || is_of_one_before(claim, claimant, &entry.name),
    };
    let mut used = claimant.entries.iter().filter(names_it).peekable();
    if used.peek().is_none() {
        return Err(format!("{name} has nothing to do with this claim"));
    }
    let is_its = |holder: &Claimant| holder.uid == claimant.uid;
    if !used.any(|entry| sight.holder(claimant, entry).is_none_or(is_its)) {
        return Err(format!("the group of {name} has the reservation"));
    }
    let is_bound = claimant.bound || ledger.was_bound(&claimant.name);
    if !is_bound || !claim.allocated || claim.deleting {
        return Err(format!("it is not for us to reserve this claim for {name}"));
    }
    Ok(())
}

/// Returns whether the claim was made for a group that had the name of this one: pods know only that.
fn is_of_one_before(claim: &Claim, group: &Claimant, entry: &str) -> bool {
    let owner = claim.owner.as_ref();
    let is_of = owner.is_some_and(|owner| owner.is_group && group.is_group && owner.name == group.name);
    is_of && claim.entry.as_deref() == Some(entry)
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
        Some(owner) if owner.is_group => Err("the garbage collector deletes the claims of groups".to_owned()),
        Some(owner) if sight.lives(&owner.uid) => Err(format!("{} needs it", owner.name)),
        Some(_) if !claim.reserved.is_empty() => Err("it is in use".to_owned()),
        Some(_) => Ok(()),
    }
}
