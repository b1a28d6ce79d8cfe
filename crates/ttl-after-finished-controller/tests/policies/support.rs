//! Policies as a file has them, and objects.

use std::sync::Arc;
use std::time::Duration;

use controller_core::labels::Labels;
use controller_core::meta::{ObjectKey, Uid};
use jiff::Timestamp;
use serde_json::Value;
use ttl_after_finished_controller::policy::view::{Candidate, NamespaceView};
use ttl_after_finished_controller::policy::{FinishedKind, Policies, PolicyList};
use ttl_after_finished_controller::view::{Finish, JobView};

pub(crate) const HOUR: Duration = Duration::from_hours(1);

pub(crate) fn at(time: &str) -> Timestamp {
    format!("2026-01-01T{time}Z").parse().unwrap()
}

/// The policies of this list, with a grace period of an hour.
pub(crate) fn policies(list: Value) -> Policies {
    let list: PolicyList = serde_json::from_value(list).unwrap();
    list.compile(HOUR).unwrap()
}

/// What is wrong with this list.
pub(crate) fn problems(list: Value) -> Vec<String> {
    let list: PolicyList = serde_json::from_value(list).unwrap();
    list.compile(HOUR).err().unwrap_or_default()
}

/// An object without labels that succeeded at 10:00.
pub(crate) fn object(kind: FinishedKind) -> Candidate {
    named(kind, "object")
}

pub(crate) fn named(kind: FinishedKind, name: &str) -> Candidate {
    Candidate {
        kind,
        object: JobView {
            key: ObjectKey::namespaced("team", name),
            uid: Uid::from(name),
            version: "7".into(),
            ttl_seconds: None,
            finish: Some(Finish::At(at("10:00:00"))),
            deleting: false,
        },
        failed: false,
        labels: Arc::default(),
        owner: None,
        mirror: false,
        keep: false,
        finalizers: None,
    }
}

pub(crate) fn job() -> Candidate {
    object(FinishedKind::Job)
}

pub(crate) fn pod() -> Candidate {
    object(FinishedKind::Pod)
}

pub(crate) fn labelled(object: Candidate, key: &str, value: &str) -> Candidate {
    Candidate {
        labels: Arc::new(Labels::new([(key, value)])),
        ..object
    }
}

pub(crate) fn owned(object: Candidate) -> Candidate {
    Candidate {
        owner: Some("owner".into()),
        ..object
    }
}

pub(crate) fn failed(object: Candidate) -> Candidate {
    Candidate {
        failed: true,
        ..object
    }
}

pub(crate) fn namespace(labels: &[(&str, &str)]) -> NamespaceView {
    NamespaceView {
        key: ObjectKey::cluster("team"),
        labels: Labels::new(labels.iter().copied()),
        keep: false,
        created: Some(at("00:00:00")),
    }
}
