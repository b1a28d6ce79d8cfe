//! What can happen to a handful of Jobs and pods, to their namespace and to the file with the policies.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use controller_testing::fault_history::{At, Draw, History};
use controller_testing::history::{NEVER_NEEDED, Scene, Scripted, accepting, step};
use controller_testing::objects::{edit, remove, rfc3339};
use controller_testing::past::{Ends, Pasts, at, millis, second};
use controller_testing::{ConfigOf, Start};
use embedded_apiserver::{JOBS, NAMESPACES, PODS, RecordedRequest, RequestVerb, Resource, Server};
use serde_json::{Value, json};
use tempfile::TempDir;
use ttl_after_finished_controller::TtlAfterFinishedController;

use super::drawn::{APPS, DrawnPolicy, text};
use super::ledger::{Ledger, Namespace, Sight, Told};
use crate::world::job as job_of;

const KEEP: &str = "ttl-after-finished-controller/keep";
const BROKEN: &str = "policies: [";

/// Jobs, pods, and the policies that clean them up.
pub(super) struct Debris {
    jobs: Pasts<Told>,
    pods: Pasts<Told>,
    ledger: Ledger,
    dir: TempDir,
    /// When the first request of each process came, in milliseconds.
    lives: BTreeMap<String, i64>,
    /// What no controller that has seen everything would delete.
    unseen: Option<String>,
}

/// A Job or a pod, by its number.
#[derive(Clone, Copy)]
struct Named {
    is_pod: bool,
    number: usize,
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

impl Default for Debris {
    fn default() -> Self {
        let scene = Self {
            jobs: Pasts::default(),
            pods: Pasts::default(),
            ledger: Ledger::default(),
            dir: TempDir::new().unwrap(),
            lives: BTreeMap::new(),
            unseen: None,
        };
        scene.mend();
        scene
    }
}

impl Debris {
    fn file(&self) -> PathBuf {
        self.dir.path().join("config.yaml")
    }

    /// Writes the file as it last was when it was right.
    fn mend(&self) {
        let number = self.ledger.files.len() - 1;
        fs::write(self.file(), text(&self.ledger.files[number].1, number)).unwrap();
    }

    fn pasts(&mut self, is_pod: bool) -> &mut Pasts<Told> {
        if is_pod { &mut self.pods } else { &mut self.jobs }
    }

    /// Changes an object and what is known of it.
    fn change(
        &mut self,
        server: &Server,
        object: Named,
        edits: impl FnOnce(&mut Value),
        told: impl FnOnce(&mut Told),
    ) {
        edit(server, object.resource(), &object.name(), edits);
        self.pasts(object.is_pod).tell(server, &object.name(), told);
    }

    fn change_namespace(&mut self, server: &Server, change: impl FnOnce(&mut Namespace)) {
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

impl Scene for Debris {
    type App = TtlAfterFinishedController;

    const TITLE: &'static str = "ttl-after-finished-controller/policies";
    const READS: &'static [&'static Resource] = &[&JOBS, &PODS, &NAMESPACES];
    const WRITES: &'static [&'static Resource] = &[&JOBS, &PODS];
    const GETS: bool = false;
    /// Objects that are due for a moment, until somebody keeps them or a policy changes.
    const MOST_OPEN: usize = 30;

    fn steps(draw: &mut Draw) -> Vec<At<Scripted<Self>>> {
        let objects: Vec<_> = [(false, draw.number(2..6)), (true, draw.number(1..4))]
            .into_iter()
            .flat_map(|(is_pod, count)| (0..count).map(move |number| Named { is_pod, number }))
            .collect();
        let mut steps = vec![
            At::seconds(0, writes_policies(draw, true)),
            At::seconds(0, labels_namespace(draw)),
        ];
        steps.extend(objects.iter().map(|object| At::seconds(0, create(draw, *object))));
        let mut times: Vec<_> = (0..draw.number(6..24))
            .map(|_| draw.time(Duration::from_secs(1)..Self::LENGTH))
            .collect();
        times.sort();
        for time in times {
            let object = draw.pick(&objects);
            let what = match draw.number(0..20) {
                0..5 => finish(draw, object),
                5..8 => label(draw, object),
                8..10 => keep(draw, object),
                10..12 => labels_namespace(draw),
                12..14 => keep_namespace(draw),
                14..16 => create(draw, object),
                16 => set_ttl(draw, object),
                17 => release(object),
                18 => writes_policies(draw, true),
                _ => breaks_policies(),
            };
            let time = Duration::from_secs(time.as_secs()) + Duration::from_millis(250);
            steps.push(At { time, what });
        }
        // A person lets go on what waits.
        steps.push(At::millis(119_250, writes_policies(draw, false)));
        steps.sort_by_key(|step| step.time);
        steps
    }

    fn start(&self) -> Start<ConfigOf<Self::App>> {
        // A process with a broken file does not start before the file is right.
        let content = fs::read(self.file()).unwrap();
        self.mend();
        let start = Start::of::<Self::App>().config_file(&self.file());
        fs::write(self.file(), content).unwrap();
        start
    }

    fn ends(&self, server: &Server) -> Ends {
        let fate = |past: &_| self.ledger.fate(past);
        let mut ends = self.jobs.ends(server, &JOBS, fate);
        ends.extend(self.pods.ends(server, &PODS, fate));
        ends
    }

    fn permits(&mut self, server: &Server, write: &RecordedRequest) -> Result<(), String> {
        let (is_pod, propagation) = match &*write.resource {
            "jobs" => (false, json!("Foreground")),
            "pods" => (true, Value::Null),
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
        if let Err(why) = self.ledger.permits(&past, life, now, Sight::Whole) {
            self.unseen.get_or_insert(format!("{why}: {write}"));
        }
        let by = self.ledger.permits(&past, life, now, Sight::Patchy)?;
        by.map_or(Ok(()), |by| self.ledger.count(&write.user_agent, by))
    }

    fn afterwards(&self, _: &Server, history: &History<Scripted<Self>>) -> Result<(), String> {
        match &self.unseen {
            Some(unseen) if history.faults.is_empty() => Err(unseen.clone()),
            _ => Ok(()),
        }
    }
}

fn kept(keep: bool) -> Value {
    if keep { json!({ KEEP: "true" }) } else { json!({}) }
}

fn labels(app: Option<&str>) -> Value {
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

/// An object is created, in the place of the one of its name; some have ended, have a controller or a finalizer.
fn create(draw: &mut Draw, named: Named) -> Scripted<Debris> {
    let ago = draw.chance(60).then(|| draw.number(0..200));
    let (app, failed, owned) = (draw.pick(&APPS), draw.chance(40), draw.chance(20));
    let (held, keep) = (draw.chance(10), draw.chance(10));
    let name = named.name();
    let says = format!(
        "{name} is created anew, ended {ago:?} s ago, app {app:?}, failed: {failed}, owned: {owned}, held: {held}, \
         kept: {keep}"
    );
    step(says, move |scene: &mut Debris, server| {
        let finished = ago.map(|ago| second(server) - i64::try_from(ago).unwrap());
        let mut object = if named.is_pod {
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
                "spec": { "containers": [{ "name": "c", "image": "i" }] }, "status": { "phase": "Running" },
            })
        } else {
            job_of(&name, None)
        };
        object["metadata"]["labels"] = labels(app);
        object["metadata"]["annotations"] = kept(keep);
        if held {
            object["metadata"]["finalizers"] = json!(["example.com/hold"]);
        }
        if owned {
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
            ttl: None,
            app,
            keep,
            owned,
            held,
            finished: finished.map(|finished| (finished, failed)),
        };
        scene.pasts(named.is_pod).create(server, object, told);
    })
}

/// The object ended some seconds ago.
fn finish(draw: &mut Draw, object: Named) -> Scripted<Debris> {
    let ago = i64::try_from(draw.number(0..100)).unwrap();
    let failed = draw.chance(40);
    let says = format!("{} ended {ago} s ago, failed: {failed}", object.name());
    step(says, move |scene: &mut Debris, server| {
        let finished = second(server) - ago;
        let status = ended(object.is_pod, finished, failed);
        scene.change(
            server,
            object,
            |object| object["status"] = status,
            |told| told.finished = Some((finished, failed)),
        );
    })
}

fn label(draw: &mut Draw, object: Named) -> Scripted<Debris> {
    let app = draw.pick(&APPS);
    let says = format!("{} gets the label {app:?}", object.name());
    step(says, move |scene: &mut Debris, server| {
        let edits = |object: &mut Value| object["metadata"]["labels"] = labels(app);
        scene.change(server, object, edits, |told| told.app = app);
    })
}

fn keep(draw: &mut Draw, object: Named) -> Scripted<Debris> {
    let keep = draw.chance(50);
    let says = format!("{} is annotated to be kept: {keep}", object.name());
    step(says, move |scene: &mut Debris, server| {
        let edits = |object: &mut Value| object["metadata"]["annotations"] = kept(keep);
        scene.change(server, object, edits, |told| told.keep = keep);
    })
}

/// The own ttl of a Job is set or removed; of a pod, which has none, the finalizer is taken away.
fn set_ttl(draw: &mut Draw, object: Named) -> Scripted<Debris> {
    let ttl = draw.pick(&[None, Some(3), Some(1_000_000)]);
    if object.is_pod {
        return release(object);
    }
    let says = format!("{} gets the ttl {ttl:?}", object.name());
    step(says, move |scene: &mut Debris, server| {
        let edits = |object: &mut Value| object["spec"]["ttlSecondsAfterFinished"] = json!(ttl);
        scene.change(server, object, edits, |told| told.ttl = ttl);
    })
}

fn release(object: Named) -> Scripted<Debris> {
    let says = format!("the finalizer of {} is taken away", object.name());
    step(says, move |scene: &mut Debris, server| {
        let edits = |object: &mut Value| object["metadata"]["finalizers"] = Value::Null;
        scene.change(server, object, edits, |told| told.held = false);
    })
}

fn labels_namespace(draw: &mut Draw) -> Scripted<Debris> {
    let team = draw.chance(50);
    step(
        format!("the namespace has the label of the team: {team}"),
        move |scene: &mut Debris, server| {
            scene.change_namespace(server, |namespace| namespace.team = team);
        },
    )
}

fn keep_namespace(draw: &mut Draw) -> Scripted<Debris> {
    let keep = draw.chance(30);
    step(
        format!("the namespace is annotated to be kept: {keep}"),
        move |scene: &mut Debris, server| {
            scene.change_namespace(server, |namespace| namespace.keep = keep);
        },
    )
}

fn writes_policies(draw: &mut Draw, is_limited: bool) -> Scripted<Debris> {
    let policies = DrawnPolicy::file(draw, is_limited);
    let says = format!("the file has the policies {policies:?}");
    step(says, move |scene: &mut Debris, server| {
        let now = millis(server.elapsed());
        scene.ledger.files.push((now, policies.clone()));
        scene.mend();
    })
}

fn breaks_policies() -> Scripted<Debris> {
    step(
        "the file is broken, unless it is new",
        |scene: &mut Debris, server| {
            // Nobody could say whether a process has read it.
            if scene.ledger.is_known(millis(server.elapsed())) {
                fs::write(scene.file(), BROKEN).unwrap();
            }
        },
    )
}
