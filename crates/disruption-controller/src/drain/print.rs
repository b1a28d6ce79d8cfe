//! The report as text and as JSON.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use controller_core::meta::ObjectKey;
use serde::Serialize;

use super::simulate::Simulation;
use super::{Finding, Judged, Said, Verdict};
use crate::view::DrainedPod;

/// One pod of the report.
pub(super) struct Item<'a> {
    pub(super) pod: &'a DrainedPod,
    /// The budgets that select it.
    pub(super) budgets: Vec<&'a Judged<'a>>,
    pub(super) finding: Finding,
}

/// Verdict, whether nothing blocks, node, and key of a pod.
pub(super) type Order<'a> = (Verdict, bool, Option<&'a Arc<str>>, &'a ObjectKey);

/// How many pods there are of each verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    nodes: BTreeSet<Arc<str>>,
    now: usize,
    held: usize,
    waits: usize,
    never: usize,
}

impl Tally {
    pub(super) fn count(&mut self, pod: &DrainedPod, finding: &Finding) {
        if let Some(node) = pod.pod.node.as_ref().filter(|node| !self.nodes.contains(*node)) {
            self.nodes.insert(Arc::clone(node));
        }
        *match finding.verdict {
            Verdict::Never => &mut self.never,
            Verdict::Waits => &mut self.waits,
            Verdict::Now if finding.blocks() => &mut self.held,
            Verdict::Now => &mut self.now,
        } += 1;
    }

    pub(super) const fn blocks(&self) -> bool {
        self.held + self.waits + self.never > 0
    }

    fn text(&self) -> String {
        let all = self.now + self.held + self.waits + self.never;
        let parts = [
            (self.now, "goes now", "go now"),
            (
                self.held,
                "is held by something other than a budget",
                "are held by something other than a budget",
            ),
            (self.waits, "waits", "wait"),
            (self.never, "never goes", "never go"),
        ];
        let parts = parts.into_iter().filter(|(count, ..)| *count > 0);
        let parts: Vec<_> = parts
            .map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }))
            .collect();
        let nodes = match self.nodes.len() {
            1 => "1 node".to_owned(),
            nodes => format!("{nodes} nodes"),
        };
        match all {
            0 => "nothing blocks: no pods to evict".to_owned(),
            1 => format!("1 pod on {nodes}: {}", parts.join("; ")),
            all => format!("{all} pods on {nodes}: {}", parts.join("; ")),
        }
    }
}

impl<'a> Item<'a> {
    /// The worst first, then by node, namespace and name.
    pub(super) fn order(&self) -> Order<'a> {
        let goes = !self.finding.blocks();
        (
            self.finding.verdict,
            goes,
            self.pod.pod.node.as_ref(),
            &self.pod.pod.key,
        )
    }

    fn line(&self, wide: bool) -> String {
        let mut line = self.finding.line(self.pod);
        if wide {
            for budget in &self.budgets {
                let Said {
                    allowed,
                    healthy,
                    desired,
                    expected,
                } = budget.said();
                let name = &budget.pdb().key.name;
                _ = write!(
                    line,
                    " [{name}: {allowed} allowed, {healthy} healthy, {desired} desired, {expected} expected]"
                );
            }
        }
        line
    }
}

impl Finding {
    /// The finding about this pod in one line.
    pub fn line(&self, pod: &DrainedPod) -> String {
        let Self { message, fix, .. } = self;
        let verdict = match self.verdict {
            Verdict::Now if self.blocks() => "held",
            verdict => verdict.as_str(),
        };
        let node = pod
            .pod
            .node
            .as_ref()
            .map(|node| format!(" on {node}"))
            .unwrap_or_default();
        let fix = match fix.as_str() {
            "" => String::new(),
            fix => format!(" Fix: {fix}."),
        };
        format!("{verdict}: {message}. Pod {}{node}.{fix}", pod.pod.key)
    }
}

/// A line for each pod, and the sum.
pub(super) fn text<'a>(
    items: impl Iterator<Item = Item<'a>>,
    tally: &Tally,
    simulation: Option<Simulation>,
    wide: bool,
) -> String {
    let mut text = String::new();
    for item in items {
        text.push_str(&item.line(wide));
        text.push('\n');
    }
    text + &tally.text() + "\n" + &simulation.map(|found| found.text()).unwrap_or_default()
}

/// The report in JSON.
#[derive(Serialize)]
struct ReportJson<'a> {
    items: Vec<ItemJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    simulation: Option<Simulation>,
}

#[derive(Serialize)]
struct ItemJson<'a> {
    namespace: &'a str,
    pod: &'a str,
    node: &'a str,
    verdict: &'static str,
    reason: &'static str,
    budgets: Vec<&'a str>,
    message: String,
    fix: String,
}

pub(super) fn json<'a>(items: impl Iterator<Item = Item<'a>>, simulation: Option<Simulation>) -> String {
    let items = items.map(|item| ItemJson {
        namespace: item.pod.pod.key.namespace.as_deref().unwrap_or_default(),
        pod: &item.pod.pod.key.name,
        node: item.pod.pod.node.as_deref().unwrap_or_default(),
        verdict: item.finding.verdict.as_str(),
        reason: item.finding.reason.as_str(),
        budgets: item
            .budgets
            .iter()
            .map(|budget| &*budget.pdb().key.name)
            .collect(),
        message: item.finding.message,
        fix: item.finding.fix,
    });
    let report = ReportJson {
        items: items.collect(),
        simulation,
    };
    // A report of texts cannot fail to become JSON.
    serde_json::to_string_pretty(&report).unwrap_or_default() + "\n"
}
