//! Listens in on what one process of the controller is shown, and judges each status at the moment when it is sent:
//! by what was delivered until then, and by nothing else.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use controller_core::clock::Clock;
use harness::objects::text;
use harness::sabotage::{between, send};
use http::{Method, Response};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::ledger::{Answer, Owner, Pod, Sight, Workload, approved};
use crate::budget::Numbers;

/// How long an answer about a `/scale` may be used: two seconds, those that the slowest read beside it may take, and
/// some room.
const ANSWER_SERVES: Duration = Duration::from_secs(10);
/// How long an approved eviction may take (DIS-6).
const DELETION_TIMEOUT: Duration = Duration::from_mins(2);
/// Kind of each workload, by resource.
const WORKLOADS: [(&str, &str); 5] = [
    ("replicationcontrollers", "ReplicationController"),
    ("replicasets", "ReplicaSet"),
    ("deployments", "Deployment"),
    ("statefulsets", "StatefulSet"),
    ("widgets", "Widget"),
];

/// What is held of the statuses that were sent, by their bodies.
pub(super) type Notes = Arc<Mutex<HashMap<String, Sent>>>;

/// A status that was sent.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// The approved evictions that its sender knew of: pod and time.
    pub(super) known: BTreeSet<(String, String)>,
    /// What is wrong with it.
    pub(super) judged: Result<(), String>,
}

/// What one process was shown.
struct Tap {
    clock: Clock,
    sight: Sight,
    /// Every version, by name and resourceVersion.
    budgets: BTreeMap<String, BTreeMap<u64, Value>>,
    /// The uid that a pod had when its approved eviction was first shown, or the first one after that.
    meant: BTreeMap<(String, String, String), Option<String>>,
    answers: BTreeMap<(String, String), Vec<(Instant, Answer)>>,
}

/// What an answer is about.
#[derive(Clone)]
enum Subject {
    Watch(String),
    List(String),
    /// Kind and name.
    Scale(String, String),
    /// A budget after a write.
    Written,
    Other,
}

/// `client`, listened in on; `clock` is the process's.
pub(super) fn tapped(client: Client, clock: Clock, notes: &Notes) -> Client {
    let (tap, notes) = (Arc::new(Mutex::new(Tap::new(clock))), Arc::clone(notes));
    between(client, move |client, head, body| {
        let (tap, notes) = (Arc::clone(&tap), Arc::clone(&notes));
        async move {
            let subject = Subject::of(&head.method, &head.uri);
            if let (Subject::Written, Ok(write)) = (&subject, serde_json::from_slice::<Value>(&body)) {
                let name = head.uri.path().rsplit('/').nth(1).unwrap_or_default();
                let sent = tap.lock().judge(name, &write);
                notes.lock().insert(write.to_string(), sent);
            }
            let (head, body) = send(&client, head, body).await?.into_parts();
            let code = head.status.as_u16();
            let mut arrived = Vec::new();
            let body = body.map_frame(move |frame| {
                if let Some(data) = frame.data_ref() {
                    arrived.extend_from_slice(data);
                    tap.lock().show(&subject, code, &mut arrived);
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
        match (method, parts.as_slice()) {
            (&Method::PATCH, [.., "poddisruptionbudgets", _, "status"]) => Self::Written,
            (&Method::GET, [.., resource, name, "scale"]) => Self::Scale(kind(resource), (*name).to_owned()),
            (&Method::GET, ["api", _, resource] | ["apis", _, _, resource]) => {
                if uri.query().is_some_and(|query| query.contains("watch=")) {
                    Self::Watch((*resource).to_owned())
                } else {
                    Self::List((*resource).to_owned())
                }
            }
            _ => Self::Other,
        }
    }
}

impl Tap {
    fn new(clock: Clock) -> Self {
        Self {
            clock,
            sight: Sight::default(),
            budgets: BTreeMap::new(),
            meant: BTreeMap::new(),
            answers: BTreeMap::new(),
        }
    }

    /// Takes in what has arrived of an answer, as far as it is whole.
    fn show(&mut self, subject: &Subject, code: u16, arrived: &mut Vec<u8>) {
        if let (Subject::Watch(resource), 200) = (subject, code) {
            while let Some(end) = arrived.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = arrived.drain(..=end).collect();
                if let Ok(event) = serde_json::from_slice::<Value>(&line) {
                    self.event(resource, &event);
                }
            }
            return;
        }
        let Ok(answer) = serde_json::from_slice::<Value>(arrived) else {
            return;
        };
        match (subject, code) {
            (Subject::List(resource), 200) => {
                assert!(
                    text(&answer["metadata"]["continue"]).is_empty(),
                    "one page is enough"
                );
                self.list(resource, answer["items"].as_array().map_or(&[], |items| items));
            }
            (Subject::Scale(kind, name), 200 | 404) => {
                let replicas = answer["spec"]["replicas"].as_i64().unwrap_or_default();
                let told = (code == 200).then(|| (text(&answer["metadata"]["uid"]), replicas));
                let answers = self.answers.entry((kind.clone(), name.clone())).or_default();
                answers.push((self.clock.instant(), told));
            }
            (Subject::Written, 200) => self.object("poddisruptionbudgets", &answer),
            _ => {}
        }
    }

    fn event(&mut self, resource: &str, event: &Value) {
        let object = &event["object"];
        match event["type"].as_str() {
            Some("ADDED" | "MODIFIED") => self.object(resource, object),
            Some("DELETED") => self.gone(resource, &text(&object["metadata"]["name"])),
            _ => {}
        }
    }

    fn list(&mut self, resource: &str, items: &[Value]) {
        let names: BTreeSet<&str> = items
            .iter()
            .filter_map(|item| item["metadata"]["name"].as_str())
            .collect();
        let kind = kind(resource);
        match resource {
            "pods" => self.sight.pods.retain(|name, _| names.contains(&**name)),
            "poddisruptionbudgets" => self.budgets.retain(|name, _| names.contains(&**name)),
            _ => {
                let workloads = &mut self.sight.workloads;
                workloads.retain(|(other, name), _| *other != kind || names.contains(&**name));
            }
        }
        for item in items {
            self.object(resource, item);
        }
    }

    fn object(&mut self, resource: &str, object: &Value) {
        let name = text(&object["metadata"]["name"]);
        match resource {
            "pods" => {
                let pod = Pod::of(object);
                for ((_, of, _), meant) in &mut self.meant {
                    if *of == name {
                        meant.get_or_insert_with(|| pod.uid.clone());
                    }
                }
                self.sight.pods.insert(name, pod);
            }
            "poddisruptionbudgets" => {
                for (pod, since) in approved(object) {
                    let uid = self.sight.pods.get(pod).map(|pod| pod.uid.clone());
                    let entry = (text(&object["metadata"]["uid"]), pod.to_owned(), since.to_owned());
                    self.meant.entry(entry).or_insert(uid);
                }
                let version = text(&object["metadata"]["resourceVersion"]).parse().unwrap();
                self.budgets
                    .entry(name)
                    .or_default()
                    .insert(version, object.clone());
            }
            _ => {
                let workload = Workload::of(object);
                self.sight.workloads.insert((kind(resource), name), workload);
            }
        }
    }

    fn gone(&mut self, resource: &str, name: &str) {
        match resource {
            "pods" => drop(self.sight.pods.remove(name)),
            "poddisruptionbudgets" => drop(self.budgets.remove(name)),
            _ => drop(self.sight.workloads.remove(&(kind(resource), name.to_owned()))),
        }
    }

    /// A write of the status of the budget of this name is sent.
    fn judge(&self, name: &str, write: &Value) -> Sent {
        let base = write["metadata"]["resourceVersion"].as_str();
        let versions = self.budgets.get(name);
        let pdb = versions.and_then(|versions| match base {
            Some(base) => versions.get(&base.parse().ok()?),
            None => versions.last_key_value().map(|(_, newest)| newest),
        });
        let Some(pdb) = pdb else {
            // A deleted budget: the API server knows.
            return Sent {
                known: BTreeSet::new(),
                judged: Err("its sender was never shown the budget, or was shown that it is gone".to_owned()),
            };
        };
        let known = approved(pdb).map(|(pod, since)| (pod.to_owned(), since.to_owned()));
        Sent {
            known: known.collect(),
            judged: self
                .judge_numbers(pdb, write)
                .and_then(|()| self.judge_entries(pdb, write)),
        }
    }

    /// No more is allowed than what was delivered allows.
    fn judge_numbers(&self, pdb: &Value, write: &Value) -> Result<(), String> {
        let held = &pdb["status"]["disruptionsAllowed"];
        let allowed = write["status"].get("disruptionsAllowed").unwrap_or(held);
        let allowed = allowed.as_i64().unwrap_or_default();
        let going = self
            .sight
            .going(pdb, |name, since, pod| self.may_go(pdb, name, since, pod));
        let numbers = self.sight.numbers(pdb, going, |owner| self.answers(owner));
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

    /// No approved eviction is forgotten that may still come.
    fn judge_entries(&self, pdb: &Value, write: &Value) -> Result<(), String> {
        let dropped = write["status"].get("disruptedPods");
        for (name, since) in approved(pdb) {
            let goes = dropped
                .is_some_and(|dropped| dropped.is_null() || dropped.get(name).is_some_and(Value::is_null));
            let pod = self.sight.pod_of(pdb, name);
            let pod = pod.filter(|pod| goes && !pod.terminating && self.may_go(pdb, name, since, pod));
            if pod.is_some() {
                return Err(format!("it forgets that {name} was approved to go"));
            }
        }
        Ok(())
    }

    /// Whether it is this pod whose eviction was approved, and it may still come.
    fn may_go(&self, pdb: &Value, name: &str, since: &str, pod: &Pod) -> bool {
        let entry = (text(&pdb["metadata"]["uid"]), name.to_owned(), since.to_owned());
        let meant = self.meant.get(&entry).and_then(Option::as_ref);
        let since: Timestamp = since.parse().unwrap();
        let is_late = self.clock.now() >= since.checked_add(DELETION_TIMEOUT).unwrap();
        meant.is_none_or(|uid| *uid == pod.uid) && !is_late
    }

    fn answers(&self, owner: &Owner) -> Vec<Answer> {
        let answers = self.answers.get(&(owner.kind.clone(), owner.name.clone()));
        let now = self.clock.instant();
        let fresh = answers
            .into_iter()
            .flatten()
            .filter(|(at, _)| now - *at <= ANSWER_SERVES);
        fresh.map(|(_, answer)| answer.clone()).collect()
    }
}

fn kind(resource: &str) -> String {
    let found = WORKLOADS.iter().find(|(plural, _)| *plural == resource);
    found.map_or(resource, |(_, kind)| kind).to_owned()
}
