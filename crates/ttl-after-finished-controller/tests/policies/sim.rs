//! The loop with policies against a model of the API server: requeue completeness, the done contract, the final state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controller_core::api::CallFailed;
use controller_core::controller::{Accepted, Completed, Loop, Now, RequestOf};
use controller_core::labels::Labels;
use controller_core::meta::{ObjectKey, Uid};
use controller_core::time::saturating_add;
use controller_testing::sim::{self, Model, SimResource, Watch};
use embedded_apiserver::{JOBS as JOB_RESOURCE, Server};
use jiff::Timestamp;
use prometheus::Registry;
use proptest::prelude::*;
use serde_json::{Value, json};
use ttl_after_finished_controller::config::Config;
use ttl_after_finished_controller::decide::{By, Deletion};
use ttl_after_finished_controller::policy::decide::{Verdict, applying, judge};
use ttl_after_finished_controller::policy::state::PolicyState;
use ttl_after_finished_controller::policy::view::{Candidate, JobCandidateWire, NamespaceView};
use ttl_after_finished_controller::policy::{FinishedKind, KEEP, Policies};
use ttl_after_finished_controller::requests::{Answer, Query};
use ttl_after_finished_controller::state::{Key, State};
use ttl_after_finished_controller::view::Finish;
use ttl_after_finished_controller::{Stores, TtlAfterFinishedController};

use super::support::{named, namespace};

const JOBS: usize = 4;

struct Cluster {
    watched: SimResource<TtlAfterFinishedController, Candidate>,
    namespaces: SimResource<TtlAfterFinishedController, NamespaceView>,
    uids: u64,
    config: Config,
    policies: Arc<Policies>,
}

#[derive(Clone, Debug)]
enum Act {
    /// A new Job gets this name, and fails or succeeds so long ago.
    Create(usize, bool, Option<i64>),
    Finish(usize, bool),
    Label(usize, bool),
    Keep(usize, bool),
    SetTtl(usize, Option<i32>),
    LabelNamespace(bool),
    KeepNamespace(bool),
    Delete(usize),
}

fn any_act() -> impl Strategy<Value = Act> {
    let job = || 0..JOBS;
    let ago = prop::option::of(prop::sample::select(vec![0_i64, 3, 100]));
    prop_oneof![
        3 => (job(), any::<bool>(), ago).prop_map(|(job, failed, ago)| Act::Create(job, failed, ago)),
        3 => (job(), any::<bool>()).prop_map(|(job, failed)| Act::Finish(job, failed)),
        3 => (job(), any::<bool>()).prop_map(|(job, on)| Act::Label(job, on)),
        1 => (job(), any::<bool>()).prop_map(|(job, on)| Act::Keep(job, on)),
        1 => (job(), prop::sample::select(vec![None, Some(5)])).prop_map(|(job, ttl)| Act::SetTtl(job, ttl)),
        2 => any::<bool>().prop_map(Act::LabelNamespace),
        1 => any::<bool>().prop_map(Act::KeepNamespace),
        1 => job().prop_map(Act::Delete),
    ]
}

fn key(number: usize) -> ObjectKey {
    ObjectKey::namespaced("team", format!("job-{number}"))
}

fn namespace_fields(view: &NamespaceView) -> Value {
    let labels: BTreeMap<_, _> = view.labels.iter().collect();
    let metadata = json!({
        "labels": labels, "annotations": { KEEP: view.keep.to_string() }, "creationTimestamp": view.created,
    });
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata })
}

fn job_fields(job: &Candidate) -> Value {
    let finished = match job.object.finish {
        Some(Finish::At(time)) => Some(json!({
            "type": if job.failed { "Failed" } else { "Complete" }, "status": "True", "lastTransitionTime": time,
        })),
        _ => None,
    };
    let labels: BTreeMap<_, _> = job.labels.iter().collect();
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "labels": labels, "annotations": { KEEP: job.keep.to_string() } },
        "spec": {
            "ttlSecondsAfterFinished": job.object.ttl_seconds,
            "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } },
        },
        "status": { "conditions": finished.as_slice() },
    })
}

impl Cluster {
    fn new() -> Self {
        let policies = json!([
            { "name": "ci", "selector": { "matchLabels": { "app": "ci" } },
              "ttlAfterSucceeded": "20s", "ttlAfterFailed": "5s", "keepLastFailed": 1 },
            { "name": "team", "namespaceSelector": { "matchLabels": { "team": "a" } }, "ttlAfterSucceeded": "40s" },
        ]);
        let config = Config {
            policies: serde_json::from_value(policies).unwrap(),
            policy_grace_period: controller_core::config::GoDuration::from_secs(30),
            ..Config::default()
        };
        let mut cluster = Self {
            watched: SimResource::new(|stores: &mut Stores| &mut stores.candidates),
            namespaces: SimResource::new(|stores: &mut Stores| &mut stores.namespaces),
            uids: 0,
            policies: Arc::new(config.compiled()),
            config,
        };
        cluster.namespaces.put(namespace(&[]), Uid::from("team"));
        cluster
    }

    fn namespace(&self) -> Option<NamespaceView> {
        let held = self.namespaces.objects().get(&ObjectKey::cluster("team"));
        held.map(|held| held.view.clone())
    }

    fn edit_namespace(&mut self, edit: impl FnOnce(&mut NamespaceView)) {
        let mut team = self.namespace().unwrap_or_else(|| namespace(&[]));
        edit(&mut team);
        self.namespaces.put(team, Uid::from("team"));
    }

    fn show(&mut self, mut job: Candidate) {
        let uid = job.object.uid.clone();
        // A new object under the name: the old one goes first, which takes a version.
        if self
            .watched
            .objects()
            .get(&job.object.key)
            .is_some_and(|held| held.uid != uid)
        {
            self.watched.delete(&job.object.key);
        }
        job.object.version = self.watched.next_version().to_string().into();
        self.watched.put(job, uid);
    }

    fn edit(&mut self, job: usize, edit: impl FnOnce(&mut Candidate)) {
        let Some(held) = self.watched.objects().get(&key(job)) else {
            return;
        };
        let mut job = held.view.clone();
        edit(&mut job);
        self.show(job);
    }

    fn delete(&mut self, deletion: &Deletion, now: Now) -> Result<Accepted, CallFailed> {
        let held = self.watched.objects().get(&deletion.object);
        let held = held.ok_or_else(sim::deleted_before)?;
        if held.uid != deletion.uid {
            return Err(sim::gone());
        }
        let (version, job) = (held.version, held.view.clone());
        if *deletion.version != *version.to_string() {
            return Err(sim::conflict());
        }
        let Some(Finish::At(finish)) = job.object.finish else {
            panic!("{} has not finished", deletion.object);
        };
        let ttl = match &deletion.by {
            By::Ttl => Duration::from_secs(job.object.ttl_seconds.unwrap().unsigned_abs().into()),
            By::Policy { name, .. } => {
                assert!(
                    job.object.ttl_seconds.is_none() && !job.keep,
                    "{} is not of the policy",
                    deletion.object
                );
                let policy = self
                    .policies
                    .list
                    .iter()
                    .find(|policy| policy.name == *name)
                    .unwrap();
                assert!(
                    policy
                        .objects
                        .as_ref()
                        .is_none_or(|selector| selector.matches(&job.labels))
                );
                if job.failed {
                    policy.after_failed.unwrap()
                } else {
                    policy.after_succeeded.unwrap()
                }
            }
        };
        assert!(
            saturating_add(finish, ttl) <= now.wall,
            "{} goes too early",
            deletion.object
        );
        let deleted = self.watched.next_version();
        self.watched.delete(&deletion.object);
        Ok(Accepted {
            deleting: true,
            ..sim::accepted(job.object.uid, deleted)
        })
    }
}

impl Model for Cluster {
    type Controller = TtlAfterFinishedController;
    type Act = Act;

    /// A Job that is due by a clock that has jumped, and has another time in the queue, would be read for.
    const CLOCKS_JUMP: bool = false;

    fn controller(&self) -> TtlAfterFinishedController {
        TtlAfterFinishedController::new(&self.config, &Registry::new()).unwrap()
    }

    fn act(&mut self, act: &Act, now: Now) {
        let finish = |ago: i64| {
            Some(Finish::At(
                Timestamp::from_second(now.wall.as_second() - ago).unwrap(),
            ))
        };
        match *act {
            Act::Create(number, failed, ago) => {
                self.uids += 1;
                let mut job = named(FinishedKind::Job, &format!("job-{number}"));
                job.object.uid = format!("uid-{}", self.uids).as_str().into();
                job.object.finish = ago.and_then(finish);
                job.failed = failed && ago.is_some();
                self.show(job);
            }
            Act::Finish(job, failed) => self.edit(job, |job| {
                job.object.finish = finish(0);
                job.failed = failed;
            }),
            Act::Label(job, on) => {
                self.edit(job, |job| {
                    job.labels = Arc::new(Labels::new(on.then_some(("app", "ci"))));
                });
            }
            Act::Keep(job, keep) => self.edit(job, |job| job.keep = keep),
            Act::SetTtl(job, ttl) => self.edit(job, |job| job.object.ttl_seconds = ttl),
            Act::LabelNamespace(on) => {
                self.edit_namespace(|team| team.labels = Labels::new(on.then_some(("team", "a"))));
            }
            Act::KeepNamespace(keep) => self.edit_namespace(|team| team.keep = keep),
            Act::Delete(job) => self.watched.delete(&key(job)),
        }
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
        let namespaces = self
            .namespaces
            .stored(|_| true, |held| namespace_fields(&held.view));
        let jobs = self.watched.stored(|_| true, |held| job_fields(&held.view));
        let next = match ask {
            RequestOf::Query(_) => self.namespaces.next_version(),
            RequestOf::Write(_) => self.watched.next_version(),
        };
        Some(sim::server(now, namespaces.chain(jobs).collect(), next - 1))
    }

    fn compare_with(&self, _: &RequestOf<TtlAfterFinishedController>, server: &Server) -> Result<(), String> {
        self.watched
            .compare_with::<JobCandidateWire>(server, &JOB_RESOURCE, |job| Some(job.clone()))
    }

    fn watches(&mut self) -> Vec<(&'static str, &mut dyn Watch<TtlAfterFinishedController>)> {
        vec![("jobs", &mut self.watched), ("namespaces", &mut self.namespaces)]
    }

    fn keys(&self) -> Vec<Key> {
        (0..JOBS).map(|job| Key::job(key(job))).collect()
    }

    fn remembered(&self, state: &State) -> usize {
        state.held()
    }

    fn check(&self, _: &Loop<TtlAfterFinishedController>, now: Now) -> Result<(), String> {
        let team = self.namespace().map(Arc::new);
        let jobs: BTreeMap<_, _> = self.watched.objects().iter().collect();
        let mut state = PolicyState::default();
        let past = Now {
            uptime: Duration::ZERO,
            ..now
        };
        state.begin(
            &self.policies,
            past,
            jobs.values().map(|job| (&job.view, team.clone())),
        );
        for job in jobs.values().map(|job| &job.view) {
            let Ok(index) = applying(&self.policies, job, team.as_deref()) else {
                continue;
            };
            let memory = state.memory(&self.policies, index, &Key::of(job), None);
            let late = Now {
                uptime: Duration::MAX,
                ..now
            };
            if let Verdict::Due { .. } | Verdict::Waits { .. } =
                judge(&self.policies, index, job, memory, late)
            {
                return Err(format!("{} is still there", job.object.key));
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn every_run_ends_with_nothing_that_a_policy_wants_to_go(ops in sim::ops(any_act())) {
        sim::run(Cluster::new(), &ops);
    }
}
