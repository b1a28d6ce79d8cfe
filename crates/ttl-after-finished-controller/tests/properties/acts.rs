//! What others do to Jobs and to their namespace.

use std::sync::Arc;

use controller_core::controller::Now;
use controller_testing::past::{at, millis};
use proptest::prelude::*;
use ttl_after_finished_controller::policy::view::Candidate;
use ttl_after_finished_controller::view::Finish;

use super::Bug;
use super::world::{Cluster, JOBS, key, labels};
use crate::ledger::Told;

/// When a Job finished.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ended {
    /// Seconds ago; in the future if negative.
    Ago(i64),
    /// Its condition has no time.
    Undated,
}

#[derive(Clone, Debug)]
pub(super) enum Act {
    /// A new Job gets this name.
    Create(usize, Option<i32>),
    /// The Job finishes, and failed or not.
    Finish(usize, Ended, bool),
    SetTtl(usize, Option<i32>),
    Delete(usize),
    Label(usize, bool),
    Keep(usize, bool),
    LabelNamespace(bool),
    KeepNamespace(bool),
}

/// What counts without policies.
pub(super) fn any_action() -> impl Strategy<Value = Act> {
    any_action_of(&[None, Some(0), Some(5), Some(60), Some(400)])
}

fn any_action_of(ttls: &'static [Option<i32>]) -> impl Strategy<Value = Act> {
    let ttl = || prop::sample::select(ttls);
    let ago = prop::sample::select(vec![-40_i64, 0, 3, 100]).prop_map(Ended::Ago);
    let ended = prop_oneof![9 => ago, 1 => Just(Ended::Undated)];
    let job = || 0..JOBS;
    prop_oneof![
        2 => (job(), ttl()).prop_map(|(job, ttl)| Act::Create(job, ttl)),
        4 => (job(), ended, any::<bool>()).prop_map(|(job, ended, failed)| Act::Finish(job, ended, failed)),
        3 => (job(), ttl()).prop_map(|(job, ttl)| Act::SetTtl(job, ttl)),
        1 => job().prop_map(Act::Delete),
    ]
}

/// Most Jobs have no ttl, and finish.
pub(super) fn any_action_with_policies() -> impl Strategy<Value = Act> {
    let job = || 0..JOBS;
    prop_oneof![
        8 => any_action_of(&[None, None, None, Some(5)]),
        3 => (job(), any::<bool>()).prop_map(|(job, on)| Act::Label(job, on)),
        1 => (job(), any::<bool>()).prop_map(|(job, on)| Act::Keep(job, on)),
        2 => any::<bool>().prop_map(Act::LabelNamespace),
        1 => any::<bool>().prop_map(Act::KeepNamespace),
    ]
}

impl Cluster {
    pub(super) fn take(&mut self, act: &Act, now: Now) {
        let now = millis(now.uptime);
        match *act {
            Act::Create(job, ttl) => self.create(job, ttl, now),
            Act::Finish(job, ended, failed) => {
                let (finish, finished) = match ended {
                    Ended::Undated => (Finish::Undated, None),
                    Ended::Ago(ago) => {
                        let finished = now / 1000 - ago;
                        (Finish::At(at(finished * 1000)), Some((finished, failed)))
                    }
                };
                let edit = |job: &mut Candidate| {
                    job.object.finish = Some(finish);
                    job.failed = failed;
                };
                self.change((job, now), edit, |told| told.finished = finished);
            }
            Act::SetTtl(job, ttl) if matches!(self.bug, Some(Bug::HidesTtls)) => {
                if let Some(job) = self.jobs.get_mut(&key(job)) {
                    job.object.ttl_seconds = ttl;
                }
                let told = |told: &mut Told| told.ttl = ttl.map(i64::from);
                self.pasts.tell_at(now, &key(job).name, told);
            }
            Act::SetTtl(job, ttl) => {
                let edit = |job: &mut Candidate| job.object.ttl_seconds = ttl;
                self.change((job, now), edit, |told| told.ttl = ttl.map(i64::from));
            }
            Act::Delete(job) => self.end(&key(job), now),
            Act::Label(job, on) => {
                let edit = |job: &mut Candidate| job.labels = Arc::new(labels("app", "ci", on));
                self.change((job, now), edit, |told| told.app = on.then_some("ci"));
            }
            Act::Keep(job, keep) => {
                self.change((job, now), |job| job.keep = keep, |told| told.keep = keep);
            }
            Act::LabelNamespace(on) => self.change_namespace(now, |namespace| namespace.team = on),
            Act::KeepNamespace(keep) => self.change_namespace(now, |namespace| namespace.keep = keep),
        }
    }
}
