//! How an object ends: grace periods, finalizers, and what its dependents are told
//! (apiserver `registry/rest/delete.go`, `registry/generic/registry/store.go`).

mod options;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::clock::rfc3339;
use crate::failure::StatusError;
use crate::object::{finalizers, remove, text};
use crate::resource::table::PODS;
use crate::resource::{Dependents, Resource};
use crate::store::Stored;
use crate::write::{Current, Write};

pub(crate) use options::{DeleteOptions, Propagation};

/// The finalizer of an object whose dependents are to stay.
pub(crate) const ORPHAN: &str = "orphan";
/// The finalizer of an object whose dependents are deleted first.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// What is left after a delete.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// Nothing; the last state of the object.
    Gone(Stored),
    /// The object, which waits for its grace period or its finalizers.
    Waiting(Stored),
}

/// What a delete does to an object that can be deleted gracefully.
#[derive(Debug, PartialEq, Eq)]
enum Grace {
    /// The kind knows no grace period, or the one of this object is over.
    None,
    /// It is being deleted, no later than this delete asks for.
    Pending,
    /// It has until `end`, `seconds` after the delete.
    Until { end: Timestamp, seconds: i64 },
}

impl Write<'_> {
    pub(crate) fn delete(mut self, options: &DeleteOptions) -> Result<Deleted, StatusError> {
        self.dry_run = options.dry_run;
        let current = self.current()?;
        self.check_preconditions(&current, options)?;
        let now = self.now();
        let grace = if self.resource.is(&PODS) {
            grace(&current.object, options, now)
        } else {
            Grace::None
        };
        let mut object = current.object.clone();
        let is_first = object["metadata"].get("deletionTimestamp").is_none();
        let seconds = match grace {
            Grace::Pending => return Ok(Deleted::Waiting(current.stored)),
            Grace::None => {
                if deletion_time(&object).is_none_or(|time| time > now) {
                    object["metadata"]["deletionTimestamp"] = json!(rfc3339(now));
                }
                0
            }
            Grace::Until { end, seconds } => {
                object["metadata"]["deletionTimestamp"] = json!(rfc3339(end));
                seconds
            }
        };
        object["metadata"]["deletionGracePeriodSeconds"] = json!(seconds);
        if is_first {
            self.count_generation(&mut object);
        }
        let left = finalizers_after(self.resource, &object, options);
        set_finalizers(&mut object, left);
        let waits = !finalizers(&object).is_empty() || seconds > 0;
        if grace == Grace::None && !waits {
            // Nobody is told of a state between the last and none.
            return Ok(Deleted::Gone(self.remove(current.object)));
        }
        let marked = if object == current.object {
            current.stored
        } else {
            self.put(&self.key(), object.clone())
        };
        if waits {
            return Ok(Deleted::Waiting(marked));
        }
        if self.dry_run {
            return Ok(Deleted::Gone(marked));
        }
        Ok(Deleted::Gone(self.remove(object)))
    }

    pub(crate) fn check_preconditions(
        &self,
        current: &Current,
        options: &DeleteOptions,
    ) -> Result<(), StatusError> {
        let uid = text(&current.object["metadata"], "uid");
        if let Some(wanted) = options.preconditions.uid.as_ref().filter(|wanted| *wanted != uid) {
            return Err(StatusError::uid_precondition(
                self.resource,
                self.name,
                wanted,
                uid,
            ));
        }
        let version = current.stored.version;
        match &options.preconditions.version {
            Some(wanted) if *wanted != version.to_string() => Err(StatusError::version_precondition(
                self.resource,
                self.name,
                wanted,
                version,
            )),
            _ => Ok(()),
        }
    }

    /// Whether an update that leaves `new` behind ends the object: it was only waiting for this.
    pub(crate) fn is_over(old: &Value, new: &Value) -> bool {
        let metadata = &old["metadata"];
        metadata.get("deletionTimestamp").is_some()
            && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
            && finalizers(new).is_empty()
    }

    /// The time of this write.
    pub(crate) fn now(&self) -> Timestamp {
        self.writer.now.parse().unwrap_or_default()
    }
}

/// The grace of a pod. Only a shorter period than the one that runs is taken.
fn grace(pod: &Value, options: &DeleteOptions, now: Timestamp) -> Grace {
    let after = |start: Timestamp, seconds: i64| {
        start
            .checked_add(SignedDuration::from_secs(seconds))
            .unwrap_or(Timestamp::MAX)
    };
    let at_least_one = |seconds: i64| if seconds < 0 { 1 } else { seconds };
    let asked = options.grace.map(at_least_one);
    let Some(end) = deletion_time(pod) else {
        let spec = &pod["spec"];
        let is_running = !text(spec, "nodeName").is_empty()
            && !matches!(text(&pod["status"], "phase"), "Failed" | "Succeeded");
        let default = spec["terminationGracePeriodSeconds"].as_i64().map(at_least_one);
        let seconds = asked.or(default).filter(|_| is_running).unwrap_or(0);
        return Grace::Until {
            end: after(now, seconds),
            seconds,
        };
    };
    let running = pod["metadata"]["deletionGracePeriodSeconds"]
        .as_i64()
        .unwrap_or(0);
    match asked {
        _ if running == 0 => Grace::None,
        Some(seconds) if seconds < running => {
            let start = end
                .checked_sub(SignedDuration::from_secs(running))
                .unwrap_or(Timestamp::MIN);
            let end = after(start, seconds);
            if end >= now {
                return Grace::Until { end, seconds };
            }
            // What is over ends now; a graceful end still takes another delete.
            Grace::Until {
                end: now,
                seconds: seconds.min(1),
            }
        }
        _ => Grace::Pending,
    }
}

fn deletion_time(object: &Value) -> Option<Timestamp> {
    object["metadata"]["deletionTimestamp"].as_str()?.parse().ok()
}

/// The finalizers of an object after a delete: one of the garbage collector's at most.
fn finalizers_after(resource: &Resource, object: &Value, options: &DeleteOptions) -> Vec<Value> {
    let own = finalizers(object);
    let others = own.iter().filter(|name| *name != ORPHAN && *name != FOREGROUND);
    others
        .cloned()
        .chain(collector_finalizer(resource, own, options).map(Value::from))
        .collect()
}

/// What an object asks the garbage collector to do before it goes: what the delete says, else what the
/// object says, else what is usual for its kind.
fn collector_finalizer(resource: &Resource, own: &[Value], options: &DeleteOptions) -> Option<&'static str> {
    if resource.dependents == Dependents::Unsupported {
        return None;
    }
    match options.propagation {
        Some(Propagation::Orphan) => Some(ORPHAN),
        Some(Propagation::Foreground) => Some(FOREGROUND),
        Some(Propagation::Background) => None,
        None => {
            let asked = own.iter().find_map(|name| {
                [ORPHAN, FOREGROUND]
                    .into_iter()
                    .find(|finalizer| name == finalizer)
            });
            asked.or((resource.dependents == Dependents::Orphaned).then_some(ORPHAN))
        }
    }
}

/// Gives an object these finalizers.
pub(crate) fn set_finalizers(object: &mut Value, finalizers: Vec<Value>) {
    if finalizers.is_empty() {
        remove(&mut object["metadata"], "finalizers");
    } else {
        object["metadata"]["finalizers"] = Value::Array(finalizers);
    }
}
