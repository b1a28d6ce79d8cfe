//! The scale of a pod's controller: from the informers if they have the controller, else from a read of its `/scale`.
//!
//! | rule | function | test |
//! |---|---|---|
//! | DIS-5 | `scale_of` | `tests/decide_table.rs::the_scale_of_a_controller_is_that_of_its_workload`, `tests/decide_table.rs::what_the_informers_do_not_have_is_read` |

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use controller_core::meta::{OwnerRef, Uid};

use crate::decide::failure::SyncFailure;
use crate::decide::owners::GroupKind;
use crate::view::WorkloadView;

/// How many ways a condition names.
const MOST_WAYS: usize = 3;

/// The kinds that the informers watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Builtin {
    ReplicationController,
    ReplicaSet,
    Deployment,
    StatefulSet,
}

/// The scale of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scale {
    Of {
        /// The uid of the scaled object: controllers with the same one count once.
        uid: Uid,
        /// `spec.replicas`.
        replicas: i64,
        /// Kind and name, for `explain`.
        who: String,
        /// The scale was read, so no informer reports when it changes.
        live: bool,
        /// The kinds without a scale below that object, from the pod's controller up. Empty for the controller's own scale.
        below: Vec<Arc<str>>,
    },
    /// No scale: the pods that exist count, because the flags name this kind.
    Pods(GroupKind),
    /// A read says that no such controller exists.
    Gone,
    /// The scale could not be read.
    Unknown(SyncFailure),
}

/// The scales of the controllers of a budget's pods.
pub type Scales = HashMap<Arc<OwnerRef>, Scale>;

/// How the expected pods of a budget were found, for its condition; empty if by the scales of its pods' controllers.
pub fn ways(scales: &Scales) -> String {
    let ways: BTreeSet<_> = scales.values().filter_map(Scale::way).collect();
    let named: Vec<_> = ways.iter().take(MOST_WAYS).map(String::as_str).collect();
    match (named.as_slice(), ways.len() - named.len()) {
        ([], _) => String::new(),
        (named, 0) => format!("expected: {}", named.join("; ")),
        (named, more) => format!("expected: {}; and {more} more", named.join("; ")),
    }
}

/// The result of a read of a controller's `/scale`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The scale of the object with this uid.
    Scale {
        /// `metadata.uid`.
        uid: Uid,
        /// `spec.replicas`.
        replicas: i64,
    },
    /// No object of this name.
    NotFound,
    Failed(SyncFailure),
}

impl Builtin {
    /// The kind that a reference names, if the informers watch it.
    pub fn of(owner: &OwnerRef) -> Option<Self> {
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        Self::named(group, &owner.kind)
    }

    /// The kind of this group and name, if the informers watch it.
    pub fn named(group: &str, kind: &str) -> Option<Self> {
        match (group, kind) {
            ("", "ReplicationController") => Some(Self::ReplicationController),
            ("apps" | "extensions", "ReplicaSet") => Some(Self::ReplicaSet),
            ("apps" | "extensions", "Deployment") => Some(Self::Deployment),
            ("apps", "StatefulSet") => Some(Self::StatefulSet),
            _ => None,
        }
    }
}

/// The scale of `owner`, the controller of a pod. `held` finds what the informers have by kind and name, `read` what
/// was read already; an error is the query to send first.
pub fn scale_of<Q>(
    owner: &OwnerRef,
    held: impl Fn(Builtin, &str) -> Option<Arc<WorkloadView>>,
    read: impl Fn(&OwnerRef) -> Result<Reading, Q>,
) -> Result<Scale, Q> {
    let held = |owner: &OwnerRef| {
        let kind = Builtin::of(owner)?;
        let workload = held(kind, &owner.name).filter(|workload| workload.uid == owner.uid)?;
        Some((kind, workload))
    };
    let asked = |owner: &OwnerRef| read(owner).map(|reading| Scale::read(owner, reading));
    let Some((kind, workload)) = held(owner) else {
        return asked(owner);
    };
    let own = Scale::of(owner, workload.replicas, false);
    let is_deployment =
        |above: &OwnerRef| kind == Builtin::ReplicaSet && Builtin::of(above) == Some(Builtin::Deployment);
    match workload.controller.as_deref() {
        Some(deployment) if is_deployment(deployment) => match held(deployment) {
            Some((_, found)) => Ok(Scale::of(deployment, found.replicas, false)),
            // The watch of Deployments may lag: only a read proves that the Deployment is gone.
            None => match asked(deployment)? {
                Scale::Gone => Ok(own),
                scale => Ok(scale),
            },
        },
        _ => Ok(own),
    }
}

impl Scale {
    fn read(owner: &OwnerRef, reading: Reading) -> Self {
        match reading {
            Reading::Scale { uid, replicas } if uid == owner.uid => Self::of(owner, replicas, true),
            Reading::Scale { .. } | Reading::NotFound => Self::Gone,
            Reading::Failed(failure) => Self::Unknown(failure),
        }
    }

    fn of(owner: &OwnerRef, replicas: i64, live: bool) -> Self {
        Self::Of {
            uid: owner.uid.clone(),
            replicas,
            who: format!("{} {}", owner.kind, owner.name),
            live,
            below: Vec::new(),
        }
    }

    /// This scale, found above the owners that were `passed`. No informer shows whether it stays above them.
    pub(super) fn above(mut self, passed: &[Arc<OwnerRef>]) -> Self {
        if let Self::Of { live, below, .. } = &mut self
            && !passed.is_empty()
        {
            *live = true;
            *below = passed.iter().map(|owner| Arc::clone(&owner.kind)).collect();
        }
        self
    }

    /// True if the pods that exist are expected, too: an owner further up may count something else than pods.
    pub fn counts_pods(&self) -> bool {
        match self {
            Self::Of { below, .. } => !below.is_empty(),
            Self::Pods(_) => true,
            Self::Gone | Self::Unknown(_) => false,
        }
    }

    /// How the expected pods were found, if not by the scale of the pods' own controller.
    pub fn way(&self) -> Option<String> {
        match self {
            Self::Of { who, below, .. } if !below.is_empty() => {
                Some(format!("the scale of {who}, above {}", below.join(" and ")))
            }
            Self::Pods(kind) => Some(format!("the pods of {kind} that exist")),
            _ => None,
        }
    }
}
