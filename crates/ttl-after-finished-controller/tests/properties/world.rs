//! Jobs on the API server, their namespace, what others do to them, and what the ledger says of each delete.

use std::collections::BTreeMap;

use controller_core::api::CallFailed;
use controller_core::config::GoDuration;
use controller_core::controller::{Accepted, Now};
use controller_core::labels::Labels;
use controller_core::meta::{ObjectKey, Uid};
use controller_testing::past::{Ends, Pasts, at, millis};
use controller_testing::sim::{self, NOW, SimResource};
use ttl_after_finished_controller::config::Config;
use ttl_after_finished_controller::decide::Deletion;
use ttl_after_finished_controller::policy::FinishedKind;
use ttl_after_finished_controller::policy::view::{Candidate, NamespaceView};
use ttl_after_finished_controller::view::JobView;
use ttl_after_finished_controller::{Stores, TtlAfterFinishedController};

use super::Bug;
use super::acts::Act;
use crate::ledger::{GRACE, Ledger, Namespace, Policy, Told, applying, values};
use crate::policies::support::named;

pub(super) const JOBS: usize = 3;
const TEAM: &str = "team";
const HOUR: i64 = 3_600_000;

/// The first keeps a Job that failed, the second goes by the namespace.
const POLICIES: [Policy; 2] = [
    Policy {
        app: Some("ci"),
        succeeded: Some(20_500),
        failed: Some(5_500),
        keeps_last_failed: true,
        ..Policy::IDLE
    },
    Policy {
        team: true,
        succeeded: Some(40_500),
        ..Policy::IDLE
    },
];

#[derive(Clone)]
pub(super) struct Cluster {
    /// How many names Jobs have.
    pub(super) names: usize,
    pub(super) jobs: BTreeMap<ObjectKey, Candidate>,
    /// The watched Jobs without policies: those that have a ttl and are not being deleted.
    pub(super) with_ttl: SimResource<TtlAfterFinishedController, JobView>,
    /// The watched Jobs with policies: those that are not being deleted.
    pub(super) candidates: SimResource<TtlAfterFinishedController, Candidate>,
    pub(super) namespaces: SimResource<TtlAfterFinishedController, NamespaceView>,
    pub(super) pasts: Pasts<Told>,
    pub(super) ledger: Ledger,
    pub(super) uids: u64,
    /// When the deletes of the last hour by the policy with a maximum took effect, in milliseconds.
    pub(super) deletes: Vec<i64>,
    pub(super) bug: Option<Bug>,
}

pub(super) fn key(number: usize) -> ObjectKey {
    ObjectKey::namespaced(TEAM, format!("job-{number}"))
}

pub(super) fn labels(key: &str, value: &str, on: bool) -> Labels {
    Labels::new(on.then_some((key, value)))
}

impl Cluster {
    /// With a Job for each name, with a ttl of a minute.
    pub(super) fn of(names: usize) -> Self {
        let mut cluster = Self::empty(names);
        (0..names).for_each(|job| cluster.create(job, Some(60), 0));
        cluster
    }

    /// With policies, and Jobs to which the first applies.
    pub(super) fn with_policies() -> Self {
        let mut cluster = Self::empty(JOBS);
        cluster.ledger.files = vec![(0, POLICIES.to_vec())];
        cluster.show_namespace();
        for job in 0..JOBS {
            cluster.create(job, None, 0);
            cluster.take(&Act::Label(job, true), NOW);
        }
        cluster
    }

    /// With a policy that deletes two within an hour at most.
    pub(super) fn with_maximum() -> Self {
        let policy = Policy {
            most: Some(2),
            keeps_last_failed: false,
            ..POLICIES[0]
        };
        let mut cluster = Self::empty(JOBS);
        cluster.ledger.files = vec![(0, vec![policy])];
        cluster.show_namespace();
        cluster
    }

    fn empty(names: usize) -> Self {
        Self {
            names,
            jobs: BTreeMap::new(),
            with_ttl: SimResource::new(|stores: &mut Stores| &mut stores.jobs),
            candidates: SimResource::new(|stores: &mut Stores| &mut stores.candidates),
            namespaces: SimResource::new(|stores: &mut Stores| &mut stores.namespaces),
            pasts: Pasts::default(),
            ledger: Ledger::default(),
            uids: 0,
            deletes: Vec::new(),
            bug: None,
        }
    }

    pub(super) fn has_policies(&self) -> bool {
        !self.ledger.files.is_empty()
    }

    pub(super) fn config(&self) -> Config {
        let Some((_, policies)) = self.ledger.files.first() else {
            return Config::default();
        };
        Config {
            policies: serde_json::from_value(values(policies, 0)).unwrap(),
            policy_grace_period: format!("{GRACE}ms").parse::<GoDuration>().unwrap(),
            ..Config::default()
        }
    }

    pub(super) fn create(&mut self, number: usize, ttl: Option<i32>, now: i64) {
        self.end(&key(number), now);
        self.uids += 1;
        let uid = format!("uid-{}", self.uids);
        let told = Told {
            ttl: ttl.map(i64::from),
            ..Told::default()
        };
        self.pasts.0.retain(|past| past.until.is_none());
        self.pasts
            .begin(now, key(number).name.to_string(), uid.clone(), told);
        let mut candidate = named(FinishedKind::Job, &key(number).name);
        candidate.object.uid = uid.as_str().into();
        candidate.object.ttl_seconds = ttl;
        candidate.object.finish = None;
        self.show(&mut candidate);
        self.jobs.insert(key(number), candidate);
    }

    /// Shows the Job to the watch; returns its new version.
    fn show(&mut self, job: &mut Candidate) -> u64 {
        let is_of_policies = self.has_policies();
        let is_shown = !job.object.deleting && (is_of_policies || job.object.ttl_seconds.is_some());
        job.object.version = self.next_version().to_string().into();
        let (key, uid) = (&job.object.key, job.object.uid.clone());
        match (is_of_policies, is_shown) {
            (true, true) => self.candidates.put(job.clone(), uid),
            (true, false) => self.candidates.hide(key),
            (false, true) => self.with_ttl.put(job.object.clone(), uid),
            (false, false) => self.with_ttl.hide(key),
        }
    }

    /// The version that the next change of a Job makes.
    pub(super) fn next_version(&self) -> u64 {
        if self.has_policies() {
            self.candidates.next_version()
        } else {
            self.with_ttl.next_version()
        }
    }

    /// Changes the Job, if it exists; returns its new version.
    fn edit(&mut self, key: &ObjectKey, edit: impl FnOnce(&mut Candidate)) -> Option<u64> {
        let mut candidate = self.jobs.get(key)?.clone();
        edit(&mut candidate);
        let version = self.show(&mut candidate);
        self.jobs.insert(key.clone(), candidate);
        Some(version)
    }

    /// Somebody changes the Job, and what is known of it.
    pub(super) fn change(
        &mut self,
        (number, now): (usize, i64),
        edit: impl FnOnce(&mut Candidate),
        told: impl FnOnce(&mut Told),
    ) {
        self.edit(&key(number), edit);
        self.pasts.tell_at(now, &key(number).name, told);
    }

    /// Somebody deletes the Job, and it is gone.
    pub(super) fn end(&mut self, key: &ObjectKey, now: i64) {
        self.edit(key, |job| job.object.deleting = true);
        self.jobs.remove(key);
        self.pasts.end(now, &key.name);
    }

    fn show_namespace(&mut self) {
        let (_, namespace) = self.ledger.namespaces[self.ledger.namespaces.len() - 1];
        let view = NamespaceView {
            key: ObjectKey::cluster(TEAM),
            labels: labels("team", "a", namespace.team),
            keep: namespace.keep,
            created: Some(at(-1_000_000)),
        };
        self.namespaces.put(view, Uid::from(TEAM));
    }

    pub(super) fn change_namespace(&mut self, now: i64, change: impl FnOnce(&mut Namespace)) {
        let (_, mut namespace) = self.ledger.namespaces[self.ledger.namespaces.len() - 1];
        change(&mut namespace);
        self.ledger.namespaces.push((now, namespace));
        self.show_namespace();
    }

    /// A delete of ours arrives.
    pub(super) fn delete(&mut self, deletion: &Deletion, now: Now) -> Result<Accepted, CallFailed> {
        let key = &deletion.object;
        let job = &self.jobs.get(key).ok_or_else(sim::deleted_before)?.object;
        let uid = job.uid.clone();
        if uid != deletion.uid {
            return Err(sim::gone());
        }
        let has_version = !matches!(self.bug, Some(Bug::NoVersion));
        if has_version && deletion.version != job.version {
            return Err(sim::conflict());
        }
        let mut pasts = self.pasts.0.iter();
        let past = pasts.find(|past| past.uid == uid.to_string()).unwrap();
        // How long a watch lags is drawn.
        let now = millis(now.uptime);
        let by = self.ledger.permits(past, 0, now, i64::MAX);
        let by = by.unwrap_or_else(|why| panic!("{key} is deleted too early: {why}"));
        if let Some(most) = by.and_then(|(file, policy)| self.ledger.files[file].1[policy].most) {
            self.deletes.retain(|then| now - then < HOUR);
            assert!(
                self.deletes.len() < usize::try_from(most).unwrap(),
                "{key} is one too many within an hour"
            );
            self.deletes.push(now);
        }
        // The garbage collector ends it once its pods are gone.
        let version = self.edit(key, |job| job.object.deleting = true).unwrap();
        Ok(Accepted {
            deleting: true,
            ..sim::accepted(uid, version)
        })
    }

    pub(super) fn ends(&self) -> Ends {
        let left = self.pasts.0.iter().filter(|past| past.until.is_none());
        let stays = |uid: &str| {
            let mut jobs = self.jobs.values().map(|job| &job.object);
            jobs.any(|job| job.uid.to_string() == uid && !job.deleting)
        };
        left.map(|past| {
            let fate = self.ledger.fate(past, i64::MAX);
            (past.name.clone(), (fate, stays(&past.uid)))
        })
        .collect()
    }

    /// Of the Jobs that failed and of which a policy keeps the last, one is left.
    pub(super) fn check_last_failed(&self) -> Result<(), String> {
        let (Some((_, policies)), Some((_, namespace))) =
            (self.ledger.files.last(), self.ledger.namespaces.last())
        else {
            return Ok(());
        };
        let ends = self.ends();
        let is_kept = |told: &Told| {
            let applies = applying(policies, told, *namespace);
            let keeps = applies.is_ok_and(|place| policies[place].keeps_last_failed);
            told.ttl.is_none() && keeps && told.finished.is_some_and(|(_, failed)| failed)
        };
        let left = { self.pasts.0.iter() }.filter(|past| past.until.is_none() && is_kept(past.last()));
        let left: Vec<_> = left.map(|past| &past.name).filter(|name| ends[*name].1).collect();
        if left.len() > 1 {
            return Err(format!("{left:?} are still there"));
        }
        Ok(())
    }
}
