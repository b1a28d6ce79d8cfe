//! A handful of Jobs and pods, their namespace and the file with policies: what happens to them, and what must become of
//! them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use controller_testing::fault_history::{At, Draw, History};
use controller_testing::history::{NEVER_NEEDED, Scene, Scripted, accepting, step};
use controller_testing::objects::{self, edit, remove, rfc3339};
use controller_testing::past::{Ends, Past, Pasts, at, millis, prompt, second};
use controller_testing::{ConfigOf, Start};
use embedded_apiserver::{JOBS, NAMESPACES, PODS, RecordedRequest, RequestVerb, Resource, Server};
use serde_json::{Value, json};
use tempfile::TempDir;
use ttl_after_finished_controller::TtlAfterFinishedController;

use super::{jobs, policies};
use crate::ledger::{BELIEVED, Ledger, Namespace, Policy, Told, applying};
use crate::world::job as job_of;

const KEEP: &str = "ttl-after-finished-controller/keep";
/// Later than any history lasts, an hour's outage included, in milliseconds since the start.
const NEVER: i64 = 24 * 3_600_000;

/// Jobs with ttls of their own; with `POLICIES` also pods, and the policies that clean both up.
pub(super) struct Debris<const POLICIES: bool> {
    jobs: Pasts<Told>,
    pods: Pasts<Told>,
    pub(super) ledger: Ledger,
    dir: TempDir,
    /// When the first request of each process came, in milliseconds.
    lives: BTreeMap<String, i64>,
    /// The uids that each process deleted by each policy of a file, and when, in milliseconds.
    deletes: BTreeMap<(String, usize, usize), BTreeMap<String, i64>>,
    /// What no controller that has seen everything would delete.
    unseen: Option<String>,
}

pub(super) type Step<const POLICIES: bool> = Scripted<Debris<POLICIES>>;

/// A Job or a pod, by its number.
#[derive(Clone, Copy)]
pub(super) struct Named {
    pub(super) is_pod: bool,
    pub(super) number: usize,
}

impl Named {
    const fn resource(self) -> &'static Resource {
        if self.is_pod { &PODS } else { &JOBS }
    }

    fn name(self) -> String {
        let kind = if self.is_pod { "pod" } else { "job" };
        format!("{kind}-{}", self.number)
    }
}

impl<const POLICIES: bool> Default for Debris<POLICIES> {
    fn default() -> Self {
        let files = if POLICIES {
            vec![(0, vec![Policy::IDLE])]
        } else {
            Vec::new()
        };
        let scene = Self {
            jobs: Pasts::default(),
            pods: Pasts::default(),
            ledger: Ledger {
                files,
                ..Ledger::default()
            },
            dir: TempDir::new().unwrap(),
            lives: BTreeMap::new(),
            deletes: BTreeMap::new(),
            unseen: None,
        };
        scene.mend();
        scene
    }
}

impl<const POLICIES: bool> Debris<POLICIES> {
    pub(super) fn file(&self) -> PathBuf {
        self.dir.path().join("config.yaml")
    }

    /// Writes the file as it last was when it was right.
    pub(super) fn mend(&self) {
        fs::write(self.file(), policies::text(&self.ledger.files)).unwrap();
    }

    fn pasts(&mut self, is_pod: bool) -> &mut Pasts<Told> {
        if is_pod { &mut self.pods } else { &mut self.jobs }
    }

    /// Changes an object and what is known of it.
    pub(super) fn change(
        &mut self,
        server: &Server,
        object: Named,
        edits: impl FnOnce(&mut Value),
        told: impl FnOnce(&mut Told),
    ) {
        edit(server, object.resource(), &object.name(), edits);
        self.pasts(object.is_pod).tell(server, &object.name(), told);
    }

    pub(super) fn change_namespace(&mut self, server: &Server, change: impl FnOnce(&mut Namespace)) {
        let (_, mut namespace) = self.ledger.namespaces[self.ledger.namespaces.len() - 1];
        change(&mut namespace);
        let now = millis(server.elapsed());
        self.ledger.namespaces.push((now, namespace));
        let Namespace { team, keep } = namespace;
        server
            .edit(&NAMESPACES, "", "default", |object| {
                object["metadata"]["labels"] = if team { json!({ "team": "a" }) } else { json!({}) };
                object["metadata"]["annotations"] = kept(keep);
            })
            .unwrap();
    }

    /// Counts a delete of this uid, which goes once; fails if it is one too many within an hour.
    fn count(
        &mut self,
        process: &str,
        uid: &str,
        (file, policy): (usize, usize),
        now: i64,
    ) -> Result<(), String> {
        let deletes = self
            .deletes
            .entry((process.to_owned(), file, policy))
            .or_default();
        deletes.retain(|_, then| now - *then < 3_600_000);
        deletes.insert(uid.to_owned(), now);
        match self.ledger.files[file].1[policy].most {
            Some(most) if deletes.len() > most as usize => Err(format!(
                "policy p{file}-{policy} deletes more than its maxPerHour ({most})"
            )),
            _ => Ok(()),
        }
    }

    /// True if this policy of a file keeps the object, because none like it has failed later.
    fn is_last_failed(&self, server: &Server, past: &Past<Told>, (file, policy): (usize, usize)) -> bool {
        let (_, policies) = &self.ledger.files[file];
        let (_, namespace) = self.ledger.namespaces[self.ledger.namespaces.len() - 1];
        let failed = |past: &Past<Told>| {
            let (finish, failed) = past.last().finished?;
            failed.then(|| (finish, past.name.clone()))
        };
        let Some(this) = failed(past).filter(|_| policies[policy].keeps_last_failed) else {
            return false;
        };
        let Told { is_pod, owned, .. } = *past.last();
        let named = |name: &str| objects::find(server, if is_pod { &PODS } else { &JOBS }, name);
        let is_later = |other: &Past<Told>| {
            let told = other.last();
            let applies = told.ttl.is_none() && applying(policies, told, namespace) == Ok(policy);
            let is_there = named(&other.name)
                .is_some_and(|found| !objects::is_deleting(&found) && objects::uid(&found) == other.uid);
            applies && is_there && told.owned == owned && failed(other) > Some(this.clone())
        };
        let pasts = if is_pod { &self.pods } else { &self.jobs };
        !pasts.0.iter().any(is_later)
    }

    /// When the process that sent this request began.
    fn life(&mut self, server: &Server, write: &RecordedRequest) -> i64 {
        let agent = &write.user_agent;
        if let Some(began) = self.lives.get(agent) {
            return *began;
        }
        let requests = server.requests_where(|request| request.user_agent == *agent);
        let began = millis(requests.first().map_or(write.arrived, |first| first.arrived));
        self.lives.insert(agent.clone(), began);
        began
    }
}

impl<const POLICIES: bool> Scene for Debris<POLICIES> {
    type App = TtlAfterFinishedController;

    const TITLE: &'static str = if POLICIES {
        "ttl-after-finished-controller/policies"
    } else {
        ttl_after_finished_controller::NAME
    };
    const READS: &'static [&'static Resource] = if POLICIES {
        &[&JOBS, &PODS, &NAMESPACES]
    } else {
        &[&JOBS]
    };
    const WRITES: &'static [&'static Resource] = if POLICIES { &[&JOBS, &PODS] } else { &[&JOBS] };
    const GETS: bool = false;
    /// Objects that are due for a moment, until somebody keeps them or a policy changes.
    const MOST_OPEN: usize = if POLICIES { 30 } else { 15 };

    fn steps(draw: &mut Draw) -> Vec<At<Scripted<Self>>> {
        if POLICIES {
            policies::steps(draw, Self::LENGTH)
        } else {
            jobs::steps(draw, Self::LENGTH)
        }
    }

    fn start(&self) -> Start<ConfigOf<Self::App>> {
        let start = Start::of::<Self::App>();
        if !POLICIES {
            return start;
        }
        // A process with a broken file does not start before the file is right.
        let content = fs::read(self.file()).unwrap();
        self.mend();
        let start = start.config_file(&self.file());
        fs::write(self.file(), content).unwrap();
        start
    }

    fn ends(&self, server: &Server) -> Ends {
        let fate = |past: &_| self.ledger.fate(past, NEVER);
        let mut ends = self.jobs.ends(server, &JOBS, fate);
        ends.extend(self.pods.ends(server, &PODS, fate));
        ends
    }

    fn permits(&mut self, server: &Server, write: &RecordedRequest) -> Result<(), String> {
        let (is_pod, propagation) = match &*write.resource {
            "jobs" => (false, json!("Foreground")),
            "pods" if POLICIES => (true, Value::Null),
            _ => return Err(NEVER_NEEDED.to_owned()),
        };
        if write.verb != RequestVerb::Delete || write.body["propagationPolicy"] != propagation {
            return Err(NEVER_NEEDED.to_owned());
        }
        let preconditions = &write.body["preconditions"];
        if !preconditions["uid"].is_string() {
            return Err("the delete may hit another object of the name".to_owned());
        }
        let resource = if is_pod { &PODS } else { &JOBS };
        let Some(object) = accepting(server, resource, write, preconditions) else {
            return Ok(());
        };
        let life = self.life(server, write);
        let now = millis(write.arrived);
        let mut pasts = self.pasts(is_pod).0.iter();
        let past = pasts
            .find(|past| object["metadata"]["uid"] == past.uid)
            .ok_or("nobody made it")?
            .clone();
        let whole = self.ledger.permits(&past, life, now, 0);
        let whole = whole.and_then(|by| match by {
            Some(by) if self.is_last_failed(server, &past, by) => {
                Err("it is the last that failed".to_owned())
            }
            _ => Ok(()),
        });
        if let Err(why) = whole {
            self.unseen.get_or_insert(format!("{why}: {write}"));
        }
        let by = self.ledger.permits(&past, life, now, BELIEVED)?;
        by.map_or(Ok(()), |by| self.count(&write.user_agent, &past.uid, by, now))
    }

    fn afterwards(&self, server: &Server, history: &History<Scripted<Self>>) -> Result<(), String> {
        match &self.unseen {
            _ if !history.faults.is_empty() => Ok(()),
            Some(unseen) => Err(unseen.clone()),
            None => prompt(
                &self.ends(server),
                if POLICIES { policies::PROMPTLY } else { 400 },
            ),
        }
    }
}

pub(super) fn kept(keep: bool) -> Value {
    if keep { json!({ KEEP: "true" }) } else { json!({}) }
}

pub(super) fn labels(app: Option<&str>) -> Value {
    app.map_or_else(|| json!({}), |app| json!({ "app": app }))
}

/// The status of an object that has ended.
fn ended(is_pod: bool, finished: i64, failed: bool) -> Value {
    let time = rfc3339(at(finished * 1000));
    if is_pod {
        let terminated = json!({ "terminated": { "exitCode": 0, "finishedAt": time } });
        return json!({
            "phase": if failed { "Failed" } else { "Succeeded" },
            "containerStatuses": [{
                "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": terminated,
            }],
        });
    }
    let how = if failed { "Failed" } else { "Complete" };
    json!({ "conditions": [{ "type": how, "status": "True", "lastTransitionTime": time }] })
}

/// An object is created, in the place of the one of its name. `ago`: seconds since its end.
pub(super) fn create<const POLICIES: bool>(
    named: Named,
    ago: Option<i64>,
    failed: bool,
    told: Told,
) -> Step<POLICIES> {
    let name = named.name();
    let says = format!("{name} is created anew, ended {ago:?} s ago, failed: {failed}, {told:?}");
    step(says, move |scene: &mut Debris<POLICIES>, server| {
        let finished = ago.map(|ago| second(server) - ago);
        let mut object = if named.is_pod {
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
                "spec": { "containers": [{ "name": "c", "image": "i" }] }, "status": { "phase": "Running" },
            })
        } else {
            job_of(&name, told.ttl)
        };
        object["metadata"]["labels"] = labels(told.app);
        object["metadata"]["annotations"] = kept(told.keep);
        if told.held {
            object["metadata"]["finalizers"] = json!(["example.com/hold"]);
        }
        if told.owned {
            object["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "example.com/v1", "kind": "Owner", "name": "o", "uid": "o", "controller": true,
            }]);
        }
        if let Some(finished) = finished {
            object["status"] = ended(named.is_pod, finished, failed);
        }
        remove(server, named.resource(), &name);
        let told = Told {
            is_pod: named.is_pod,
            finished: finished.map(|finished| (finished, failed)),
            ..told
        };
        scene.pasts(named.is_pod).create(server, object, told);
    })
}

/// The object ended some seconds ago.
pub(super) fn finish<const POLICIES: bool>(object: Named, ago: i64, failed: bool) -> Step<POLICIES> {
    let says = format!("{} ended {ago} s ago, failed: {failed}", object.name());
    step(says, move |scene: &mut Debris<POLICIES>, server| {
        let finished = second(server) - ago;
        let status = ended(object.is_pod, finished, failed);
        let edits = |object: &mut Value| object["status"] = status;
        scene.change(server, object, edits, |told| {
            told.finished = Some((finished, failed));
        });
    })
}

/// The own ttl of a Job is set, raised, lowered or removed.
pub(super) fn set_ttl<const POLICIES: bool>(job: Named, ttl: Option<i64>) -> Step<POLICIES> {
    let says = format!("{} gets the ttl {ttl:?}", job.name());
    step(says, move |scene: &mut Debris<POLICIES>, server| {
        let edits = |job: &mut Value| job["spec"]["ttlSecondsAfterFinished"] = json!(ttl);
        scene.change(server, job, edits, |told| told.ttl = ttl);
    })
}

pub(super) fn release<const POLICIES: bool>(object: Named) -> Step<POLICIES> {
    let says = format!("the finalizer of {} is taken away", object.name());
    step(says, move |scene: &mut Debris<POLICIES>, server| {
        let edits = |object: &mut Value| object["metadata"]["finalizers"] = Value::Null;
        scene.change(server, object, edits, |told| told.held = false);
    })
}

pub(super) fn delete<const POLICIES: bool>(object: Named) -> Step<POLICIES> {
    let says = format!("somebody deletes {}", object.name());
    step(says, move |scene: &mut Debris<POLICIES>, server| {
        let pasts = scene.pasts(object.is_pod);
        pasts.delete(server, object.resource(), &object.name());
    })
}

/// A step by which something of an object changes.
pub(super) fn change<const POLICIES: bool>(
    says: &str,
    object: Named,
    edits: impl Fn(&mut Value) + Send + Sync + 'static,
    told: impl Fn(&mut Told) + Send + Sync + 'static,
) -> Step<POLICIES> {
    step(
        format!("{} {says}", object.name()),
        move |scene: &mut Debris<POLICIES>, server| {
            scene.change(server, object, &edits, &told);
        },
    )
}
