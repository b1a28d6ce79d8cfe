//! What can happen to a handful of Jobs, and what must become of them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use harness::history::{self, Ends, Fate, is_refused};
use harness::objects::{remove, stays};
use harness::sim::START;
use harness::{Run, Start};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::embedded::{JOBS, Request, Resource, Server, Verb};
use testkit::history::{At, Draw, History, Life, State, Suite};
use ttl_after_finished_controller::TtlAfterFinishedController;
use ttl_after_finished_controller::config::Config;

use super::ledger::Ledger;

/// Without faults an expired Job is deleted within this time, in milliseconds.
const PROMPTLY: i64 = 400;
const TTLS: [Option<i32>; 7] = [
    None,
    Some(0),
    Some(5),
    Some(15),
    Some(30),
    Some(60),
    Some(1_000_000),
];

/// The ttl-after-finished-controller, or one with a bug put in.
#[derive(Clone)]
pub(super) struct Jobs {
    run: Run<Config>,
    /// What happened in the run.
    ledger: Arc<Mutex<Ledger>>,
}

impl Jobs {
    pub(super) fn new(run: Run<Config>) -> Self {
        Self {
            run,
            ledger: Arc::default(),
        }
    }

    /// Of the Jobs that nobody deleted.
    fn ends(&self, server: &Server) -> Ends {
        let ledger = self.ledger.lock();
        let end = |life: &super::ledger::Life| (life.fate(), lives(server, &life.name));
        ledger
            .standing()
            .map(|life| (life.name.clone(), end(life)))
            .collect()
    }
}

/// A step of the cluster; Jobs by number.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// A Job is created, or put in the place of the one that has its number.
    Create {
        job: usize,
        ttl: Option<i32>,
        /// With a finalizer.
        held: bool,
    },
    /// It finished so many seconds ago.
    Finish { job: usize, ago: i64, failed: bool },
    /// Its ttl is set, raised, lowered or removed.
    SetTtl(usize, Option<i32>),
    /// Somebody deletes it.
    Delete(usize),
    /// Whoever set the finalizer takes it away.
    Release(usize),
}

impl Suite for Jobs {
    type Action = Action;

    const NAME: &'static str = "ttl-after-finished-controller";
    const RESOURCES: &'static [&'static Resource] = &[&JOBS];

    /// Five minutes pass before the client gives up a watch that is silent.
    const SETTLES_WITHIN: Duration = Duration::from_mins(10);

    fn fresh(&self) -> Self {
        Self::new(self.run)
    }

    fn actions(&self, draw: &mut Draw) -> Vec<At<Action>> {
        let jobs = draw.number(3..10);
        let mut actions = Vec::new();
        for job in 0..jobs {
            actions.push(At::seconds(0, drawn_job(draw, job)));
            if draw.chance(50) {
                actions.push(At::seconds(0, drawn_finish(draw, job, 100)));
            }
        }
        // Expiries fall on whole seconds. Where steps may fall on them, too, either may be first.
        let close = draw.chance(20);
        let mut times: Vec<_> = (0..draw.number(4..20))
            .map(|_| {
                let time = draw.time(Duration::from_secs(1)..Self::LENGTH);
                if close {
                    time
                } else {
                    Duration::from_secs(time.as_secs()) + Duration::from_millis(500)
                }
            })
            .collect();
        times.sort();
        for time in times {
            let job = draw.number(0..jobs);
            let what = match draw.number(0..10) {
                0..4 => drawn_finish(draw, job, 10),
                4..7 => Action::SetTtl(job, draw.pick(&TTLS)),
                7 => drawn_job(draw, job),
                8 => Action::Delete(job),
                _ => Action::Release(job),
            };
            actions.push(At { time, what });
        }
        actions
    }

    fn act(&self, server: &Server, action: &Action) {
        let mut ledger = self.ledger.lock();
        match *action {
            Action::Create { job, ttl, held } => {
                let name = name(job);
                remove(server, &JOBS, &name);
                ledger.ended(&name);
                server.insert(manifest(&name, ttl, held)).unwrap();
                ledger.created(server, &name, ttl);
            }
            Action::Finish { job, ago, failed } => {
                let name = name(job);
                let second = i64::try_from(server.elapsed().as_secs()).unwrap() - ago;
                let at = START.checked_add(SignedDuration::from_secs(second)).unwrap();
                let kind = if failed { "Failed" } else { "Complete" };
                edit(server, &name, |job| {
                    job["status"]["conditions"] =
                        json!([{ "type": kind, "status": "True", "lastTransitionTime": at.to_string() }]);
                });
                ledger.told(server, &name, |told| told.finished = Some(second));
            }
            Action::SetTtl(job, ttl) => {
                let name = name(job);
                edit(server, &name, |job| {
                    job["spec"]["ttlSecondsAfterFinished"] = json!(ttl);
                });
                ledger.told(server, &name, |told| told.ttl = ttl);
            }
            Action::Delete(job) => {
                let name = name(job);
                let _ = server.delete(&JOBS, "default", &name);
                ledger.ended(&name);
            }
            Action::Release(job) => {
                edit(server, &name(job), |job| {
                    job["metadata"]["finalizers"] = Value::Null;
                });
            }
        }
    }

    fn process(&self, life: Life) -> impl Future<Output = Result<(), String>> + Send + 'static {
        Start::of::<TtlAfterFinishedController>()
            .running(self.run)
            .live(life)
    }

    fn settled(&self, server: &Server, _: &[At<Action>]) -> Result<(), String> {
        history::settled(&self.ends(server))
    }

    fn state(&self, server: &Server) -> State {
        history::state(self.ends(server))
    }

    fn permits(&self, server: &Server, request: &Request) -> Result<(), String> {
        if request.resource != "jobs" || !request.verb.is_write() {
            return Ok(());
        }
        let no = |why: String| Err(format!("{why}: {request}"));
        if request.verb != Verb::Delete || request.body["propagationPolicy"] != "Foreground" {
            return no("no such write is ever needed".to_owned());
        }
        let preconditions = &request.body["preconditions"];
        if !preconditions["uid"].is_string() {
            return no("the delete may hit another Job of the name".to_owned());
        }
        let Some(job) = server.get(&JOBS, &request.namespace, &request.name) else {
            return Ok(());
        };
        if is_refused(&job, preconditions) {
            return Ok(());
        }
        let Some(ttl) = job["spec"]["ttlSecondsAfterFinished"].as_i64() else {
            return no("it has no ttl".to_owned());
        };
        let finish = job["status"]["conditions"][0]["lastTransitionTime"].as_str();
        let Some(finish) = finish.map(|at| at.parse::<Timestamp>().unwrap()) else {
            return no("it has not finished".to_owned());
        };
        let expiry = finish.duration_since(START) + SignedDuration::from_secs(ttl);
        let early = expiry - SignedDuration::try_from(server.elapsed()).unwrap();
        if early.is_positive() {
            return no(format!("it expires in {early:#}"));
        }
        Ok(())
    }

    /// Without faults a Job that has expired is gone before anybody can save it.
    fn afterwards(&self, server: &Server, history: &History<Action>) -> Result<(), String> {
        if !history.troubles.is_empty() {
            return Ok(());
        }
        let mut ends = self.ends(server).into_iter();
        let missed = ends.find(|(_, end)| matches!(end, (Fate::MayGo(overdue), true) if *overdue > PROMPTLY));
        missed.map_or(Ok(()), |(name, _)| Err(format!("{name} had expired and lives")))
    }
}

fn drawn_job(draw: &mut Draw, job: usize) -> Action {
    Action::Create {
        job,
        ttl: draw.pick(&TTLS),
        held: draw.chance(20),
    }
}

fn drawn_finish(draw: &mut Draw, job: usize, longest_ago: usize) -> Action {
    Action::Finish {
        job,
        ago: i64::try_from(draw.number(0..longest_ago)).unwrap(),
        failed: draw.chance(50),
    }
}

fn name(job: usize) -> String {
    format!("job-{job}")
}

fn manifest(name: &str, ttl: Option<i32>, held: bool) -> Value {
    let finalizers: &[&str] = if held { &["example.com/hold"] } else { &[] };
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name, "finalizers": finalizers },
        "spec": {
            "ttlSecondsAfterFinished": ttl,
            "template": { "spec": {
                "restartPolicy": "Never",
                "containers": [{ "name": "c", "image": "i" }],
            } },
        },
    })
}

/// There is nothing to edit where the Job has gone already, or a shrunk history never created it.
fn edit(server: &Server, name: &str, edit: impl FnOnce(&mut Value)) {
    let _ = server.edit(&JOBS, "default", name, edit);
}

fn lives(server: &Server, name: &str) -> bool {
    stays(server.get(&JOBS, "default", name).as_ref())
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ttl: &Option<i32>| ttl.map_or("no ttl".to_owned(), |ttl| format!("a ttl of {ttl} s"));
        match self {
            Self::Create { job, ttl, held } => {
                write!(f, "job {job} is created anew with {}", seconds(ttl))?;
                f.write_str(if *held { " and a finalizer" } else { "" })
            }
            Self::Finish { job, ago, failed } => {
                let how = if *failed { "has failed" } else { "is complete" };
                write!(f, "job {job} {how} since {ago} s")
            }
            Self::SetTtl(job, ttl) => write!(f, "job {job} gets {}", seconds(ttl)),
            Self::Delete(job) => write!(f, "somebody deletes job {job}"),
            Self::Release(job) => write!(f, "the finalizer of job {job} is taken away"),
        }
    }
}
