//! Deletion: grace periods, finalizers, and dependents (apiserver `registry/rest/delete.go`,
//! `registry/generic/registry/store.go`).

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

/// Finalizer that makes the garbage collector orphan the dependents.
pub(crate) const ORPHAN: &str = "orphan";
/// Finalizer that makes the garbage collector delete the dependents first.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// The result of a delete.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// The object is gone; this is its last state.
    Gone(Stored),
    /// The object remains until its grace period ends or its finalizers are removed.
    Waiting(Stored),
}

/// The effect of a delete on the grace period.
#[derive(Debug, PartialEq, Eq)]
enum Grace {
    /// The kind has no grace periods, or this object's has ended.
    None,
    /// The object is already being deleted, and ends no later than this delete demands.
    Pending,
    /// The object has until `end`, `seconds` after the delete.
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
            // Nobody sees the marked object: it is removed at once.
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

    /// True if an update to `new` ends the object, which was only waiting for this.
    pub(crate) fn is_over(old: &Value, new: &Value) -> bool {
        let metadata = &old["metadata"];
        metadata.get("deletionTimestamp").is_some()
            && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
            && finalizers(new).is_empty()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.writer.now.parse().unwrap_or_default()
    }
}

/// The grace period of a pod. A later delete can only shorten it.
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
            // The shortened period is already over: it ends now, but a graceful deletion still takes another delete.
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

/// The finalizers after a delete, with at most one for the garbage collector.
fn finalizers_after(resource: &Resource, object: &Value, options: &DeleteOptions) -> Vec<Value> {
    let own = finalizers(object);
    let others = own.iter().filter(|name| *name != ORPHAN && *name != FOREGROUND);
    others
        .cloned()
        .chain(collector_finalizer(resource, own, options).map(Value::from))
        .collect()
}

/// The finalizer that a delete adds for the garbage collector: by the delete's options, else by the object's
/// finalizers, else by its kind.
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

pub(crate) fn set_finalizers(object: &mut Value, finalizers: Vec<Value>) {
    if finalizers.is_empty() {
        remove(&mut object["metadata"], "finalizers");
    } else {
        object["metadata"]["finalizers"] = Value::Array(finalizers);
    }
}
