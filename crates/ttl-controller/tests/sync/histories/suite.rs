//! What can happen to a cluster of about a hundred nodes, and what must be true of it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use harness::{Run, Start};
use serde_json::json;
use testkit::embedded::{NODES, Request, Resource, Server, Verb};
use testkit::history::{At, Draw, History, Life, State, Suite};
use ttl_controller::TtlController;
use ttl_controller::config::Config;

use crate::world::{TTL, carried_by, name, node};

/// The counts at which both of the first two steps may stand.
const OVERLAP: Range<usize> = 90..101;
/// How many nodes there are, at least and at most.
const SIZES: Range<usize> = 84..112;

/// The ttl-controller, or one with a bug put in.
#[derive(Clone)]
pub(super) struct Nodes {
    run: Run<Config>,
}

impl Nodes {
    pub(super) fn new(run: Run<Config>) -> Self {
        Self { run }
    }
}

/// A step of the cluster.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// Nodes come, with this annotation.
    Add(Range<usize>, Option<&'static str>),
    /// Nodes go.
    Delete(Range<usize>),
    /// Somebody writes the annotation by hand.
    Annotate(usize, &'static str),
    /// A node is deleted and comes back under its name, bare.
    Recreate(usize),
}

impl Suite for Nodes {
    type Action = Action;

    const NAME: &'static str = "ttl-controller";
    const RESOURCES: &'static [&'static Resource] = &[&NODES];

    /// Five minutes pass before the client gives up a watch that is silent.
    const SETTLES_WITHIN: Duration = Duration::from_mins(10);

    fn actions(&self, draw: &mut Draw) -> Vec<At<Action>> {
        let mut size = draw.number(SIZES);
        // Most clusters are settled when the controller comes, at the step that a small or a large past left.
        let carried = match size {
            ..90 => Some("0"),
            90..101 => Some(draw.pick(&["0", "15"])),
            _ => Some("15"),
        };
        let carried = if draw.chance(20) { None } else { carried };
        let mut actions = vec![At::seconds(0, Action::Add(0..size, carried))];
        let mut times: Vec<_> = (0..draw.number(1..5))
            .map(|_| draw.time(Duration::from_secs(5)..Self::LENGTH))
            .collect();
        times.sort();
        for time in times {
            let what = match draw.number(0..4) {
                0 => Action::Annotate(draw.number(0..size), draw.pick(&["0", "15", "7", "soon", "-1"])),
                1 => Action::Recreate(draw.number(0..size)),
                _ => {
                    let before = std::mem::replace(&mut size, draw.number(SIZES));
                    if size >= before {
                        Action::Add(before..size, None)
                    } else {
                        Action::Delete(size..before)
                    }
                }
            };
            actions.push(At { time, what });
        }
        actions
    }

    fn act(&self, server: &Server, action: &Action) {
        match action {
            Action::Add(numbers, ttl) => numbers.clone().for_each(|number| add(server, number, *ttl)),
            Action::Delete(numbers) => numbers.clone().for_each(|number| delete(server, number)),
            Action::Annotate(number, ttl) => {
                // There is none where a shrunk history never added it.
                let _ = server.edit(&NODES, "", &name(*number), |node| {
                    node["metadata"]["annotations"][TTL] = (*ttl).into();
                });
            }
            Action::Recreate(number) => {
                delete(server, *number);
                add(server, *number, None);
            }
        }
    }

    fn process(&self, life: Life) -> impl Future<Output = Result<(), String>> + Send + 'static {
        Start::of::<TtlController>().running(self.run).live(life)
    }

    fn settled(&self, server: &Server, actions: &[At<Action>]) -> Result<(), String> {
        let carried = carried_by(server);
        let may_carry = may_carry(carried.len(), actions);
        let first = carried.values().next().cloned().unwrap_or_default();
        for (node, ttl) in &carried {
            if !may_carry.contains(&ttl.as_str()) {
                return Err(format!("{node} of {} carries {ttl:?}", carried.len()));
            }
            if *ttl != first {
                return Err(format!("{node} carries {ttl:?} and others {first:?}"));
            }
        }
        Ok(())
    }

    /// Inside the overlap the step depends on what was seen, and when; `settled` says what is certain then.
    fn state(&self, server: &Server) -> State {
        let mut state = carried_by(server);
        if OVERLAP.contains(&state.len()) {
            for ttl in state
                .values_mut()
                .filter(|ttl| matches!(ttl.as_str(), "0" | "15"))
            {
                "0 or 15".clone_into(ttl);
            }
        }
        state
    }

    fn permits(&self, _: &Server, request: &Request) -> Result<(), String> {
        if request.resource != "nodes" || !request.verb.is_write() {
            return Ok(());
        }
        let ttl = request.body["metadata"]["annotations"][TTL].as_str();
        let only_the_annotation = json!({"metadata": {"annotations": {TTL: ttl}}});
        if request.verb == Verb::Patch
            && request.body == only_the_annotation
            && ttl.is_some_and(|ttl| matches!(ttl, "0" | "15"))
        {
            return Ok(());
        }
        Err(format!("no such write is ever needed: {request}"))
    }

    /// A node is written once for each thing that happened to it or to all: it comes, it is edited, the step
    /// changes, a new leader judges anew.
    fn afterwards(&self, server: &Server, history: &History<Action>) -> Result<(), String> {
        let limit = 1 + history.actions.len() + history.troubles.len();
        let mut writes: BTreeMap<String, usize> = BTreeMap::new();
        for request in &*server.requests().to("nodes").writes() {
            *writes.entry(request.name.clone()).or_default() += usize::from(request.served.is_some());
        }
        match writes.into_iter().find(|(_, count)| *count > limit) {
            Some((node, count)) => Err(format!("{node} was written {count} times, {limit} are enough")),
            None => Ok(()),
        }
    }
}

/// The values that the rules allow every node to end with.
///
/// Inside the overlap both, unless the cluster was settled at a step when the controller came and never left
/// its range: then that one, whatever else happened.
fn may_carry(count: usize, actions: &[At<Action>]) -> &'static [&'static str] {
    let mut present = std::collections::BTreeSet::new();
    let (mut counts, mut bare) = (Vec::new(), 0);
    let mut settled_at = None;
    for At { time, what } in actions {
        match what {
            Action::Add(numbers, ttl) => {
                present.extend(numbers.clone());
                if time.is_zero() {
                    settled_at = *ttl;
                } else {
                    bare += numbers.len();
                }
            }
            Action::Delete(numbers) => numbers.clone().for_each(|number| {
                present.remove(&number);
            }),
            Action::Annotate(..) => bare += 1,
            Action::Recreate(number) => {
                bare += 1;
                // For a moment there is one fewer.
                counts.push(present.len() - usize::from(present.contains(number)));
            }
        }
        counts.push(present.len());
    }
    let (least, most) = (counts.iter().min().copied(), counts.iter().max().copied());
    let kept = |range: Range<usize>| {
        least.is_some_and(|least| range.contains(&least)) && most.is_some_and(|most| range.contains(&most))
    };
    match count {
        ..90 => &["0"],
        101.. => &["15"],
        _ if kept(0..101) && settled_at != Some("15") => &["0"],
        // Most nodes carry it at any time, so that a new leader adopts it.
        _ if kept(90..501) && settled_at == Some("15") && bare < 40 => &["15"],
        _ => &["0", "15"],
    }
}

fn add(server: &Server, number: usize, ttl: Option<&str>) {
    // It is there already where a shrunk history never deleted it.
    let _ = server.insert(node(number, ttl));
}

fn delete(server: &Server, number: usize) {
    let _ = server.delete(&NODES, "", &name(number));
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add(numbers, ttl) => {
                let Range { start, end } = numbers;
                write!(f, "nodes {start} up to {end} come, {} then", numbers.len())?;
                match ttl {
                    Some(ttl) => write!(f, " annotated {ttl}"),
                    None => f.write_str(" bare"),
                }
            }
            Self::Delete(numbers) => write!(f, "nodes {} up to {} go", numbers.start, numbers.end),
            Self::Annotate(number, ttl) => write!(f, "node {number} is annotated {ttl:?} by hand"),
            Self::Recreate(number) => write!(f, "node {number} is deleted and comes back bare"),
        }
    }
}
