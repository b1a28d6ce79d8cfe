//! Clean-up policies: which finished Jobs and pods are deleted, and when.
//!
//! | file | answers |
//! |---|---|
//! | `parse` | which policies does the config file have, and what is wrong with them? |
//! | `view` | what do policies read of a Job, a pod, a namespace? |
//! | `decide` | which policy applies to an object, and what does it want now? |
//! | `preview` | what would go within the next hour? |
//! | `reconcile` | what is the next action for an object that goes by a policy? |
//! | `state` | since when does a policy apply, which failed objects are kept, which brake is engaged? |

pub(crate) mod brake;
pub mod decide;
mod parse;
pub mod preview;
mod reconcile;
pub mod state;
pub mod view;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use controller_core::selector::Selector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::parse::PolicyList;

/// Most policies: each is a label of metrics.
pub const MOST_POLICIES: usize = 50;
/// The annotation that exempts an object, or all objects of a namespace, if it is `"true"`.
pub const KEEP: &str = "ttl-after-finished-controller/keep";

/// A kind of objects that finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema)]
pub enum FinishedKind {
    /// A `batch/v1` Job.
    Job,
    /// A pod.
    Pod,
}

/// One policy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Unique among the policies of a file.
    pub name: Arc<str>,
    pub kinds: Vec<FinishedKind>,
    /// `None`: all namespaces.
    pub namespaces: Option<Selector>,
    /// `None`: all objects.
    pub objects: Option<Selector>,
    /// `None`: never.
    pub after_succeeded: Option<Duration>,
    /// `None`: never.
    pub after_failed: Option<Duration>,
    /// How many of the failed objects of an owner, or of a namespace, stay.
    pub keep_last_failed: usize,
    /// Objects with a controller are deleted, too.
    pub include_owned: bool,
    /// Deletes an hour, at most.
    pub max_per_hour: Option<u32>,
}

/// All policies of a file; the first that selects an object counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Policies {
    pub list: Vec<Policy>,
    /// How long a policy must have applied to an object before it deletes the object.
    pub grace: Duration,
}

impl FinishedKind {
    /// The resource, as in the URL.
    pub const fn resource(self) -> &'static str {
        match self {
            Self::Job => "jobs",
            Self::Pod => "pods",
        }
    }
}

impl fmt::Display for FinishedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Job => "Job",
            Self::Pod => "Pod",
        })
    }
}

impl Policies {
    /// True if a policy names this kind.
    pub fn name(&self, kind: FinishedKind) -> bool {
        self.list.iter().any(|policy| policy.kinds.contains(&kind))
    }
}
