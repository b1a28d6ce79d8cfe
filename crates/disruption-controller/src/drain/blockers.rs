//! `disruption-controller blockers`, also `kubectl drain-blockers`: what blocks a drain of some nodes, or of any node.

use std::collections::BTreeSet;
use std::sync::Arc;

use controller_core::app::{Failure, Flag, Flags as Given, Prepared, Printed, Report, Takes};
use controller_core::controller::{Now, Pass};
use jiff::Timestamp;

use super::filters::is_left_out;
use super::print::{Item, Tally, json, text};
use super::simulate::Simulation;
use super::world::{Missing, World, answered};
use super::{Flags, judge};
use crate::DisruptionController;
use crate::config::{Config, OWNERS};
use crate::decide::OwnerRules;
use crate::requests::{Answer, Listed, Listing, Query};
use crate::view::DrainedPod;

/// Exit code if something blocks.
const BLOCKED: u8 = 3;

const NODE: &str = "node";
const NAMESPACE: &str = "namespace";
const OUTPUT: &str = "output";
const FORCE: &str = "force";
const DELETE_EMPTYDIR_DATA: &str = "delete-emptydir-data";
const SIMULATE: &str = "simulate";
const PARALLEL: &str = "parallel";

/// The subcommand.
pub const REPORT: Report<DisruptionController> = Report {
    name: "blockers",
    about: "Print what blocks a drain: for each pod whether it can be evicted now, later or never, why, and what to do",
    help: "Only reads. Exit code 0: nothing blocks. 3: something does. 1: an error.\n\
           As a plugin of kubectl: link this binary as kubectl-drain_blockers into a directory of the PATH, then call \
           kubectl drain-blockers.",
    plugin: "kubectl-drain_blockers",
    flags: &[
        Flag {
            name: NODE,
            short: None,
            takes: Takes::Texts("NODE"),
            help: "Node that must be drained; may be repeated. Default: every node.",
        },
        Flag {
            name: NAMESPACE,
            short: Some('n'),
            takes: Takes::Texts("NAMESPACE"),
            help: "Look at this namespace only; may be repeated. Default: every namespace.",
        },
        Flag {
            name: OUTPUT,
            short: Some('o'),
            takes: Takes::OneOf(&["text", "json", "wide"]),
            help: "text: a line for each pod that something blocks. wide: a line for each pod, with the numbers of its \
                   budget. json: every pod.",
        },
        Flag {
            name: FORCE,
            short: None,
            takes: Takes::Nothing,
            help: "Judge for a kubectl drain with --force: pods of no controller do not block",
        },
        Flag {
            name: DELETE_EMPTYDIR_DATA,
            short: None,
            takes: Takes::Nothing,
            help: "Judge for a kubectl drain with --delete-emptydir-data: an emptyDir does not block",
        },
        Flag {
            name: SIMULATE,
            short: None,
            takes: Takes::Nothing,
            help: "Print also how many rounds a drain of these nodes takes, one after the other, if in each round as many \
                   pods go as the budgets allow and become ready elsewhere",
        },
        Flag {
            name: PARALLEL,
            short: None,
            takes: Takes::Texts("N"),
            help: "With --simulate: so many nodes at a time. Default: 1",
        },
    ],
    settings: OWNERS,
    by: report,
};

/// The format of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    Text,
    Wide,
    Json,
}

/// A drain that somebody plans.
pub(super) struct Plan {
    /// None: every node.
    nodes: BTreeSet<Arc<str>>,
    /// None: every namespace.
    namespaces: Vec<Arc<str>>,
    output: Output,
    flags: Flags,
    /// How many nodes a simulated drain takes at a time; `None`: no simulation.
    parallel: Option<usize>,
}

impl Plan {
    pub(super) fn of(given: &Given) -> Result<Self, Failure> {
        let named = |flag: &str| -> Result<BTreeSet<Arc<str>>, Failure> {
            let values = given.texts(flag).iter();
            let named = values.map(|value| match value.as_str() {
                "" => Err(format!("--{flag} is empty").into()),
                value => Ok(Arc::from(value)),
            });
            named.collect()
        };
        let parallel = match given.text(PARALLEL) {
            None => 1,
            Some(_) if !given.has(SIMULATE) => return Err(format!("--{PARALLEL} is for --{SIMULATE}").into()),
            Some(text) => (text.parse().ok().filter(|nodes| *nodes > 0))
                .ok_or_else(|| format!("--{PARALLEL}={text}: not a number of nodes"))?,
        };
        Ok(Self {
            nodes: named(NODE)?,
            namespaces: named(NAMESPACE)?.into_iter().collect(),
            output: match given.text(OUTPUT) {
                Some("json") => Output::Json,
                Some("wide") => Output::Wide,
                _ => Output::Text,
            },
            flags: Flags {
                force: given.has(FORCE),
                delete_emptydir_data: given.has(DELETE_EMPTYDIR_DATA),
            },
            parallel: given.has(SIMULATE).then_some(parallel),
        })
    }

    /// True if the pod runs on a node of the plan.
    fn concerns(&self, pod: &DrainedPod) -> bool {
        let is_named = |node: &Arc<str>| self.nodes.is_empty() || self.nodes.contains(node);
        pod.pod.node.as_ref().is_some_and(is_named)
    }
}

fn report(
    config: &Config,
    pass: &Pass<DisruptionController>,
    now: Now,
    given: &Given,
) -> Result<Prepared<Query, Printed>, Failure> {
    let plan = Plan::of(given)?;
    Missing::prepared(printed(pass, &plan, &config.owner_rules(), now))
}

fn printed(
    pass: &Pass<DisruptionController>,
    plan: &Plan,
    rules: &OwnerRules,
    now: Now,
) -> Result<Printed, Missing> {
    let world = World::read(pass, &plan.namespaces, rules)?;
    assert_nodes_exist(pass, plan, &world)?;
    printed_of(&world, plan, now.wall)
}

/// The report about a world that is read.
pub(super) fn printed_of<'w>(world: &'w World<'_>, plan: &Plan, now: Timestamp) -> Result<Printed, Missing> {
    let pods = { world.pods.values() }.copied();
    let pods: Vec<_> = pods
        .filter(|pod| plan.concerns(pod) && !is_left_out(pod))
        .collect();
    let keys = pods.iter().flat_map(|pod| world.budgets_of(&pod.pod));
    let judged = world.judged(keys.collect::<BTreeSet<_>>(), now)?;
    let item = |pod: &'w DrainedPod| {
        let keys = world.budgets_of(&pod.pod).into_iter();
        let budgets: Vec<_> = keys.filter_map(|key| judged.get(&key)).collect();
        Item {
            pod,
            finding: judge(pod, &budgets, plan.flags, now),
            budgets,
        }
    };
    let mut tally = Tally::default();
    let mut orders = Vec::new();
    let simulation = plan
        .parallel
        .map(|parallel| Simulation::of(pods.iter().map(|pod| item(pod)), parallel));
    for pod in pods {
        let item: Item<'_> = item(pod);
        tally.count(pod, &item.finding);
        if item.finding.blocks() || plan.output != Output::Text {
            orders.push((item.order(), pod));
        }
    }
    orders.sort_unstable_by_key(|(order, _)| *order);
    // Judged again, as all texts at once would take as much memory as all pods.
    let items = orders.iter().map(|(_, pod)| item(pod));
    Ok(Printed {
        text: match plan.output {
            Output::Json => json(items, simulation),
            Output::Text => text(items, &tally, simulation, false),
            Output::Wide => text(items, &tally, simulation, true),
        },
        code: if tally.blocks() { BLOCKED } else { 0 },
    })
}

/// A node with a pod exists; the others are asked for. A misspelled node must not look like one that nothing blocks.
fn assert_nodes_exist(
    pass: &Pass<DisruptionController>,
    plan: &Plan,
    world: &World<'_>,
) -> Result<(), Missing> {
    let seen: BTreeSet<_> = { world.pods.values() }
        .filter_map(|pod| pod.pod.node.as_ref())
        .collect();
    let mut missing = Vec::new();
    for node in plan.nodes.iter().filter(|node| !seen.contains(node)) {
        let query = Query::Page(Listing {
            of: Listed::Node(Arc::clone(node)),
            namespace: None,
            token: None,
        });
        match answered(pass, &query)? {
            None => missing.push(query),
            Some(Answer::Nodes(0)) => return Err(Missing::Failed(format!("no node {node}").into())),
            Some(_) => {}
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Missing::Answers(missing))
}
