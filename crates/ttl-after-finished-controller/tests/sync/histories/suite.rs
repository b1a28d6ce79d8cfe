//! What can happen to a handful of Jobs, and what must become of them.

use std::time::Duration;

use controller_testing::fault_history::{At, Draw};
use controller_testing::history::{NEVER_NEEDED, Scene, Scripted, accepting, step};
use controller_testing::objects::{edit, remove};
use controller_testing::past::{Ends, FinalFate, Past, Pasts, at, millis, second};
use embedded_apiserver::{JOBS, RecordedRequest, RequestVerb, Resource, Server};
use jiff::Timestamp;
use serde_json::{Value, json};
use ttl_after_finished_controller::TtlAfterFinishedController;

use crate::world::job as job_of;

/// Later than any history lasts, in milliseconds since the start.
const NEVER: i64 = 600_000;
const TTLS: [Option<i64>; 7] = [
    None,
    Some(0),
    Some(5),
    Some(15),
    Some(30),
    Some(60),
    Some(1_000_000),
];

/// What happened to the Jobs.
#[derive(Default)]
pub(super) struct Jobs(Pasts<Told>);

/// What decides about a Job: its ttl, and when it finished since the start, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    ttl: Option<i64>,
    finished: Option<i64>,
}

fn fate(job: &Past<Told>) -> FinalFate {
    let overdue = job.told.iter().enumerate().filter_map(|(place, (from, told))| {
        let expiry = (told.finished? + told.ttl?) * 1000;
        let since = Some(expiry).filter(|expiry| *expiry < NEVER)?.max(*from);
        let overdue = job.told_until(place).map_or(i64::MAX, |end| end - since);
        Some(overdue).filter(|overdue| *overdue >= 0)
    });
    FinalFate::of(overdue.max())
}

impl Scene for Jobs {
    type App = TtlAfterFinishedController;

    const READS: &'static [&'static Resource] = &[&JOBS];
    const WRITES: &'static [&'static Resource] = &[&JOBS];
    const GETS: bool = false;
    const PROMPTLY: i64 = 400;

    fn steps(draw: &mut Draw) -> Vec<At<Scripted<Self>>> {
        let jobs = draw.number(3..10);
        let mut steps = Vec::new();
        for job in 0..jobs {
            steps.push(At::seconds(0, create(draw, job)));
            if draw.chance(50) {
                steps.push(At::seconds(0, finish(draw, job, 100)));
            }
        }
        // Expiries fall on whole seconds. If steps may fall on them, too, either may be first.
        let close = draw.chance(20);
        let mut times: Vec<_> = (0..draw.number(4..20))
            .map(|_| {
                let time = draw.time(Duration::from_secs(1)..Self::LENGTH);
                let apart = Duration::from_secs(time.as_secs()) + Duration::from_millis(500);
                if close { time } else { apart }
            })
            .collect();
        times.sort();
        for time in times {
            let job = draw.number(0..jobs);
            let what = match draw.number(0..10) {
                0..4 => finish(draw, job, 10),
                4..7 => set_ttl(draw, job),
                7 => create(draw, job),
                8 => step(
                    format!("somebody deletes job {job}"),
                    move |jobs: &mut Self, server| {
                        jobs.0.delete(server, &JOBS, &name(job));
                    },
                ),
                _ => step(
                    format!("the finalizer of job {job} is taken away"),
                    move |_, server| {
                        edit(server, &JOBS, &name(job), |job| {
                            job["metadata"]["finalizers"] = Value::Null;
                        });
                    },
                ),
            };
            steps.push(At { time, what });
        }
        steps
    }

    fn ends(&self, server: &Server) -> Ends {
        self.0.ends(server, &JOBS, fate)
    }

    fn permits(&mut self, server: &Server, write: &RecordedRequest) -> Result<(), String> {
        let is_foreground = write.body["propagationPolicy"] == "Foreground";
        if write.resource != "jobs" || write.verb != RequestVerb::Delete || !is_foreground {
            return Err(NEVER_NEEDED.to_owned());
        }
        let preconditions = &write.body["preconditions"];
        if !preconditions["uid"].is_string() {
            return Err("the delete may hit another Job of the name".to_owned());
        }
        let Some(job) = accepting(server, &JOBS, write, preconditions) else {
            return Ok(());
        };
        let ttl = job["spec"]["ttlSecondsAfterFinished"]
            .as_i64()
            .ok_or("it has no ttl")?;
        let finish = job["status"]["conditions"][0]["lastTransitionTime"].as_str();
        let finish: Timestamp = finish.ok_or("it has not finished")?.parse().unwrap();
        let early = finish.duration_since(at(millis(server.elapsed()) - ttl * 1000));
        if early.is_positive() {
            return Err(format!("it expires in {early:#}"));
        }
        Ok(())
    }
}

/// A Job is created, in the place of the one with its number; some have a finalizer.
fn create(draw: &mut Draw, job: usize) -> Scripted<Jobs> {
    let (ttl, held) = (draw.pick(&TTLS), draw.chance(20));
    let says = format!("job {job} is created anew with the ttl {ttl:?}, held: {held}");
    step(says, move |jobs: &mut Jobs, server| {
        let mut object = job_of(&name(job), ttl);
        if held {
            object["metadata"]["finalizers"] = json!(["example.com/hold"]);
        }
        remove(server, &JOBS, &name(job));
        jobs.0.create(server, object, Told { ttl, finished: None });
    })
}

/// The Job finished some seconds ago.
fn finish(draw: &mut Draw, job: usize, longest_ago: usize) -> Scripted<Jobs> {
    let ago = i64::try_from(draw.number(0..longest_ago)).unwrap();
    let how = if draw.chance(50) { "Failed" } else { "Complete" };
    let says = format!("job {job} is {how} since {ago} s");
    step(says, move |jobs: &mut Jobs, server| {
        let finished = second(server) - ago;
        let time = at(finished * 1000).to_string();
        let condition = json!({ "type": how, "status": "True", "lastTransitionTime": time });
        edit(server, &JOBS, &name(job), |job| {
            job["status"]["conditions"] = json!([condition]);
        });
        jobs.0
            .tell(server, &name(job), |told| told.finished = Some(finished));
    })
}

/// The Job's ttl is set, raised, lowered or removed.
fn set_ttl(draw: &mut Draw, job: usize) -> Scripted<Jobs> {
    let ttl = draw.pick(&TTLS);
    let says = format!("job {job} gets the ttl {ttl:?}");
    step(says, move |jobs: &mut Jobs, server| {
        edit(server, &JOBS, &name(job), |job| {
            job["spec"]["ttlSecondsAfterFinished"] = json!(ttl);
        });
        jobs.0.tell(server, &name(job), |told| told.ttl = ttl);
    })
}

fn name(job: usize) -> String {
    format!("job-{job}")
}
