//! Listens in on what one process of the controller is shown, and judges each status when it is sent, only by what was
//! delivered until then.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use controller_runtime::clock::Clock;
use controller_testing::objects::{is_deleting, name, text, uid};
use controller_testing::seeded_bugs::{between, send};
use embedded_apiserver::{from_protobuf, watch_events};
use http::{Method, Response};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::ledger::{Owner, Share, Sight, approved};
use crate::budget::Numbers;
use crate::world::WORKLOADS;

/// How long an answer about a `/scale` may be used: two seconds, the duration of the slowest read next to it, and some
/// room.
const ANSWER_SERVES: Duration = Duration::from_secs(10);
/// How long it may be used in its own pass, whose writes may be slow. After its first write, a pass writes only what
/// allows less.
const PASS_LASTS: Duration = Duration::from_mins(1);
/// How long an approved eviction may take (DIS-6).
const DELETION_TIMEOUT: Duration = Duration::from_mins(2);

/// The statuses that were sent, by their bodies.
pub(super) type Notes = Arc<Mutex<HashMap<String, Sent>>>;

/// A status that was sent.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// The approved evictions that its sender knew: pod and time.
    pub(super) known: BTreeSet<(String, String)>,
    /// What is wrong with it.
    pub(super) judged: Result<(), String>,
}

/// What one process was shown.
struct Tap {
    clock: Clock,
    sight: Sight,
    /// What it had been shown before each delivery of the last instant.
    before: Vec<(Instant, Sight)>,
    /// Every version, by name and resourceVersion.
    budgets: BTreeMap<String, BTreeMap<u64, Value>>,
    /// The uid that a pod had when its approved eviction was first shown, or the first one after that.
    meant: BTreeMap<(String, String, String), Option<String>>,
    answers: BTreeMap<(String, String), Vec<(Instant, Share)>>,
}

/// What an answer is about.
#[derive(Clone)]
enum Subject {
    Watch(String),
    List(String),
    /// A list as a stream, and the items so far.
    Stream(String, Vec<Value>),
    Scale(String, String),
    /// A budget of this name after a write.
    Written(String),
    Other,
}

/// `client` with a tap; `clock` is the process's.
pub(super) fn tapped(client: Client, clock: Clock, notes: &Notes) -> Client {
    let tap = Tap {
        clock,
        sight: Sight::default(),
        before: Vec::new(),
        budgets: BTreeMap::new(),
        meant: BTreeMap::new(),
        answers: BTreeMap::new(),
    };
    let (tap, notes) = (Arc::new(Mutex::new(tap)), Arc::clone(notes));
    between(client, move |client, head, body| {
        let (tap, notes) = (Arc::clone(&tap), Arc::clone(&notes));
        async move {
            let mut subject = Subject::of(&head.method, &head.uri);
            if let (Subject::Written(name), Ok(write)) = (&subject, serde_json::from_slice::<Value>(&body)) {
                let sent = tap.lock().judge(name, &write);
                notes.lock().insert(write.to_string(), sent);
            }
            let (head, body) = send(&client, head, body).await?.into_parts();
            let code = head.status.as_u16();
            let mut arrived = Vec::new();
            let body = body.map_frame(move |frame| {
                if let Some(data) = frame.data_ref() {
                    arrived.extend_from_slice(data);
                    tap.lock().show(&mut subject, code, &mut arrived);
                }
                frame
            });
            Ok(Response::from_parts(head, body))
        }
    })
}

impl Subject {
    fn of(method: &Method, uri: &http::Uri) -> Self {
        let parts: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
        match (method, &*parts) {
            (&Method::PATCH, [.., "poddisruptionbudgets", name, "status"]) => {
                Self::Written((*name).to_owned())
            }
            (&Method::GET, [.., resource, name, "scale"]) => Self::Scale(kind(resource), (*name).to_owned()),
            (&Method::GET, ["api", _, resource] | ["apis", _, _, resource]) => {
                let (query, resource) = (uri.query().unwrap_or_default(), (*resource).to_owned());
                if query.contains("sendInitialEvents=true") {
                    Self::Stream(resource, Vec::new())
                } else if query.contains("watch=") {
                    Self::Watch(resource)
                } else {
                    Self::List(resource)
                }
            }
            _ => Self::Other,
        }
    }
}

impl Tap {
    /// Takes in the complete parts of an answer that has arrived so far.
    fn show(&mut self, subject: &mut Subject, code: u16, arrived: &mut Vec<u8>) {
        let now = self.clock.instant();
        self.before.retain(|(at, _)| *at == now);
        self.before.push((now, self.sight.clone()));
        if let (Subject::Watch(resource), 200) = (&mut *subject, code) {
            for (kind, object) in watch_events(arrived) {
                match &*kind {
                    "ADDED" | "MODIFIED" => self.object(resource, &object),
                    "DELETED" => {
                        let gone = name(&object);
                        self.retain(resource, |name| *name != gone);
                    }
                    _ => {}
                }
            }
            return;
        }
        if let (Subject::Stream(resource, items), 200) = (&mut *subject, code) {
            for (kind, object) in watch_events(arrived) {
                match &*kind {
                    "ADDED" => items.push(object),
                    "BOOKMARK" => self.list(resource, items),
                    _ => {}
                }
            }
            return;
        }
        // A proxy's page has no kind.
        let json = || serde_json::from_slice::<Value>(arrived).ok();
        let json = || json().filter(|answer| answer["kind"].is_string());
        let Some(answer) = from_protobuf(arrived).or_else(json) else {
            return;
        };
        match (subject, code) {
            (Subject::List(resource), 200) => {
                assert_eq!(text(&answer["metadata"]["continue"]), "", "one page is enough");
                self.list(resource, answer["items"].as_array().unwrap());
            }
            (Subject::Scale(kind, name), 200 | 404) => {
                let replicas = answer["spec"]["replicas"].as_i64().unwrap_or_default();
                let told = (code == 200).then(|| (uid(&answer), replicas));
                let answers = self.answers.entry((kind.clone(), name.clone())).or_default();
                answers.push((self.clock.instant(), told));
            }
            (Subject::Written(_), 200) => self.object("poddisruptionbudgets", &answer),
            _ => {}
        }
    }

    /// A list is complete.
    fn list(&mut self, resource: &str, items: &[Value]) {
        let names: BTreeSet<String> = items.iter().map(name).collect();
        self.retain(resource, |name| names.contains(name));
        for item in items {
            self.object(resource, item);
        }
    }

    /// Drops the objects of this resource except those that `stays` names.
    fn retain(&mut self, resource: &str, stays: impl Fn(&String) -> bool) {
        match resource {
            "pods" => self.sight.pods.retain(|name, _| stays(name)),
            "poddisruptionbudgets" => self.budgets.retain(|name, _| stays(name)),
            _ => {
                let kind = kind(resource);
                self.sight
                    .workloads
                    .retain(|(other, name), _| *other != kind || stays(name));
            }
        }
    }

    fn object(&mut self, resource: &str, object: &Value) {
        let name = name(object);
        match resource {
            "pods" => {
                for (_, meant) in self.meant.iter_mut().filter(|((_, of, _), _)| *of == name) {
                    meant.get_or_insert_with(|| uid(object));
                }
                self.sight.pods.insert(name, object.clone());
            }
            "poddisruptionbudgets" => {
                for (pod, since) in approved(object) {
                    let meant = self.sight.pods.get(pod).map(uid);
                    let entry = (uid(object), pod.to_owned(), since.to_owned());
                    self.meant.entry(entry).or_insert(meant);
                }
                let version = text(&object["metadata"]["resourceVersion"]).parse().unwrap();
                self.budgets
                    .entry(name)
                    .or_default()
                    .insert(version, object.clone());
            }
            _ => drop(
                self.sight
                    .workloads
                    .insert((kind(resource), name), object.clone()),
            ),
        }
    }

    /// Judges a write of the status of the budget of this name.
    fn judge(&self, name: &str, write: &Value) -> Sent {
        let base = write["metadata"]["resourceVersion"].as_str();
        let versions = self.budgets.get(name);
        let pdb = versions.and_then(|versions| match base {
            Some(base) => versions.get(&base.parse().ok()?),
            None => versions.last_key_value().map(|(_, newest)| newest),
        });
        let Some(pdb) = pdb else {
            // The budget is deleted; the API server will refuse the write.
            return Sent {
                known: BTreeSet::new(),
                judged: Err("its sender was never shown the budget, or was shown that it is gone".to_owned()),
            };
        };
        let known = approved(pdb).map(|(pod, since)| (pod.to_owned(), since.to_owned()));
        let judged = |sight: &Sight| {
            self.judge_numbers(sight, pdb, write)
                .and_then(|()| self.judge_entries(sight, pdb, write))
        };
        // A status is on its way through the client for no time at all, and what is delivered meanwhile comes too late.
        let now = self.clock.instant();
        let mut before = self.before.iter().filter(|(at, _)| *at == now);
        let was_right = before.any(|(_, sight)| judged(sight).is_ok());
        Sent {
            known: known.collect(),
            judged: if was_right { Ok(()) } else { judged(&self.sight) },
        }
    }

    /// Checks that no more is allowed than the delivered objects allow.
    fn judge_numbers(&self, sight: &Sight, pdb: &Value, write: &Value) -> Result<(), String> {
        let held = &pdb["status"]["disruptionsAllowed"];
        let allowed = write["status"].get("disruptionsAllowed").unwrap_or(held);
        let allowed = allowed.as_i64().unwrap_or_default();
        let serves = match held.as_i64() {
            Some(held) if allowed < held => PASS_LASTS,
            _ => ANSWER_SERVES,
        };
        let going = sight.going(pdb, |name, since, pod| self.may_go(pdb, name, since, pod));
        let numbers = sight.numbers(pdb, going, |owner| self.answers(owner, serves));
        let most = numbers
            .into_iter()
            .flatten()
            .map(|Numbers { allowed, .. }| allowed);
        let most = most.max().unwrap_or_default();
        if allowed > most {
            return Err(format!(
                "it allows {allowed}, and what was delivered allows {most}"
            ));
        }
        Ok(())
    }

    /// Checks that no approved eviction is forgotten that may still happen.
    fn judge_entries(&self, sight: &Sight, pdb: &Value, write: &Value) -> Result<(), String> {
        let dropped = write["status"].get("disruptedPods");
        for (name, since) in approved(pdb) {
            let goes = dropped
                .is_some_and(|dropped| dropped.is_null() || dropped.get(name).is_some_and(Value::is_null));
            let pod = sight.pod_of(pdb, name);
            if goes && pod.is_some_and(|pod| !is_deleting(pod) && self.may_go(pdb, name, since, pod)) {
                return Err(format!("it forgets that {name} was approved to go"));
            }
        }
        Ok(())
    }

    /// Returns whether this pod's eviction was approved and may still happen.
    fn may_go(&self, pdb: &Value, name: &str, since: &str, pod: &Value) -> bool {
        let entry = (uid(pdb), name.to_owned(), since.to_owned());
        let meant = self.meant.get(&entry).and_then(Option::as_ref);
        let since: Timestamp = since.parse().unwrap();
        let is_late = self.clock.now() >= since.checked_add(DELETION_TIMEOUT).unwrap();
        meant.is_none_or(|meant| *meant == uid(pod)) && !is_late
    }

    fn answers(&self, owner: &Owner, serves: Duration) -> Vec<Share> {
        let answers = self.answers.get(&(owner.kind.clone(), owner.name.clone()));
        let now = self.clock.instant();
        let fresh = answers
            .into_iter()
            .flatten()
            .filter(|(at, _)| now - *at <= serves);
        fresh.map(|(_, answer)| answer.clone()).collect()
    }
}

/// The kind of a workload's resource.
fn kind(resource: &str) -> String {
    let found = WORKLOADS.into_iter().find(|workload| workload.plural == resource);
    found.map_or(resource, |workload| workload.kind).to_owned()
}
