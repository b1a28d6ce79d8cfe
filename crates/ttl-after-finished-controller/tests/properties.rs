//! The loop against a model of the API server: requeue completeness, the done contract and the final state.
//!
//! ```text
//! world ── acts   Jobs, with and without policies; what others do to them, drawn; the ledger that the histories have, too
//! stored          the same as an API server stores it
//! ```
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "a test")]

mod acts;
mod stored;
mod world;

use std::time::Duration;

use controller_core::controller::{Completed, Loop, Now, RequestOf};
use controller_core::fingerprint::Fingerprint;
use controller_core::meta::ObjectKey;
use controller_testing::encodings::assert_the_same_views;
use controller_testing::past::settled;
use controller_testing::sim::{self, Bounds, Explored, Model, Op, ProcessBug, SimFailure, Watch};
use embedded_apiserver::Server;
use prometheus::Registry;
use proptest::prelude::*;
use serde_json::json;
use ttl_after_finished_controller::TtlAfterFinishedController;
use ttl_after_finished_controller::requests::{Answer, Query};
use ttl_after_finished_controller::state::{Key, State};
use ttl_after_finished_controller::view::JobWire;

use self::acts::{Act, Ended, any_action, any_action_with_policies};
use self::world::{Cluster, JOBS, key};

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

impl Model for Cluster {
    type Controller = TtlAfterFinishedController;
    type Act = Act;

    /// A Job that is due by a clock that has jumped, and has another time in the queue, would be read for.
    const CLOCKS_JUMP: bool = false;

    fn controller(&self) -> TtlAfterFinishedController {
        TtlAfterFinishedController::new(&self.config(), &Registry::new()).unwrap()
    }

    fn act(&mut self, action: &Act, now: Now) {
        self.take(action, now);
    }

    fn arrive(&mut self, ask: &RequestOf<TtlAfterFinishedController>, now: Now) -> Completed<Answer> {
        match ask {
            RequestOf::Query(Query::Time) => Completed::Read(Ok(Answer::Time), Some(now.wall)),
            RequestOf::Query(Query::Namespace(name)) => {
                let found = self.namespaces.objects().get(&ObjectKey::cluster(name.clone()));
                Completed::Read(Ok(Answer::Namespace(found.map(sim::observed))), Some(now.wall))
            }
            RequestOf::Query(query) => panic!("{query:?} is read"),
            RequestOf::Write(deletion) => Completed::Wrote(self.delete(deletion, now)),
        }
    }

    fn server(&self, ask: &RequestOf<TtlAfterFinishedController>, now: Now) -> Option<Server> {
        self.as_stored(ask, now)
    }

    fn compare_with(&self, _: &RequestOf<TtlAfterFinishedController>, server: &Server) -> Result<(), String> {
        self.compare_stored(server)
    }

    fn watches(&mut self) -> Vec<(&'static str, &mut dyn Watch<TtlAfterFinishedController>)> {
        if self.has_policies() {
            vec![
                ("jobs", &mut self.candidates),
                ("namespaces", &mut self.namespaces),
            ]
        } else {
            vec![("jobs", &mut self.with_ttl)]
        }
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

    fn check(&self, _: &Loop<TtlAfterFinishedController>, _: Now) -> Result<(), String> {
        settled(&self.ends())?;
        self.check_last_failed()
    }
}

impl Explored for Cluster {
    fn acts(&self) -> Vec<Act> {
        vec![
            Act::Finish(0, Ended::Ago(100), false),
            Act::SetTtl(0, Some(400)),
            Act::Create(0, Some(0)),
            Act::Delete(0),
        ]
    }

    /// The ledger adds nothing that decides: who deletes a Job is judged at once.
    fn fingerprint(&self, out: &mut Fingerprint) {
        out.add(&(&self.jobs, self.uids));
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

/// Seconds until the next Job: a few, or about an hour.
fn gap() -> impl Strategy<Value = u64> {
    prop_oneof![0..60_u64, 3_520..3_660_u64]
}

/// A Job comes that has finished, and its policy applies to it.
fn comes(number: usize) -> impl Iterator<Item = Op<Act>> {
    let acts = [
        Act::Create(number, None),
        Act::Label(number, true),
        Act::Finish(number, Ended::Ago(100), false),
    ];
    acts.into_iter()
        .map(Op::Act)
        .chain((0..4).map(|_| Op::Deliver(0)))
}

/// The client gives up what has no answer for half a minute.
fn pass(seconds: u64) -> impl Iterator<Item = Op<Act>> {
    let passes = (0..seconds)
        .step_by(20)
        .map(move |second| 20.min(seconds - second));
    passes.flat_map(|seconds| [Op::Pass(Duration::from_secs(seconds)), Op::Answer(0)])
}

/// Jobs come, each with the seconds that its delete takes, whether that is refused, and the seconds until the next.
fn jobs_come(begins: u64, jobs: &[(u64, bool, u64)]) -> Vec<Op<Act>> {
    let mut ops = vec![Op::Pass(Duration::from_secs(begins))];
    for (number, (late, is_refused, gap)) in jobs.iter().enumerate() {
        ops.extend(comes(number % JOBS));
        ops.push(Op::Pass(Duration::from_secs(15)));
        // The namespace is read before each delete, and the API server's time before the first.
        ops.extend((0..if number == 0 { 2 } else { 1 }).map(|_| Op::Answer(0)));
        ops.push(Op::Pass(Duration::from_secs(*late)));
        ops.push(if *is_refused {
            Op::Refuse(0, SimFailure::Status(403, 0))
        } else {
            Op::Answer(0)
        });
        ops.extend(pass(*gap));
    }
    ops
}

#[test]
fn a_delete_that_arrives_late_counts_for_an_hour_from_then() {
    let ops = jobs_come(44, &[(29, false, 0), (0, false, 3_543), (0, false, 0)]);
    sim::run(Cluster::with_maximum(), &ops);
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn every_run_ends_with_no_expired_job((roles, steps) in sim::runs(any_action())) {
        sim::run_among(Cluster::of(JOBS), &roles, &steps);
    }

    #[test]
    fn in_no_hour_a_policy_deletes_more_than_its_maximum(
        begins in 0..60_u64,
        jobs in prop::collection::vec((0..30_u64, any::<bool>(), gap()), 3..8),
    ) {
        sim::run(Cluster::with_maximum(), &jobs_come(begins, &jobs));
    }

    #[test]
    fn every_run_ends_with_nothing_that_a_policy_wants_to_go(
        (roles, steps) in sim::runs(any_action_with_policies()),
    ) {
        sim::run_among(Cluster::with_policies(), &roles, &steps);
    }
}

#[test]
fn a_job_waits_as_long_as_an_answer_about_the_time_was_slow() {
    let ops = [
        (0, Op::Act(Act::Finish(0, Ended::Ago(-40), false))),
        (0, Op::Pass(Duration::from_secs(400))),
        (0, Op::Act(Act::Create(1, Some(0)))),
        (0, Op::Deliver(0)),
        (0, Op::Arrive(0)),
        (0, Op::Pass(Duration::from_secs(31))),
        (0, Op::Act(Act::Finish(1, Ended::Ago(-40), false))),
    ];
    sim::run_among(Cluster::of(JOBS), &[sim::Role::Elected, sim::Role::Elected], &ops);
}

#[test]
fn a_ttl_that_is_raised_before_the_delete_arrives_saves_the_job() {
    let ops = [
        Op::Act(Act::Finish(0, Ended::Ago(100), false)),
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
