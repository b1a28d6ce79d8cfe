//! Finds the scales of a budget's controllers: in the informers, or by reads of what the informers do not have.
//!
//! | rule | function | test |
//! |---|---|---|
//! | DIS-19 | `Sources::above` | `tests/sync/scales/owners.rs::the_scale_above_counts_and_is_named`, `tests/sync/scales/owners.rs::what_cannot_be_read_allows_nothing_and_is_named` |
//! | DIS-5 | `Sources::reading` | `tests/sync/scales/kinds.rs::a_scale_that_is_taken_away_is_missed`, `tests/sync/failures.rs::a_reference_to_nothing_that_can_be_asked_for_is_not_asked_for` |

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use controller_core::api::{AnswerClass, CallFailed};
use controller_core::controller::Reply;
use controller_core::meta::{ObjectKey, OwnerRef, Uid};

use crate::decide::outlook::may_leave;
use crate::decide::{
    Above, Builtin, Cause, Demand, Live, MOST_READS, Outlook, OwnerRules, Reading, Scale, Scales, Situation,
    SyncFailure, demand, outlook, scale_of, scale_under,
};
use crate::discovery::{self, Kind};
use crate::requests::{Answer, Query, Target};
use crate::view::WorkloadView;

/// Most queries of one budget in flight at a time.
const QUESTIONS_AT_ONCE: usize = 8;
/// No such object, kind or group, or a proxy that does not know the path.
const NOT_FOUND: Option<u16> = Some(404);

/// Finds a workload in the informers' caches.
pub type Held<'a> = &'a dyn Fn(Builtin, &ObjectKey) -> Option<Arc<WorkloadView>>;

/// What is known of workloads and scales.
pub struct Sources<'a> {
    /// What counts for pods whose controller has no scale.
    pub rules: &'a OwnerRules,
    /// Finds a workload in the informers' caches.
    pub held: Held<'a>,
    /// By `apiVersion`: kinds that had a scale at the last discovery.
    pub kinds: &'a BTreeMap<Arc<str>, Arc<Vec<Kind>>>,
    /// Finds a recent answer.
    pub answer: &'a dyn Fn(&Query) -> Option<&'a Reply<Answer>>,
}

impl Sources<'_> {
    /// The scales that a budget's numbers need. An error holds the next queries to send: a few at a time, so that a
    /// budget of a thousand controllers keeps nobody waiting. Stops at the first scale that fails, because that decides.
    pub fn scales(&self, situation: &Situation) -> Result<Scales, Vec<Query>> {
        // A budget that cannot be computed anyway needs no reads.
        if !demand(&situation.pdb).is_ok_and(Demand::needs_scales) {
            return Ok(Scales::new());
        }
        self.of_controllers(situation, true)
    }

    /// The scales of all controllers of a budget's pods, or those up to the first that fails.
    pub fn of_controllers(
        &self,
        Situation { pdb, counts, .. }: &Situation,
        stops: bool,
    ) -> Result<Scales, Vec<Query>> {
        let (mut scales, mut unread) = (Scales::new(), BTreeSet::new());
        let namespace = pdb.key.namespace.clone().unwrap_or_default();
        let held = |kind: Builtin, name: &str| {
            let (namespace, name) = (pdb.key.namespace.clone(), name.into());
            (self.held)(kind, &ObjectKey { namespace, name })
        };
        // Counted first: too many controllers must not be noticed only after `MOST_READS` reads.
        let reads = Cell::new(0);
        let count = |_: &OwnerRef| {
            reads.update(|count| count + 1);
            Ok::<_, Infallible>(Reading::NotFound)
        };
        if counts.controllers.len() > MOST_READS {
            let controllers = counts.controllers.keys();
            controllers.for_each(|controller| drop(known(controller, self.rules, held, count)));
        }
        let read = |owner: &OwnerRef| {
            if reads.get() > MOST_READS {
                return Ok(Reading::Failed(SyncFailure::permanent(Cause::TooManyControllers)));
            }
            self.reading(&namespace, owner)
        };
        for controller in counts.controllers.keys() {
            let scale = |owner: &OwnerRef| scale_of(owner, held, read);
            let above = |owner: &OwnerRef| self.above(&namespace, owner);
            let scale = match scale_under(controller, self.rules, scale, above) {
                Ok(scale) => scale,
                Err(query) => {
                    unread.insert(query);
                    if unread.len() == QUESTIONS_AT_ONCE {
                        break;
                    }
                    continue;
                }
            };
            let fails = matches!(scale, Scale::Unknown(_));
            scales.insert(Arc::clone(controller), scale);
            if fails && stops {
                break;
            }
        }
        if unread.is_empty() {
            Ok(scales)
        } else {
            Err(unread.into_iter().collect())
        }
    }

    /// What the API server says of the scale of `owner`; discovery tells its path. After a 404 discovery is queried
    /// once more, because only discovery tells a missing object from a missing subresource.
    fn reading(&self, namespace: &Arc<str>, owner: &OwnerRef) -> Result<Reading, Query> {
        // The creator of a pod wrote the reference: it must not lead to any other path.
        if !discovery::is_api_version(&owner.api_version) {
            return Ok(Reading::Failed(unknown_kind(owner)));
        }
        if !discovery::is_path_segment(&owner.name) {
            return Ok(Reading::NotFound);
        }
        let known = self.kinds.get(&owner.api_version);
        let known = known.and_then(|kinds| find(kinds, owner));
        let kind = match known.filter(|kind| kind.scales) {
            Some(kind) => Ok(kind),
            None => self.scaled_kind(owner, Duration::ZERO)?,
        };
        let kind = match kind {
            Ok(kind) => kind,
            Err(failure) => return Ok(Reading::Failed(failure)),
        };
        let reply = self.ask(Query::Scale(Target::new(namespace, owner, &kind)))?;
        let reading = read_of(reply);
        if !matches!(&reply.value, Err(failed) if failed.code() == NOT_FOUND) {
            return Ok(reading);
        }
        match self.scaled_kind(owner, reply.asked.uptime)? {
            Ok(now) if now != kind => {
                let reply = self.ask(Query::Scale(Target::new(namespace, owner, &now)))?;
                Ok(read_of(reply))
            }
            // A proxy's 404 does not say that the object is gone.
            Ok(_) => Ok(reading),
            Err(failure) => Ok(Reading::Failed(failure)),
        }
    }

    /// What controls `owner`, whose kind has no scale.
    fn above(&self, namespace: &Arc<str>, owner: &OwnerRef) -> Result<Above, Query> {
        let kind = match self.kind(owner, Duration::ZERO)? {
            Ok(kind) => kind,
            Err(failure) => return Ok(Above::Failed(failure)),
        };
        let reply = self.ask(Query::Owner(Target::new(namespace, owner, &kind)))?;
        Ok(match &reply.value {
            Ok(Answer::Owner(uid, controller)) if *uid == owner.uid => {
                { controller.clone() }.map_or(Above::Nothing, Above::Controller)
            }
            Err(failed) if !failed.is_gone() => Above::Failed(unreadable(failed)),
            Ok(_) | Err(_) => Above::NotFound,
        })
    }

    /// The kind of `owner`, which has a scale, by a discovery from `since` or later; or why it has none.
    fn scaled_kind(&self, owner: &OwnerRef, since: Duration) -> Result<Result<Kind, SyncFailure>, Query> {
        let kind = self.kind(owner, since)?;
        Ok(kind.and_then(|kind| {
            if kind.scales {
                return Ok(kind);
            }
            let resource = discovery::resource(&owner.api_version, &kind.plural);
            Err(SyncFailure::permanent(Cause::NoScale(resource)))
        }))
    }

    /// The kind of `owner`, by a discovery from `since` or later; or why it is not known.
    fn kind(&self, owner: &OwnerRef, since: Duration) -> Result<Result<Kind, SyncFailure>, Query> {
        let query = Query::Kinds(Arc::clone(&owner.api_version));
        let reply = (self.answer)(&query).filter(|reply| reply.asked.uptime >= since);
        let Some(Reply { value, .. }) = reply else {
            return Err(query);
        };
        let kind = match value {
            Ok(Answer::Kinds(kinds)) => find(kinds, owner),
            Err(failed) if failed.code() != NOT_FOUND => return Ok(Err(unreadable(failed))),
            // No such group or version.
            Ok(_) | Err(_) => None,
        };
        Ok(kind.ok_or_else(|| unknown_kind(owner)))
    }

    fn ask(&self, query: Query) -> Result<&Reply<Answer>, Query> {
        (self.answer)(&query).ok_or(query)
    }
}

/// `scales`, or for a budget whose numbers need none those that the informers have. False if a controller is left whose
/// scale only the API server knows.
pub fn known_scales(situation: &Situation, scales: Scales, sources: &Sources<'_>) -> (Scales, bool) {
    let scales = if scales.is_empty() {
        held_scales(situation, sources)
    } else {
        scales
    };
    let needs_scales = demand(&situation.pdb).is_ok_and(Demand::needs_scales);
    let is_gone = |scale: &Scale| *scale == Scale::Gone;
    let some_unread =
        scales.len() < situation.counts.controllers.len() || !needs_scales && scales.values().any(is_gone);
    (scales, !some_unread)
}

/// Why no state of the budget's pods allows a disruption; `None` if one does, or if that cannot be told. `live_of` is the
/// number of live pods of a controller.
pub fn never(
    situation: &Situation,
    scales: Scales,
    sources: &Sources<'_>,
    live_of: impl Fn(&Uid) -> i64,
) -> Option<&'static str> {
    let (scales, true) = known_scales(situation, scales, sources) else {
        return None;
    };
    let counts = &situation.counts;
    let live = Live::of(counts, |controller, selected| live_of(&controller.uid) - selected);
    // Which of them leave, only a search tells, and a pass has no time for it.
    if !may_leave(counts, &live).is_empty() {
        return None;
    }
    match outlook(&situation.pdb, counts, &live, &scales, |_| None) {
        Outlook::Never(never, _) => Some(never.as_str()),
        Outlook::Allows(_) | Outlook::Unknown(_) => None,
    }
}

/// The scales of the controllers that the informers have; the others count as gone.
fn held_scales(Situation { pdb, counts, .. }: &Situation, sources: &Sources<'_>) -> Scales {
    let held = |kind: Builtin, name: &str| {
        let (namespace, name) = (pdb.key.namespace.clone(), name.into());
        (sources.held)(kind, &ObjectKey { namespace, name })
    };
    let scale = |controller: &Arc<OwnerRef>| {
        let scale = known(controller, sources.rules, held, |_| Ok(Reading::NotFound));
        (Arc::clone(controller), scale)
    };
    counts.controllers.keys().map(scale).collect()
}

/// The scale of `controller`, if no owner above it is read.
fn known(
    controller: &Arc<OwnerRef>,
    rules: &OwnerRules,
    held: impl Fn(Builtin, &str) -> Option<Arc<WorkloadView>> + Copy,
    read: impl Fn(&OwnerRef) -> Result<Reading, Infallible> + Copy,
) -> Scale {
    let scale = |owner: &OwnerRef| scale_of(owner, held, read);
    let Ok(scale) = scale_under(controller, rules, scale, |_| Ok(Above::NotFound));
    scale
}

fn find(kinds: &[Kind], owner: &OwnerRef) -> Option<Kind> {
    let mut kinds = kinds.iter();
    kinds.find(|kind| *kind.name == *owner.kind).cloned()
}

fn read_of(reply: &Reply<Answer>) -> Reading {
    match &reply.value {
        Ok(Answer::Scale(uid, replicas)) => {
            let (uid, replicas) = (uid.clone(), *replicas);
            Reading::Scale { uid, replicas }
        }
        Err(failed) if !failed.is_gone() => Reading::Failed(unreadable(failed)),
        Ok(_) | Err(_) => Reading::NotFound,
    }
}

fn unknown_kind(owner: &OwnerRef) -> SyncFailure {
    let (kind, api_version) = (Arc::clone(&owner.kind), Arc::clone(&owner.api_version));
    SyncFailure::transient(Cause::UnknownKind(kind, api_version))
}

/// The failure of a budget or a pod whose read has failed.
pub(crate) fn unreadable(failed: &CallFailed) -> SyncFailure {
    let cause = Cause::Unreadable(failed.to_string());
    match failed.outcome() {
        // Permissions and policies change by hand.
        AnswerClass::Forbidden(_) => SyncFailure::permanent(cause),
        AnswerClass::Throttled(wait) | AnswerClass::Retry { wait, .. } => SyncFailure {
            wait,
            ..SyncFailure::transient(cause)
        },
        _ => SyncFailure::transient(cause),
    }
}
