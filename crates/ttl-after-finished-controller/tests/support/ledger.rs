//! What is true at each moment of a history or of the model, and so which deletes are right, whatever the controller
//! believes. Times are in milliseconds since the start.
//!
//! The controller may believe what was true a little earlier: a file for as long as it takes to read the next one, and
//! a namespace for as long as an answer about it serves. How the object is, the delete itself says by its version.

use controller_testing::past::{FinalFate, Past};
use serde_json::{Value, json};

/// The grace period of every file: longer than a process takes to read a changed file, so that each delete is due by
/// one file alone. Ttls and grace periods never end when a file is read, on a whole second.
pub(crate) const GRACE: i64 = 14_750;
/// How long a file, or a namespace, may count after it has changed.
pub(crate) const BELIEVED: i64 = 10_500;
/// An object that is seen within this time of its end is new to the controller.
const NEW: i64 = 60_000;

/// What decides about an object.
#[allow(clippy::struct_excessive_bools, reason = "each is drawn by itself")]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    pub(crate) is_pod: bool,
    /// In seconds.
    pub(crate) ttl: Option<i64>,
    pub(crate) app: Option<&'static str>,
    pub(crate) keep: bool,
    pub(crate) owned: bool,
    /// A finalizer holds it.
    pub(crate) held: bool,
    /// When, in seconds since the start, and whether it failed.
    pub(crate) finished: Option<(i64, bool)>,
}

/// What decides about the namespace.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Namespace {
    pub(crate) team: bool,
    pub(crate) keep: bool,
}

/// A clean-up policy.
#[allow(clippy::struct_excessive_bools, reason = "each is drawn by itself")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    pub(crate) jobs: bool,
    pub(crate) pods: bool,
    /// Selects objects with this label.
    pub(crate) app: Option<&'static str>,
    /// Selects namespaces with the label of the team.
    pub(crate) team: bool,
    pub(crate) succeeded: Option<i64>,
    pub(crate) failed: Option<i64>,
    pub(crate) owned: bool,
    pub(crate) most: Option<u32>,
    /// The last object that failed stays.
    pub(crate) keeps_last_failed: bool,
}

impl Policy {
    /// Deletes nothing.
    pub(crate) const IDLE: Self = Self {
        jobs: true,
        pods: true,
        app: None,
        team: false,
        succeeded: None,
        failed: None,
        owned: false,
        most: None,
        keeps_last_failed: false,
    };

    fn selects(&self, told: &Told, namespace: Namespace) -> bool {
        let has_kind = if told.is_pod { self.pods } else { self.jobs };
        has_kind && (self.app.is_none() || self.app == told.app) && (!self.team || namespace.team)
    }

    /// As in a file.
    fn value(&self, name: &str) -> Value {
        let kinds: &[&str] = match (self.jobs, self.pods) {
            (true, true) => &["Job", "Pod"],
            (true, false) => &["Job"],
            (false, _) => &["Pod"],
        };
        let ttl = |ttl: Option<i64>| ttl.map_or_else(|| "never".to_owned(), |ttl| format!("{ttl}ms"));
        let mut policy = json!({
            "name": name, "kinds": kinds, "includeOwned": self.owned,
            "ttlAfterSucceeded": ttl(self.succeeded), "ttlAfterFailed": ttl(self.failed),
        });
        if let Some(app) = self.app {
            policy["selector"] = json!({ "matchLabels": { "app": app } });
        }
        if self.team {
            policy["namespaceSelector"] = json!({ "matchLabels": { "team": "a" } });
        }
        if let Some(most) = self.most {
            policy["maxPerHour"] = json!(most);
        }
        if self.keeps_last_failed {
            policy["keepLastFailed"] = json!(1);
        }
        policy
    }
}

/// The policies of the file with this number, which is in the names: no two files are equal.
pub(crate) fn values(policies: &[Policy], number: usize) -> Value {
    let places = policies.iter().enumerate();
    places
        .map(|(place, policy)| policy.value(&format!("p{number}-{place}")))
        .collect()
}

/// Which of the policies applies to an object, or why none does.
pub(crate) fn applying(
    policies: &[Policy],
    told: &Told,
    namespace: Namespace,
) -> Result<usize, &'static str> {
    if told.keep || namespace.keep {
        return Err("it is annotated to be kept");
    }
    let mut all = policies.iter();
    let first = all.position(|policy| policy.selects(told, namespace));
    let first = first.ok_or("no policy selects it")?;
    if told.owned && !policies[first].owned {
        return Err("it has a controller");
    }
    Ok(first)
}

/// The policies and the namespace, each with the time from which it holds; no policies if only the objects' own ttls
/// count.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    pub(crate) files: Vec<(i64, Vec<Policy>)>,
    pub(crate) namespaces: Vec<(i64, Namespace)>,
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            files: Vec::new(),
            namespaces: vec![(0, Namespace::default())],
        }
    }
}

/// Each entry with its time and the time of the next, which is never for the last.
fn spans<T>(entries: &[(i64, T)]) -> impl Iterator<Item = (i64, i64, &T)> {
    let next = move |place: usize| entries.get(place + 1).map_or(i64::MAX, |(time, _)| *time);
    let entries = entries.iter().enumerate();
    entries.map(move |(place, (time, entry))| (*time, next(place), entry))
}

/// What wants an object gone.
#[derive(Clone, Copy, Debug)]
struct Due {
    at: i64,
    /// The policy, by its place; `None` for the object's own ttl.
    policy: Option<usize>,
    /// The rules need not say whether it goes: the policy stops, or keeps the last.
    is_open: bool,
}

/// When the object's own ttl, or else a policy of this file, wants it gone.
fn due(policies: &[Policy], told: &Told, namespace: Namespace) -> Result<Due, &'static str> {
    let policy = match told.ttl {
        Some(_) => None,
        None if policies.is_empty() => return Err("it has no ttl"),
        None => Some(applying(policies, told, namespace)?),
    };
    let (finish, failed) = told.finished.ok_or("it has not finished")?;
    let Some(place) = policy else {
        let at = (finish + told.ttl.unwrap_or_default()) * 1000;
        let is_open = false;
        return Ok(Due { at, policy, is_open });
    };
    let applies = &policies[place];
    let ttl = if failed { applies.failed } else { applies.succeeded };
    let ttl = ttl.ok_or("its policy says never")?;
    if told.held {
        return Err("a finalizer holds it");
    }
    Ok(Due {
        at: finish * 1000 + ttl,
        policy,
        is_open: applies.most.is_some() || failed && applies.keeps_last_failed,
    })
}

impl Ledger {
    /// What becomes of an object in the end; what is due at `never` or later lives.
    pub(crate) fn fate(&self, past: &Past<Told>, never: i64) -> FinalFate {
        let mut fates = Vec::new();
        for (from, until, told) in spans(&past.told) {
            for (begun, ended, policies) in self.files() {
                for (labelled, changed, namespace) in spans(&self.namespaces) {
                    let Some(due) = due(policies, told, *namespace).ok().filter(|due| due.at < never) else {
                        continue;
                    };
                    let ends = [
                        until,
                        ended.saturating_add(BELIEVED),
                        changed.saturating_add(BELIEVED),
                    ];
                    let end = ends.into_iter().min().unwrap_or(i64::MAX);
                    let since = due.at.max(from).max(begun).max(labelled);
                    let overdue = end.saturating_sub(since);
                    fates.push(match (end, due.is_open) {
                        (_, true) => overdue.min(0),
                        (i64::MAX, false) => i64::MAX,
                        (_, false) => overdue,
                    });
                }
            }
        }
        FinalFate::of(fates.into_iter().max().filter(|overdue| *overdue >= 0))
    }

    /// The policies, or none, each with its time and the time of the next.
    fn files(&self) -> impl Iterator<Item = (i64, i64, &[Policy])> {
        let none = self.files.is_empty().then_some((0, i64::MAX, [].as_slice()));
        let files = spans(&self.files).map(|(begun, ended, policies)| (begun, ended, policies.as_slice()));
        files.chain(none)
    }

    /// Whether a process whose life began at `life` may delete the object at `now`, and by which policy of which file;
    /// `None` for its own ttl, and where several may have been meant. The process may have missed what changed within
    /// the time `missed`.
    pub(crate) fn permits(
        &self,
        past: &Past<Told>,
        life: i64,
        now: i64,
        missed: i64,
    ) -> Result<Option<(usize, usize)>, String> {
        let mut by = Vec::new();
        let mut why = "no file was there".to_owned();
        for (file, (begun, ended, policies)) in self.files().enumerate() {
            if begun > now || now > ended.saturating_add(BELIEVED) {
                continue;
            }
            for (labelled, changed, namespace) in spans(&self.namespaces) {
                if labelled > now || now > changed.saturating_add(missed) {
                    continue;
                }
                match due(policies, past.last(), *namespace) {
                    Err(reason) => reason.clone_into(&mut why),
                    Ok(due) if due.at > now => why = format!("it expires in {} ms", due.at - now),
                    Ok(Due { policy: None, .. }) => return Ok(None),
                    Ok(Due {
                        policy: Some(policy), ..
                    }) => {
                        if self.in_grace(past, file, policy, life, now, missed) {
                            "it is within the grace period".clone_into(&mut why);
                        } else {
                            by.push((file, policy));
                        }
                    }
                }
            }
        }
        by.dedup();
        match *by {
            [] => Err(why),
            [by] => Ok(Some(by)),
            _ => Ok(None),
        }
    }

    /// Whether the policy has not applied for long enough.
    fn in_grace(
        &self,
        past: &Past<Told>,
        file: usize,
        policy: usize,
        life: i64,
        now: i64,
        missed: i64,
    ) -> bool {
        let (begun, policies) = &self.files[file];
        let since = life.max(*begun);
        let own = if missed == 0 {
            self.began(past, policies, policy, since, now)
        } else {
            // Who missed a change and its end has seen none.
            let applies = |told: &Told| {
                let mut namespaces = self.namespaces.iter();
                namespaces.any(|(_, namespace)| applying(policies, told, *namespace) == Ok(policy))
            };
            let mut told = spans(&past.told);
            let found = told.any(|(from, until, told)| {
                applies(told) && (from <= now - GRACE || may_be_new(told, from, until))
            });
            if found { since } else { now }
        };
        now < since.max(own) + GRACE
    }

    /// When the policy began to apply, for a process that has seen each change since `since`.
    fn began(&self, past: &Past<Told>, policies: &[Policy], policy: usize, since: i64, now: i64) -> i64 {
        let told = past.told.iter().map(|(time, told)| (*time, Ok(told)));
        let namespaces = self
            .namespaces
            .iter()
            .map(|(time, namespace)| (*time, Err(*namespace)));
        let mut changes: Vec<_> = namespaces.chain(told).filter(|(time, _)| *time <= now).collect();
        changes.sort_by_key(|(time, _)| *time);
        let (mut began, mut before) = (since, None);
        let (mut told, mut namespace) = (None, None);
        for (time, change) in changes {
            match change {
                Ok(last) => told = Some(last),
                Err(last) => namespace = Some(last),
            }
            let (Some(told), Some(namespace)) = (told, namespace) else {
                continue;
            };
            // A pod is seen once it has finished.
            if told.is_pod && told.finished.is_none() {
                continue;
            }
            let applies = told.ttl.is_none() && applying(policies, told, namespace) == Ok(policy);
            let is_new = before.is_none() && may_be_new(told, time, time + 1);
            if applies && before != Some(true) && !is_new && time > since {
                began = time;
            }
            before = Some(applies);
        }
        began
    }
}

/// Whether somebody who first sees the object between these times may take it for new.
fn may_be_new(told: &Told, from: i64, until: i64) -> bool {
    told.finished
        .is_none_or(|(finish, _)| from <= finish * 1000 + NEW && finish * 1000 - NEW < until)
}
