//! Feature gates, checked against the API server: before the first term, again at the start of each term before any
//! write, and every hour. If the API server has changed, the process ends, and the next one starts with the right gates
//! and watches.
//!
//! | rule | function | test |
//! |---|---|---|
//! | RC-7 | `supported` | `tests/sync/gates.rs::admin_access_cannot_be_switched_off_from_1_36_on`, `tests/sync/gates.rs::before_1_36_admin_access_can_be_switched_off` |
//! | RC-17 | `supported` | `tests/sync/groups.rs::where_groups_are_not_served_the_rest_works` |
//! | RC-17 | `Answers::gates` | `tests/sync/gates.rs::an_api_server_that_serves_groups_since_is_noticed_with_the_next_term` |

use controller_core::api::CallFailed;
use controller_core::app::{Failure, Prepared};
use controller_core::controller::Pass;

use crate::ResourceClaimController;
use crate::decide::{Gates, Groups};
use crate::pod_group::GroupVersion;
use crate::requests::{Answer, Query};

/// The first minor version of Kubernetes 1 whose API server no longer lets admin access be switched off.
const ADMIN_ACCESS_LOCKED_SINCE: u32 = 36;
/// The API server refuses to tell.
const FORBIDDEN: Option<u16> = Some(403);

/// The answers so far.
pub(crate) struct Answers<'a> {
    pub(crate) pass: &'a Pass<ResourceClaimController>,
    /// Queries that must still be sent.
    pub(crate) open: Vec<Query>,
}

impl<'a> Answers<'a> {
    pub(crate) const fn of(pass: &'a Pass<ResourceClaimController>) -> Self {
        Self {
            pass,
            open: Vec::new(),
        }
    }

    /// `None` if the query must still be sent.
    fn answer(&mut self, query: Query) -> Result<Option<&'a Answer>, CallFailed> {
        match self.pass.answer(&query).map(|reply| &reply.value) {
            None => self.open.push(query),
            Some(Ok(answer)) => return Ok(Some(answer)),
            Some(Err(failed)) => return Err(failed.clone()),
        }
        Ok(None)
    }

    /// `None` if there is no such object, or the query must still be sent.
    pub(crate) fn get(&mut self, query: Query) -> Result<Option<&'a Answer>, CallFailed> {
        match self.answer(query) {
            Err(failed) if failed.is_gone() => Ok(None),
            answer => answer,
        }
    }

    /// The gates of `asked` that the API server supports: from 1.36 on admin access cannot be switched off (RC-7), and
    /// without `PodGroups` they have no claims (RC-17).
    pub(crate) fn gates(&mut self, asked: Gates) -> Result<Gates, CallFailed> {
        let mut gates = asked;
        if !asked.admin_access {
            let version = self.answer(Query::Version)?;
            let is_locked =
                matches!(version, Some(Answer::Minor(Some(minor))) if *minor >= ADMIN_ACCESS_LOCKED_SINCE);
            gates.admin_access = is_locked;
        }
        gates.groups = match (asked.groups, self.served(asked)?) {
            (_, None) => Groups::Unserved,
            (Groups::On(_), Some(version)) => Groups::On(version),
            (off, Some(_)) => off,
        };
        Ok(gates)
    }

    /// The newest version in which the API server has `PodGroups`.
    fn served(&mut self, asked: Gates) -> Result<Option<GroupVersion>, CallFailed> {
        let served = match self.answer(Query::Served) {
            Err(failed) if hides_nothing_wanted(asked, &failed) => None,
            served => served?,
        };
        Ok(match served {
            Some(Answer::Served(version)) => *version,
            _ => None,
        })
    }
}

/// We may not know whether `PodGroups` are served, and no groups are wanted. A 404 says nothing: every API server serves
/// their API group, for priority classes.
pub(crate) fn hides_nothing_wanted(asked: Gates, failed: &CallFailed) -> bool {
    asked.groups == Groups::Off && failed.code() == FORBIDDEN
}

/// The gates of `asked` that the API server supports. Logs the others.
pub fn supported(
    asked: Gates,
    pass: &Pass<ResourceClaimController>,
) -> Result<Prepared<Query, Gates>, Failure> {
    let mut answers = Answers::of(pass);
    let gates = answers.gates(asked)?;
    if !answers.open.is_empty() {
        return Ok(Prepared::Queries(answers.open));
    }
    warn(asked, gates);
    Ok(Prepared::Ready(gates))
}

pub(crate) fn warn(asked: Gates, gates: Gates) {
    if asked.admin_access != gates.admin_access {
        tracing::warn!(
            "DRAAdminAccess=false is ignored: from Kubernetes 1.36 on admin access cannot be switched off"
        );
    }
    if asked.groups.is_on() && !gates.groups.is_on() {
        let [beta, alpha] = GroupVersion::NEWEST_FIRST.map(GroupVersion::api_version);
        tracing::warn!(
            "DRAWorkloadResourceClaims=true is ignored: the API server serves podgroups neither in {beta} nor in {alpha}"
        );
    }
}
