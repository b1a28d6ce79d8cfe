//! A cluster of Jobs that nobody runs, and our binary as a process beside it.
//!
//! The API server alone holds a Job that is deleted in the foreground until a garbage collector has taken what
//! it owns. So a Job counts as deleted when it has a deletionTimestamp, which the API server sets in whole
//! seconds, as a finish has them here: what is early by a moment shows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use controller_core::clock::Clock;
use harness::chart::Chart;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testkit::real::{ControlPlane, Options, eventually};

pub(crate) use harness::{QUICK_LEASE, Replica, SOON};

pub(crate) const NAME: &str = "ttl-after-finished-controller";
pub(crate) const CHART: Chart = Chart::of(NAME);
/// The policy that keeps Jobs.
const KEEP: &str = "keep";
/// What a delete may be late on a busy machine.
const LATE: SignedDuration = SignedDuration::from_secs(5);

/// The binary under test; `TTL_AFTER_FINISHED_CONTROLLER_BINARY` names another build of it.
fn binary() -> PathBuf {
    std::env::var_os("TTL_AFTER_FINISHED_CONTROLLER_BINARY").map_or_else(
        || PathBuf::from(env!("CARGO_BIN_EXE_ttl-after-finished-controller")),
        PathBuf::from,
    )
}

/// How a Job ended.
#[derive(Clone, Copy)]
pub(crate) enum Finish {
    Complete,
    Failed,
}

pub(crate) struct Cluster {
    pub(crate) control_plane: ControlPlane,
    /// Of the service account.
    kubeconfig: PathBuf,
}

impl Cluster {
    pub(crate) async fn new() -> Self {
        Self::with(Options::default()).await
    }

    pub(crate) async fn with(options: Options) -> Self {
        let control_plane = ControlPlane::start(options).await.unwrap();
        let kubeconfig = CHART.install(&control_plane).await;
        Self {
            control_plane,
            kubeconfig,
        }
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub(crate) fn jobs(&self) -> Api<Job> {
        Api::default_namespaced(self.control_plane.client())
    }

    /// Our binary, running.
    pub(crate) fn start(&self, args: &[&str]) -> Replica {
        Replica::start(&binary(), self.kubeconfig(), args)
    }

    /// Our binary, running and with its Lease; it knows every Job.
    pub(crate) async fn lead(&self, args: &[&str]) -> Replica {
        let replica = self.start(args);
        replica.until_leading().await;
        replica
    }

    /// Makes an unfinished Job.
    pub(crate) async fn job(&self, name: &str, ttl: Option<i32>) -> Job {
        let job = json!({
            "metadata": {"name": name},
            "spec": {
                "ttlSecondsAfterFinished": ttl,
                "template": {"spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "registry.example/job"}],
                }},
            },
        });
        let job = serde_json::from_value(job).unwrap();
        self.jobs().create(&PostParams::default(), &job).await.unwrap()
    }

    /// Finishes a Job as the Job controller does, `ago` seconds before now; when that was.
    pub(crate) async fn finish(&self, name: &str, how: Finish, ago: i64) -> Timestamp {
        let now = Timestamp::from_second(Clock::system().now().as_second()).unwrap();
        let finish = now - SignedDuration::from_secs(ago);
        let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": finish});
        let status = match how {
            Finish::Complete => json!({
                "startTime": finish,
                "completionTime": finish,
                "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
            }),
            Finish::Failed => json!({
                "startTime": finish,
                "conditions": [condition("FailureTarget"), condition("Failed")],
            }),
        };
        self.set_status(name, status).await;
        finish
    }

    pub(crate) async fn set_status(&self, name: &str, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        self.jobs()
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// A Job of this ttl that has finished just now.
    pub(crate) async fn finished_job(&self, name: &str, ttl: i32) -> Timestamp {
        self.job(name, Some(ttl)).await;
        self.finish(name, Finish::Complete, 0).await
    }

    /// Merges `patch` into a Job.
    pub(crate) async fn patch(&self, name: &str, patch: Value) {
        self.jobs()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    pub(crate) async fn set_ttl(&self, name: &str, ttl: Option<i32>) {
        self.patch(name, json!({"spec": {"ttlSecondsAfterFinished": ttl}}))
            .await;
    }

    /// When a Job was deleted, if it was.
    pub(crate) async fn deleted(&self, name: &str) -> Option<Timestamp> {
        let job = self.jobs().get(name).await.unwrap();
        job.metadata.deletion_timestamp.map(|time| time.0)
    }

    /// Waits until a Job is deleted; when that was.
    pub(crate) async fn until_deleted(&self, name: &str) -> Timestamp {
        let what = format!("the Job {name} is deleted");
        eventually(SOON, &what, async || self.deleted(name).await)
            .await
            .unwrap()
    }

    /// Waits until a Job is deleted, which must be at its expiry and not before.
    pub(crate) async fn until_deleted_at(&self, name: &str, expiry: Timestamp) {
        let deleted = self.until_deleted(name).await;
        let late = deleted.duration_since(expiry);
        assert!(
            !late.is_negative() && late <= LATE,
            "{name} expired at {expiry} and was deleted at {deleted}"
        );
    }

    /// How many Jobs have been deleted.
    pub(crate) async fn deletions(&self) -> usize {
        let jobs = self.jobs().list_metadata(&ListParams::default()).await.unwrap();
        jobs.into_iter()
            .filter(|job| job.metadata.deletion_timestamp.is_some())
            .count()
    }

    /// Each Job's resourceVersion: equal maps mean that nothing was written between.
    pub(crate) async fn versions(&self) -> BTreeMap<String, String> {
        let jobs = self.jobs().list_metadata(&ListParams::default()).await.unwrap();
        jobs.into_iter()
            .map(|job| (job.metadata.name.unwrap(), job.metadata.resource_version.unwrap()))
            .collect()
    }

    /// Has admission refuse every delete of a Job, and waits until it does.
    pub(crate) async fn keep_jobs(&self) {
        let policy = json!({
            "metadata": {"name": KEEP},
            "spec": {
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs"], "operations": ["DELETE"],
                }]},
                "validations": [{"expression": "false", "message": "Jobs are kept", "reason": "Forbidden"}],
            },
        });
        let policies: Api<ValidatingAdmissionPolicy> = Api::all(self.control_plane.client());
        let policy = serde_json::from_value(policy).unwrap();
        policies.create(&PostParams::default(), &policy).await.unwrap();
        let binding = json!({
            "metadata": {"name": KEEP},
            "spec": {"policyName": KEEP, "validationActions": ["Deny"]},
        });
        let binding = serde_json::from_value(binding).unwrap();
        let bindings = self.policy_bindings();
        bindings.create(&PostParams::default(), &binding).await.unwrap();
        self.job("probe", None).await;
        self.until_kept(true).await;
    }

    /// Ends that.
    pub(crate) async fn let_jobs_go(&self) {
        let bindings = self.policy_bindings();
        bindings.delete(KEEP, &DeleteParams::default()).await.unwrap();
        self.until_kept(false).await;
    }

    fn policy_bindings(&self) -> Api<ValidatingAdmissionPolicyBinding> {
        Api::all(self.control_plane.client())
    }

    async fn until_kept(&self, kept: bool) {
        let trial = DeleteParams::default().dry_run();
        eventually(SOON, "the change of policy counts", async || {
            (self.jobs().delete("probe", &trial).await.is_err() == kept).then_some(())
        })
        .await
        .unwrap();
    }

    pub(crate) async fn lease_holder(&self) -> Option<String> {
        let leases: Api<Lease> = Api::namespaced(self.control_plane.client(), "kube-system");
        let lease = leases.get_opt(NAME).await.unwrap()?;
        lease.spec?.holder_identity.filter(|holder| !holder.is_empty())
    }

    /// The one event of this reason on a Job, as soon as it is there.
    pub(crate) async fn event(&self, job: &str, reason: &str) -> Event {
        let events: Api<Event> = Api::default_namespaced(self.control_plane.client());
        let of_job = ListParams::default().fields(&format!(
            "regarding.kind=Job,regarding.name={job},reason={reason}"
        ));
        let what = format!("the event {reason} on {job}");
        eventually(SOON, &what, async || {
            let mut found = events.list(&of_job).await.unwrap().items;
            assert!(found.len() <= 1, "{found:#?}");
            found.pop()
        })
        .await
        .unwrap()
    }

    /// Exit code and words of `explain`.
    pub(crate) async fn explain(&self, job: &str) -> (Option<i32>, String) {
        let mut explain = self.start(&["explain", job]);
        let code = explain.process.wait_exit(SOON).await.unwrap().code();
        (code, explain.process.log())
    }
}
