//! Where the scales of a budget's controllers come from: the informers, and reads of what those do not have.
//!
//! | rule | function | test |
//! |---|---|---|
//! | DIS-5 | `Sources::reading` | `tests/sync/scales.rs::a_scale_that_is_taken_away_is_missed`, `tests/sync/failures.rs::a_reference_to_nothing_that_can_be_asked_for_is_not_asked_for` |

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use controller_core::api::{CallFailed, Denial, Outcome};
use controller_core::controller::Reply;
use controller_core::meta::{ObjectKey, OwnerRef};

use crate::decide::{Builtin, Demand, Reading, Scales, demand, scale_of};
use crate::discovery::{self, Kind};
use crate::memory::Snapshot;
use crate::requests::{Answer, Question, Target};
use crate::view::WorkloadView;

/// What is known of workloads and scales.
pub struct Sources<'a> {
    /// What the informers have.
    pub held: &'a dyn Fn(Builtin, &ObjectKey) -> Option<Arc<WorkloadView>>,
    /// By `apiVersion`: kinds that had a scale when discovery was asked last.
    pub kinds: &'a BTreeMap<Arc<str>, Arc<Vec<Kind>>>,
    /// What was read lately.
    pub answer: &'a dyn Fn(&Question) -> Option<&'a Reply<Answer>>,
}

/// The scales of a budget's controllers.
#[derive(Debug, Default)]
pub struct Found {
    /// The scales.
    pub scales: Scales,
    /// How long the API server asks to wait before it is asked again.
    pub wait: Option<Duration>,
}

/// What a read said, and how long to wait for the next.
type Read = (Reading, Option<Duration>);

impl Sources<'_> {
    /// The scales of the controllers of a budget's pods, or what must be asked first.
    pub fn scales(&self, snapshot: &Snapshot) -> Result<Found, Vec<Question>> {
        let (mut scales, mut unread, wait) = (Scales::default(), BTreeSet::new(), Cell::new(None));
        let pdb = &*snapshot.pdb;
        // What cannot be computed anyway needs no reads.
        if !demand(pdb).is_ok_and(Demand::needs_scales) {
            return Ok(Found::default());
        }
        let namespace = pdb.key.namespace.clone().unwrap_or_default();
        let held = |kind: Builtin, name: &str| {
            let (namespace, name) = (pdb.key.namespace.clone(), name.into());
            (self.held)(kind, &ObjectKey { namespace, name })
        };
        let read = |owner: &OwnerRef| {
            let (reading, asked) = self.reading(&namespace, owner).ok()?;
            wait.set(wait.get().max(asked));
            Some(reading)
        };
        for owned in &snapshot.counts.controllers {
            match scale_of(&owned.controller, held, read) {
                Ok(scale) => scales.insert(Arc::clone(&owned.controller), scale),
                Err(owner) => unread.extend(self.reading(&namespace, &owner).err()),
            }
        }
        if unread.is_empty() {
            let wait = wait.get();
            Ok(Found { scales, wait })
        } else {
            Err(unread.into_iter().collect())
        }
    }

    /// What the API server says of the scale of `owner`: discovery tells where it is. After a 404 discovery is asked once
    /// more, for only that tells an object that is gone from a subresource that is.
    fn reading(&self, namespace: &Arc<str>, owner: &OwnerRef) -> Result<Read, Question> {
        // A reference is what the maker of a pod wrote: it must not lead anywhere else.
        if !discovery::is_api_version(&owner.api_version) {
            return Ok((Reading::UnknownKind, None));
        }
        if !discovery::is_path_segment(&owner.name) {
            return Ok((Reading::NotFound, None));
        }
        let known = self.kinds.get(&owner.api_version);
        let known = known.and_then(|kinds| find(kinds, owner));
        let kind = match known.filter(|kind| kind.scales) {
            Some(kind) => kind,
            None => match self.kind(owner, Duration::ZERO)? {
                Ok(kind) => kind,
                Err(read) => return Ok(read),
            },
        };
        let reply = self.ask(Question::Scale(Target::new(namespace, owner, &kind)))?;
        if !is_not_found(reply) {
            return Ok(read_of(reply));
        }
        match self.kind(owner, reply.asked.uptime)? {
            Ok(now) if now != kind => {
                let reply = self.ask(Question::Scale(Target::new(namespace, owner, &now)))?;
                Ok(read_of(reply))
            }
            Ok(_) => Ok((Reading::NotFound, None)),
            Err(read) => Ok(read),
        }
    }

    /// The kind of `owner`, which has a scale, by what discovery was asked at `since` or later; or why there is none.
    fn kind(&self, owner: &OwnerRef, since: Duration) -> Result<Result<Kind, Read>, Question> {
        let question = Question::Kinds(Arc::clone(&owner.api_version));
        let reply = (self.answer)(&question).filter(|reply| reply.asked.uptime >= since);
        let kind = match reply.map(|reply| &reply.value) {
            None => return Err(question),
            Some(Ok(Answer::Kinds(kinds))) => find(kinds, owner),
            // No such group or version.
            Some(Err(failed)) if failed.code() == Some(404) => None,
            Some(Err(failed)) => return Ok(Err(unreadable(failed))),
            Some(Ok(_)) => None,
        };
        Ok(match kind {
            None => Err((Reading::UnknownKind, None)),
            Some(kind) if kind.scales => Ok(kind),
            Some(kind) => {
                let resource = discovery::resource(&owner.api_version, &kind.plural);
                Err((Reading::NotImplemented(resource), None))
            }
        })
    }

    fn ask(&self, question: Question) -> Result<&Reply<Answer>, Question> {
        (self.answer)(&question).ok_or(question)
    }
}

fn find(kinds: &[Kind], owner: &OwnerRef) -> Option<Kind> {
    let mut kinds = kinds.iter();
    kinds.find(|kind| *kind.name == *owner.kind).cloned()
}

fn is_not_found(reply: &Reply<Answer>) -> bool {
    let failed = reply.value.as_ref().err();
    failed.is_some_and(|failed| failed.code() == Some(404))
}

fn read_of(reply: &Reply<Answer>) -> Read {
    match &reply.value {
        Ok(Answer::Scale(uid, replicas)) => {
            let (uid, replicas) = (uid.clone(), *replicas);
            (Reading::Scale { uid, replicas }, None)
        }
        Err(failed) if failed.code() != Some(404) => unreadable(failed),
        Ok(_) | Err(_) => (Reading::NotFound, None),
    }
}

fn unreadable(failed: &CallFailed) -> Read {
    let (transient, wait) = match failed.outcome() {
        // Permissions and policies change by somebody's hand.
        Outcome::Forbidden(Denial::MissingRight | Denial::ThisObject | Denial::NamespaceTerminating) => {
            (false, None)
        }
        Outcome::Throttled(wait) => (true, Some(wait)),
        _ => (true, None),
    };
    (Reading::Failed(failed.to_string(), transient), wait)
}
