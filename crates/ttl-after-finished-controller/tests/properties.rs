//! The loop against a model of the API server: requeue completeness, the done contract and the final state.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::collections::BTreeMap;
use std::time::Duration;

use controller_core::api::CallFailed;
use controller_core::controller::{Accepted, Completed, Loop, Now, RequestOf};
use controller_core::fingerprint::Fingerprint;
use controller_core::meta::{ObjectKey, Uid};
use controller_testing::encodings::assert_the_same_views;
use controller_testing::sim::{self, Bounds, Explored, Model, NOW, Op, ProcessBug, SimResource, Watch};
use embedded_apiserver::{JOBS as JOB_RESOURCE, Server};
use jiff::Timestamp;
use prometheus::Registry;
use proptest::prelude::*;
use ttl_after_finished_controller::config::Config;
use ttl_after_finished_controller::decide::{Deletion, JobJudgement, judge};
use ttl_after_finished_controller::requests::{Answer, Query};
use ttl_after_finished_controller::state::{Key, State};
use ttl_after_finished_controller::view::{Finish, JobView, JobWire};
use ttl_after_finished_controller::{Stores, TtlAfterFinishedController};

use serde_json::json;

const JOBS: usize = 3;

#[derive(Clone)]
struct Cluster {
    /// How many names Jobs have.
    names: usize,
    jobs: BTreeMap<ObjectKey, Job>,
    /// The watched Jobs: those that have a ttl and are not being deleted.
    watched: SimResource<TtlAfterFinishedController, JobView>,
    /// The newest version of all objects.
    version: u64,
    uids: u64,
    bug: Option<Bug>,
}

/// What an API server, or a watch, must not do.
#[derive(Clone, Copy, Debug)]
enum Bug {
    /// A delete carries no version.
    NoVersion,
    /// The watch does not show a new ttl.
    HidesTtls,
    /// What a process must not do.
    Process(ProcessBug),
}

#[derive(Clone, Debug)]
struct Job {
    view: JobView,
    version: u64,
}

#[derive(Clone, Debug)]
enum Act {
    /// A new Job gets this name.
    Create(usize, Option<i32>),
    /// The Job finished this number of seconds ago, or in the future; `None` if its condition has no time.
    Finish(usize, Option<i64>),
    SetTtl(usize, Option<i32>),
    Delete(usize),
}

fn key(number: usize) -> ObjectKey {
    ObjectKey::namespaced("ns", format!("job-{number}"))
}

fn any_ttl() -> impl Strategy<Value = Option<i32>> {
    prop::sample::select(vec![None, Some(0), Some(5), Some(60), Some(400)])
}

fn any_action() -> impl Strategy<Value = Act> {
    let ago = prop::option::weighted(0.9, prop::sample::select(vec![-40_i64, 0, 3, 100]));
    prop_oneof![
        2 => (0..JOBS, any_ttl()).prop_map(|(job, ttl)| Act::Create(job, ttl)),
        4 => (0..JOBS, ago).prop_map(|(job, ago)| Act::Finish(job, ago)),
        3 => (0..JOBS, any_ttl()).prop_map(|(job, ttl)| Act::SetTtl(job, ttl)),
        1 => (0..JOBS).prop_map(Act::Delete),
    ]
}

impl Cluster {
    fn of(names: usize) -> Self {
        let mut cluster = Self {
            names,
            jobs: BTreeMap::new(),
            watched: SimResource::new(|stores: &mut Stores| &mut stores.jobs),
            version: 0,
            uids: 0,
            bug: None,
        };
        (0..names).for_each(|job| cluster.create(job, Some(60)));
        cluster
    }

    fn create(&mut self, number: usize, ttl_seconds: Option<i32>) {
        self.end(&key(number));
        self.uids += 1;
        let mut view = JobView {
            key: key(number),
            uid: Uid::from(&*format!("uid-{}", self.uids)),
            version: "".into(),
            ttl_seconds,
            finish: None,
            deleting: false,
        };
        let version = self.show(&mut view);
        self.jobs.insert(key(number), Job { view, version });
    }

    /// Shows the Job to the watch; returns the new version.
    fn show(&mut self, view: &mut JobView) -> u64 {
        let is_watched = self.watched.objects().contains_key(&view.key);
        view.version = self.watched.next_version().to_string().into();
        if view.ttl_seconds.is_some() && !view.deleting {
            self.version = self.watched.put(view.clone(), view.uid.clone());
        } else if is_watched {
            self.watched.delete(&view.key);
            self.version += 1;
        }
        self.version
    }

    fn edit(&mut self, key: &ObjectKey, edit: impl FnOnce(&mut JobView)) -> Option<Job> {
        let mut job = self.jobs.get(key)?.clone();
        edit(&mut job.view);
        job.version = self.show(&mut job.view);
        self.jobs.insert(key.clone(), job.clone());
        Some(job)
    }

    /// Somebody deletes the Job, and it is gone.
    fn end(&mut self, key: &ObjectKey) {
        self.edit(key, |job| job.deleting = true);
        self.jobs.remove(key);
    }

    fn delete(&mut self, deletion: &Deletion, now: Now) -> Result<Accepted, CallFailed> {
        let job = self.jobs.get(&deletion.object);
        let job = job.ok_or_else(sim::deleted_before)?.clone();
        if job.view.uid != deletion.uid {
            return Err(sim::gone());
        }
        let has_version = !matches!(self.bug, Some(Bug::NoVersion));
        if has_version && *deletion.version != *job.version.to_string() {
            return Err(sim::conflict());
        }
        let judgement = judge(&job.view, now.wall);
        assert!(
            matches!(judgement, JobJudgement::Expired { .. }),
            "{} is deleted too early: {judgement:?}",
            deletion.object
        );
        // The garbage collector ends it once its pods are gone.
        let deleted = self.edit(&deletion.object, |job| job.deleting = true);
        Ok(Accepted {
            deleting: true,
            ..sim::accepted(job.view.uid, deleted.map_or(job.version, |job| job.version))
        })
    }
}

impl Model for Cluster {
    type Controller = TtlAfterFinishedController;
    type Act = Act;

    /// A Job that is due by a clock that has jumped, and has another time in the queue, would be read for.
    const CLOCKS_JUMP: bool = false;

    fn controller(&self) -> TtlAfterFinishedController {
        TtlAfterFinishedController::new(&Config::default(), &Registry::new()).unwrap()
    }

    fn act(&mut self, action: &Act, now: Now) {
        match *action {
            Act::Create(job, ttl) => self.create(job, ttl),
            Act::Finish(job, ago) => {
                let finish = ago.map_or(Finish::Undated, |ago| {
                    Finish::At(Timestamp::from_second(now.wall.as_second() - ago).unwrap())
                });
                self.edit(&key(job), |job| job.finish = Some(finish));
            }
            Act::SetTtl(job, ttl) if matches!(self.bug, Some(Bug::HidesTtls)) => {
                if let Some(job) = self.jobs.get_mut(&key(job)) {
                    job.view.ttl_seconds = ttl;
                }
            }
            Act::SetTtl(job, ttl) => {
                self.edit(&key(job), |job| job.ttl_seconds = ttl);
            }
            Act::Delete(job) => self.end(&key(job)),
        }
    }

    fn arrive(&mut self, ask: &RequestOf<TtlAfterFinishedController>, now: Now) -> Completed<Answer> {
        match ask {
            RequestOf::Query(Query::Time) => Completed::Read(Ok(Answer::Time), Some(now.wall)),
            RequestOf::Query(query) => panic!("{query:?} is read"),
            RequestOf::Write(deletion) => Completed::Wrote(self.delete(deletion, now)),
        }
    }

    fn server(&self, _: &RequestOf<TtlAfterFinishedController>, now: Now) -> Option<Server> {
        let jobs = self.jobs.values().map(|Job { view, version }| {
            let finished = view.finish.map(|finish| {
                let at = match finish {
                    Finish::At(time) => json!(time),
                    Finish::Undated => json!(null),
                };
                json!({ "type": "Complete", "status": "True", "lastTransitionTime": at })
            });
            let fields = json!({
                "apiVersion": "batch/v1", "kind": "Job",
                "metadata": {
                    "finalizers": view.deleting.then_some(["foregroundDeletion"]),
                    "deletionTimestamp": view.deleting.then_some(NOW.wall),
                },
                "spec": {
                    "ttlSecondsAfterFinished": view.ttl_seconds,
                    "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } },
                },
                "status": { "conditions": finished.as_slice() },
            });
            sim::stored(&view.key, &view.uid, *version, fields)
        });
        let version = self.watched.next_version() - 1;
        self.bug
            .is_none()
            .then(|| sim::server(now, jobs.collect(), version))
    }

    fn compare_with(&self, _: &RequestOf<TtlAfterFinishedController>, server: &Server) -> Result<(), String> {
        self.watched
            .compare_with::<JobWire>(server, &JOB_RESOURCE, |job| Some(job.clone()))
    }

    fn watches(&mut self) -> Vec<(&'static str, &mut dyn Watch<TtlAfterFinishedController>)> {
        vec![("jobs", &mut self.watched)]
    }

    fn keys(&self) -> Vec<Key> {
        (0..self.names).map(|job| Key::job(key(job))).collect()
    }

    fn process_bug(&self) -> Option<ProcessBug> {
        match self.bug {
            Some(Bug::Process(bug)) => Some(bug),
            _ => None,
        }
    }

    fn remembered(&self, state: &State) -> usize {
        state.held()
    }

    fn check(&self, _: &Loop<TtlAfterFinishedController>, now: Now) -> Result<(), String> {
        for Job { view, .. } in self.jobs.values() {
            if let JobJudgement::Expired { .. } | JobJudgement::Waits { .. } = judge(view, now.wall) {
                return Err(format!("{} is still there", view.key));
            }
        }
        Ok(())
    }
}

impl Explored for Cluster {
    fn acts(&self) -> Vec<Act> {
        vec![
            Act::Finish(0, Some(100)),
            Act::SetTtl(0, Some(400)),
            Act::Create(0, Some(0)),
            Act::Delete(0),
        ]
    }

    fn fingerprint(&self, out: &mut Fingerprint) {
        out.add(&(&self.jobs, self.version, self.uids));
    }
}

fn one_job(bug: Option<Bug>) -> Cluster {
    Cluster {
        bug,
        ..Cluster::of(1)
    }
}

const TWO_ACTS: Bounds = Bounds {
    acts: 2,
    ..Bounds::FEW
};

/// Every run with two acts of others and one fault.
#[test]
fn no_run_within_bounds_deletes_a_job_too_early_or_leaves_an_expired_one() {
    sim::assert_sound(&one_job(None), TWO_ACTS);
}

/// Every run of two replicas with one act of others and one fault.
#[test]
fn no_run_of_two_processes_deletes_a_job_too_early_or_leaves_an_expired_one() {
    let bounds = Bounds {
        processes: 2,
        ..Bounds::FEW
    };
    sim::assert_sound(&one_job(None), bounds);
}

#[test]
fn a_delete_without_a_version_is_found() {
    sim::assert_found(one_job(Some(Bug::NoVersion)), TWO_ACTS, 2, "is deleted too early");
}

#[test]
fn a_ttl_that_no_watch_shows_is_found() {
    sim::assert_found(one_job(Some(Bug::HidesTtls)), TWO_ACTS, 2, "is deleted too early");
}

fn with(bug: ProcessBug) -> Cluster {
    Cluster {
        bug: Some(Bug::Process(bug)),
        ..Cluster::of(JOBS)
    }
}

controller_testing::process_bugs_are_found!(with, any_action());

#[test]
fn a_process_that_does_not_notice_that_another_leads_is_found_in_the_fewest_steps() {
    let bug = Some(Bug::Process(ProcessBug::KeepsItsTerm));
    let bounds = Bounds {
        processes: 2,
        ..Bounds::FEW
    };
    sim::assert_found(one_job(bug), bounds, 5, "sent without the term");
}

#[test]
fn nothing_is_left_of_ten_thousand_objects() {
    sim::run_through(Cluster::of(JOBS), 10_000, any_action());
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn every_run_ends_with_no_expired_job((roles, steps) in sim::runs(any_action())) {
        sim::run_among(Cluster::of(JOBS), &roles, &steps);
    }
}

#[test]
fn a_job_waits_as_long_as_an_answer_about_the_time_was_slow() {
    let ops = [
        (0, Op::Act(Act::Finish(0, Some(-40)))),
        (0, Op::Pass(Duration::from_secs(400))),
        (0, Op::Act(Act::Create(1, Some(0)))),
        (0, Op::Deliver(0)),
        (0, Op::Arrive(0)),
        (0, Op::Pass(Duration::from_secs(31))),
        (0, Op::Act(Act::Finish(1, Some(-40)))),
    ];
    sim::run_among(Cluster::of(JOBS), &[sim::Role::Elected, sim::Role::Elected], &ops);
}

#[test]
fn a_ttl_that_is_raised_before_the_delete_arrives_saves_the_job() {
    let ops = [
        Op::Act(Act::Finish(0, Some(100))),
        Op::Deliver(0),
        Op::Answer(0),
        Op::Act(Act::SetTtl(0, Some(400))),
        Op::Answer(0),
        Op::Pass(Duration::from_millis(5)),
        Op::Answer(0),
    ];
    sim::run(Cluster::of(JOBS), &ops);
}

#[test]
fn json_and_protobuf_give_the_same_job() {
    assert_the_same_views::<JobWire>(&json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "7",
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": { "ttlSecondsAfterFinished": 0, "parallelism": 2, "suspend": false },
        "status": { "succeeded": 1, "conditions": [
            { "type": "Suspended", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z" },
            { "type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z", "reason": "r" },
        ] },
    }));
}
