//! What is true at each moment of a history, and so which deletes are right, whatever the controller believes.
//!
//! The controller may believe what was true a little earlier: a file for as long as it takes to read the next one, and
//! a namespace for as long as an answer about it serves. How the object is, the delete itself says by its version.

use std::collections::BTreeMap;

use controller_testing::past::{FinalFate, Past};

use super::drawn::{DrawnPolicy, GRACE, applying};

/// How long a file, or a namespace, may count after it has changed, in milliseconds.
const BELIEVED: i64 = 10_500;
/// Later than any history lasts.
const NEVER: i64 = 600_000;
/// An object that is seen within this time of its end is new to the controller.
const NEW: i64 = 60_000;

/// What decides about an object. Times are since the start.
#[allow(clippy::struct_excessive_bools, reason = "each is drawn by itself")]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    pub(super) is_pod: bool,
    /// In seconds.
    pub(super) ttl: Option<i64>,
    pub(super) app: Option<&'static str>,
    pub(super) keep: bool,
    pub(super) owned: bool,
    /// A finalizer holds it.
    pub(super) held: bool,
    /// In seconds, and whether it failed.
    pub(super) finished: Option<(i64, bool)>,
}

/// What decides about the namespace.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Namespace {
    pub(super) team: bool,
    pub(super) keep: bool,
}

/// The policies and the namespace, each with the time from which it holds.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) files: Vec<(i64, Vec<DrawnPolicy>)>,
    pub(super) namespaces: Vec<(i64, Namespace)>,
    /// The deletes of each life of a process by each policy of a file.
    deletes: BTreeMap<(String, usize, usize), u32>,
}

/// How much the controller may have missed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sight {
    /// Nothing: no watch has failed.
    Whole,
    Patchy,
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            files: vec![(0, vec![DrawnPolicy::IDLE])],
            namespaces: vec![(0, Namespace::default())],
            deletes: BTreeMap::new(),
        }
    }
}

/// Each entry with its time and the time of the next, which is never for the last.
fn spans<T>(entries: &[(i64, T)]) -> impl Iterator<Item = (i64, i64, &T)> {
    let next = move |place: usize| entries.get(place + 1).map_or(i64::MAX, |(time, _)| *time);
    let entries = entries.iter().enumerate();
    entries.map(move |(place, (time, entry))| (*time, next(place), entry))
}

/// When a policy of this file that applies wants the object gone.
fn due(policies: &[DrawnPolicy], told: &Told, namespace: Namespace) -> Result<(usize, i64), &'static str> {
    let policy = applying(policies, told, namespace)?;
    let (finish, failed) = told.finished.ok_or("it has not finished")?;
    let ttl = policies[policy].ttl(failed).ok_or("its policy says never")?;
    if told.held {
        return Err("a finalizer holds it");
    }
    Ok((policy, finish * 1000 + ttl))
}

/// When its own ttl wants the object gone.
fn expiry(told: &Told, ttl: i64) -> Result<i64, &'static str> {
    let (finish, _) = told.finished.ok_or("it has not finished")?;
    Ok((finish + ttl) * 1000)
}

impl Ledger {
    /// Whether each process has read the last file, or will at its start.
    pub(super) fn is_known(&self, now: i64) -> bool {
        self.files.last().is_some_and(|(begun, _)| now > begun + BELIEVED)
    }

    /// What becomes of an object in the end.
    pub(super) fn fate(&self, past: &Past<Told>) -> FinalFate {
        let mut fate = FinalFate::Lives;
        for (from, until, told) in spans(&past.told) {
            for (begun, ended, policies) in spans(&self.files) {
                for (labelled, changed, namespace) in spans(&self.namespaces) {
                    let (due, most) = match told.ttl {
                        Some(ttl) => (expiry(told, ttl), None),
                        None => match due(policies, told, *namespace) {
                            Ok((policy, due)) => (Ok(due), policies[policy].most),
                            Err(why) => (Err(why), None),
                        },
                    };
                    let Some(due) = due.ok().filter(|due| *due < NEVER) else {
                        continue;
                    };
                    let ends = [
                        until,
                        ended.saturating_add(BELIEVED),
                        changed.saturating_add(BELIEVED),
                    ];
                    let end = ends.into_iter().min().unwrap_or(i64::MAX);
                    let since = [due, from, begun, labelled].into_iter().max().unwrap_or(due);
                    match end {
                        i64::MAX if most.is_none() => return FinalFate::Goes,
                        _ if since < end => fate = FinalFate::MayGo(0),
                        _ => {}
                    }
                }
            }
        }
        fate
    }

    /// Whether a process whose life began at `life` may delete the object at `now`, and by which policy of which file;
    /// `None` for its own ttl, and where several may have been meant.
    pub(super) fn permits(
        &self,
        past: &Past<Told>,
        life: i64,
        now: i64,
        sight: Sight,
    ) -> Result<Option<(usize, usize)>, &'static str> {
        let told = past.last();
        if let Some(ttl) = told.ttl {
            return if expiry(told, ttl)? <= now {
                Ok(None)
            } else {
                Err("its own ttl has not passed")
            };
        }
        let stale = match sight {
            Sight::Whole => 0,
            Sight::Patchy => BELIEVED,
        };
        let mut by = Vec::new();
        let mut why = "no file was there";
        for (file, (begun, ended, policies)) in spans(&self.files).enumerate() {
            if begun > now || now > ended.saturating_add(BELIEVED) {
                continue;
            }
            for (labelled, changed, namespace) in spans(&self.namespaces) {
                if labelled > now || now > changed.saturating_add(stale) {
                    continue;
                }
                match due(policies, told, *namespace) {
                    Err(reason) => why = reason,
                    Ok((_, due)) if due > now => why = "its time has not passed",
                    Ok((policy, _)) if self.in_grace(past, file, policy, life, now, sight) => {
                        why = "it is within the grace period";
                    }
                    Ok((policy, _)) => by.push((file, policy)),
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
        sight: Sight,
    ) -> bool {
        let (begun, policies) = &self.files[file];
        let since = life.max(*begun);
        let own = match sight {
            Sight::Whole => self.began(past, policies, policy, since, now),
            // Who missed a change and its end has seen none.
            Sight::Patchy => {
                let applies = |told: &Told| {
                    let mut namespaces = self.namespaces.iter();
                    namespaces.any(|(_, namespace)| applying(policies, told, *namespace) == Ok(policy))
                };
                let mut told = spans(&past.told);
                let found = told.any(|(from, until, told)| {
                    applies(told) && (from <= now - GRACE || may_be_new(told, from, until))
                });
                if found { since } else { now }
            }
        };
        now < since.max(own) + GRACE
    }

    /// When the policy began to apply, for a process that has seen each change since `since`.
    fn began(&self, past: &Past<Told>, policies: &[DrawnPolicy], policy: usize, since: i64, now: i64) -> i64 {
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

    /// Counts a delete; fails if it is one too many.
    pub(super) fn count(&mut self, life: &str, (file, policy): (usize, usize)) -> Result<(), String> {
        let deletes = self.deletes.entry((life.to_owned(), file, policy)).or_default();
        *deletes += 1;
        match self.files[file].1[policy].most {
            Some(most) if *deletes > most => Err(format!(
                "policy p{file}-{policy} deletes more than its maxPerHour ({most})"
            )),
            _ => Ok(()),
        }
    }
}

/// Whether somebody who first sees the object between these times may take it for new.
fn may_be_new(told: &Told, from: i64, until: i64) -> bool {
    told.finished
        .is_none_or(|(finish, _)| from <= finish * 1000 + NEW && finish * 1000 - NEW < until)
}
