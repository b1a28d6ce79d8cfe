//! The scale of a pod's controller: from the informers where they have it, else from a read of its `/scale`.
//!
//! | rule | function | test |
//! |---|---|---|
//! | DIS-5 | `scale_of` | `tests/decide_table.rs::the_scale_of_a_controller_is_that_of_its_workload`, `tests/decide_table.rs::what_the_informers_do_not_have_is_read` |

use std::collections::HashMap;
use std::sync::Arc;

use controller_core::meta::{OwnerRef, Uid};

use crate::decide::failure::{Cause, Failure};
use crate::view::WorkloadView;

/// The kinds that the informers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Builtin {
    /// `ReplicationController`.
    ReplicationController,
    /// `ReplicaSet`.
    ReplicaSet,
    /// `Deployment`.
    Deployment,
    /// `StatefulSet`.
    StatefulSet,
}

/// The scale of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scale {
    /// So many pods.
    Of {
        /// Whose: controllers with the same count once.
        uid: Uid,
        /// `spec.replicas`.
        replicas: i64,
        /// Who that is, for people.
        who: String,
        /// Whether it was read, so that no informer tells when it changes.
        live: bool,
    },
    /// There is no such controller, by a read.
    Gone,
    /// It could not be found out.
    Unknown(Failure),
}

/// The scales of the controllers of a budget's pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scales(HashMap<Arc<OwnerRef>, Scale>);

/// What a read of a controller's `/scale` said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The scale, of the object of this uid.
    Scale {
        /// `metadata.uid`.
        uid: Uid,
        /// `spec.replicas`.
        replicas: i64,
    },
    /// No object of this name.
    NotFound,
    /// Its kind has no `/scale`; `resource.group`.
    NotImplemented(String),
    /// Its kind is not served.
    UnknownKind,
    /// It could not be read: the message, and whether it is worth to try again soon.
    Failed(String, bool),
}

impl Builtin {
    /// The kind that a reference names, if the informers have it.
    pub fn of(owner: &OwnerRef) -> Option<Self> {
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        match (group, &*owner.kind) {
            ("", "ReplicationController") => Some(Self::ReplicationController),
            ("apps" | "extensions", "ReplicaSet") => Some(Self::ReplicaSet),
            ("apps" | "extensions", "Deployment") => Some(Self::Deployment),
            ("apps", "StatefulSet") => Some(Self::StatefulSet),
            _ => None,
        }
    }
}

/// The scale of `owner`, the controller of a pod. `held` is what the informers have by kind and name, `read` what
/// was read already; an error is a controller whose `/scale` must be read first.
pub fn scale_of(
    owner: &Arc<OwnerRef>,
    held: impl Fn(Builtin, &str) -> Option<Arc<WorkloadView>>,
    read: impl Fn(&OwnerRef) -> Option<Reading>,
) -> Result<Scale, Arc<OwnerRef>> {
    let held = |owner: &OwnerRef| {
        let kind = Builtin::of(owner)?;
        let workload = held(kind, &owner.name).filter(|workload| workload.uid == owner.uid)?;
        Some((kind, workload))
    };
    let told = |owner: &OwnerRef, workload: &WorkloadView| Scale::Of {
        uid: workload.uid.clone(),
        replicas: workload.replicas,
        who: format!("{} {}", owner.kind, owner.name),
        live: false,
    };
    let asked = |owner: &Arc<OwnerRef>| match read(owner) {
        Some(reading) => Ok(Scale::read(owner, reading)),
        None => Err(Arc::clone(owner)),
    };
    let Some((kind, workload)) = held(owner) else {
        return asked(owner);
    };
    let deployment = workload.controller.as_ref();
    let deployment = deployment
        .filter(|above| kind == Builtin::ReplicaSet && Builtin::of(above) == Some(Builtin::Deployment));
    let Some(deployment) = deployment else {
        return Ok(told(owner, &workload));
    };
    match held(deployment) {
        Some((_, found)) => Ok(told(deployment, &found)),
        // The watch of Deployments may lag: only a read says that it is gone.
        None => match asked(deployment)? {
            Scale::Gone => Ok(told(owner, &workload)),
            scale => Ok(scale),
        },
    }
}

impl Scale {
    fn read(owner: &OwnerRef, reading: Reading) -> Self {
        match reading {
            Reading::Scale { uid, replicas } if uid == owner.uid => Self::Of {
                uid,
                replicas,
                who: format!("{} {}", owner.kind, owner.name),
                live: true,
            },
            Reading::Scale { .. } | Reading::NotFound => Self::Gone,
            Reading::NotImplemented(resource) => {
                Self::Unknown(Failure::permanent(Cause::NoScale { resource }))
            }
            Reading::UnknownKind => Self::Unknown(Failure::transient(Cause::UnknownKind {
                kind: Arc::clone(&owner.kind),
                api_version: Arc::clone(&owner.api_version),
            })),
            Reading::Failed(message, transient) => Self::Unknown(Failure {
                cause: Cause::Unreadable { message },
                transient,
            }),
        }
    }
}

impl Scales {
    /// The scale of `owner` is this.
    pub fn insert(&mut self, owner: Arc<OwnerRef>, scale: Scale) {
        self.0.insert(owner, scale);
    }

    /// The scale of `owner`, if it has been asked for.
    pub fn of(&self, owner: &OwnerRef) -> Option<&Scale> {
        self.0.get(owner)
    }

    /// Whether one was read, so that no informer tells when it changes.
    pub fn any_is_live(&self) -> bool {
        self.0
            .values()
            .any(|scale| matches!(scale, Scale::Of { live: true, .. }))
    }
}
