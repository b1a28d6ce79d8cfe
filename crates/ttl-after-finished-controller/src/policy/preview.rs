//! `ttl-after-finished-controller preview`: what would go within the next hour, and why.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TAF-19 | `preview` | `tests/sync/policies/preview.rs::a_preview_names_what_would_go_within_the_hour_and_deletes_nothing` |

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use controller_core::app::{Failure, Flag, Flags, Prepared, Printed, Report, Takes};
use controller_core::cache::{Page, Versioned};
use controller_core::controller::{Now, Pass};
use controller_core::time::saturating_add;
use jiff::Timestamp;
use serde::Serialize;

use super::decide::{LeftBecause, Verdict, applying, judge};
use super::state::PolicyState;
use super::view::{Candidate, NamespaceView};
use super::{FinishedKind, Policies};
use crate::TtlAfterFinishedController;
use crate::config::Config;
use crate::decide::{JobJudgement, judge as judge_by_ttl, slower_clock};
use crate::requests::{Answer, PreviewList, Query};
use crate::state::Key;

/// How far a preview looks ahead.
const AHEAD: Duration = Duration::from_hours(1);
const OUTPUT: &str = "output";

/// The subcommand.
pub const REPORT: Report<TtlAfterFinishedController> = Report {
    name: "preview",
    about: "Print what would be deleted within the next hour if this configuration had applied for long, and why",
    help: "Only reads; takes the policies from the config file (--config). The grace period is left out, as it only \
           delays.",
    plugin: "kubectl-preview_clean_up",
    flags: &[Flag {
        name: OUTPUT,
        short: Some('o'),
        takes: Takes::OneOf(&["text", "json"]),
        help: "text: a line for each object, and the numbers by namespace. json: the same.",
    }],
    settings: &["onlyPolicies", "policyGracePeriod"],
    by: preview,
};

/// An object that would go.
#[derive(Debug, Serialize)]
struct Item<'a> {
    namespace: &'a str,
    kind: FinishedKind,
    name: &'a str,
    /// None: by its own ttl.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a str>,
    finished: Timestamp,
    due: Timestamp,
    message: String,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Count {
    jobs: usize,
    pods: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Seen<'a> {
    namespaces: BTreeMap<&'a str, Count>,
    policies: BTreeMap<&'a str, usize>,
    /// Policies that would stop at their maxPerHour.
    brakes: Vec<&'a str>,
    items: Vec<Item<'a>>,
}

fn preview(
    config: &Config,
    pass: &Pass<TtlAfterFinishedController>,
    now: Now,
    given: &Flags,
) -> Result<Prepared<Query, Printed>, Failure> {
    let policies = Arc::new(config.compiled());
    let mut pages = Pages::default();
    pages.read(pass, PreviewList::Objects(FinishedKind::Job))?;
    if config.has_policies() {
        pages.read(pass, PreviewList::Namespaces)?;
    }
    if policies.name(FinishedKind::Pod) {
        pages.read(pass, PreviewList::Objects(FinishedKind::Pod))?;
    }
    if !pages.missing.is_empty() {
        return Ok(Prepared::Queries(pages.missing));
    }
    let wall = slower_clock(now.wall, pages.date);
    let seen = seen(config, &policies, &pages, wall);
    let text = match given.text(OUTPUT) {
        // A report of texts cannot fail to become JSON.
        Some("json") => serde_json::to_string_pretty(&seen).unwrap_or_default() + "\n",
        _ => text(&seen),
    };
    Ok(Prepared::Ready(Printed { text, code: 0 }))
}

/// What the API server has sent, and the queries that are left.
#[derive(Default)]
struct Pages<'a> {
    objects: Vec<&'a Candidate>,
    namespaces: BTreeMap<&'a str, Arc<NamespaceView>>,
    date: Option<Timestamp>,
    missing: Vec<Query>,
}

impl<'a> Pages<'a> {
    fn read(
        &mut self,
        pass: &'a Pass<TtlAfterFinishedController>,
        listed: PreviewList,
    ) -> Result<(), Failure> {
        let mut token: Option<Arc<str>> = None;
        loop {
            let query = Query::Page(listed, token);
            let Some(reply) = pass.answer(&query) else {
                self.missing.push(query);
                return Ok(());
            };
            self.date = reply.date.or(self.date);
            let next = match &reply.value {
                Ok(Answer::Objects(Page { items, token })) => {
                    self.objects
                        .extend(items.iter().map(|Versioned { view, .. }| view));
                    token
                }
                Ok(Answer::Namespaces(Page { items, token })) => {
                    let items = items.iter();
                    self.namespaces
                        .extend(items.map(|found| (&*found.view.key.name, Arc::new(found.view.clone()))));
                    token
                }
                Ok(_) => return Ok(()),
                Err(failed) => return Err(failed.clone().into()),
            };
            match next.as_deref().filter(|token| !token.is_empty()) {
                Some(next) => token = Some(next.into()),
                None => return Ok(()),
            }
        }
    }

    fn namespace_of(&self, object: &Candidate) -> Option<&Arc<NamespaceView>> {
        self.namespaces.get(object.object.key.namespace.as_deref()?)
    }
}

fn seen<'a>(config: &Config, policies: &'a Arc<Policies>, pages: &Pages<'a>, now: Timestamp) -> Seen<'a> {
    // The loop's own memory: which failed objects are kept, and grace periods that are over.
    let mut state = PolicyState::default();
    let start = Now {
        wall: now,
        uptime: Duration::ZERO,
    };
    let objects = pages.objects.iter();
    state.begin(
        policies,
        start,
        objects.map(|object| (*object, pages.namespace_of(object).cloned())),
    );
    let mut seen = Seen {
        namespaces: BTreeMap::new(),
        policies: policies.list.iter().map(|policy| (&*policy.name, 0)).collect(),
        brakes: Vec::new(),
        items: Vec::new(),
    };
    let until = Now {
        wall: saturating_add(now, AHEAD),
        uptime: Duration::MAX,
    };
    for object in &pages.objects {
        let Some((policy, finished, due)) = fate(config, policies, pages, &state, object, until) else {
            continue;
        };
        let policy = policy.and_then(|policy| policies.list.get(policy));
        let namespace = object.object.key.namespace.as_deref().unwrap_or_default();
        let count = seen.namespaces.entry(namespace).or_default();
        match object.kind {
            FinishedKind::Job => count.jobs += 1,
            FinishedKind::Pod => count.pods += 1,
        }
        if let Some(count) = policy.and_then(|policy| seen.policies.get_mut(&*policy.name)) {
            *count += 1;
        }
        let how = if object.failed { "failed" } else { "succeeded" };
        let by = policy.map_or_else(
            || "its own ttl".to_owned(),
            |policy| format!("policy {}", policy.name),
        );
        let when = if due <= now { "is" } else { "will be" };
        seen.items.push(Item {
            namespace,
            kind: object.kind,
            name: &object.object.key.name,
            policy: policy.map(|policy| &*policy.name),
            finished,
            due,
            message: format!("{by}: {how} at {finished}, {when} due at {due}"),
        });
    }
    let too_many = policies.list.iter().filter(|policy| {
        let count = seen.policies.get(&*policy.name).copied().unwrap_or_default();
        policy
            .max_per_hour
            .is_some_and(|most| count as u64 > u64::from(most))
    });
    seen.brakes = too_many.map(|policy| &*policy.name).collect();
    seen.items
        .sort_by_key(|item| (item.namespace, item.kind, item.name));
    seen
}

/// The policy, finish and due time of an object that goes by then; no policy for one that goes by its own ttl.
fn fate(
    config: &Config,
    policies: &Policies,
    pages: &Pages<'_>,
    state: &PolicyState,
    object: &Candidate,
    until: Now,
) -> Option<(Option<usize>, Timestamp, Timestamp)> {
    match applying(
        policies,
        object,
        pages.namespace_of(object).map(|namespace| &**namespace),
    ) {
        Ok(index) => {
            let memory = state.memory(policies, index, &Key::of(object), None);
            match judge(policies, index, object, memory, until) {
                Verdict::Due { policy, finish, due } => Some((Some(policy), finish, due)),
                _ => None,
            }
        }
        Err(LeftBecause::OwnTtl) if !config.only_policies => match judge_by_ttl(&object.object, until.wall) {
            JobJudgement::Expired { finish, expiry } => Some((None, finish, expiry)),
            _ => None,
        },
        Err(_) => None,
    }
}

fn text(seen: &Seen<'_>) -> String {
    let mut text = String::new();
    for item in &seen.items {
        let Item {
            namespace,
            kind,
            name,
            message,
            ..
        } = item;
        _ = writeln!(text, "{kind} {namespace}/{name}: {message}");
    }
    for (namespace, Count { jobs, pods }) in &seen.namespaces {
        _ = writeln!(text, "namespace {namespace}: Jobs {jobs}, pods {pods}");
    }
    for (policy, count) in &seen.policies {
        let brake = if seen.brakes.contains(policy) {
            ", more than its maxPerHour: it would stop and wait for a person"
        } else {
            ""
        };
        _ = writeln!(text, "policy {policy}: {count}{brake}");
    }
    text + &format!("{} would go within an hour\n", seen.items.len())
}
