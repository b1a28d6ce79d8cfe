//! What can happen to a cluster of about a hundred nodes, and what must be true of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use controller_testing::fault_history::{At, Draw, EndState, History, UNDECIDED};
use controller_testing::history::{NEVER_NEEDED, Scene, Scripted, step};
use controller_testing::objects::{delete, edit};
use controller_testing::past::{UndoneWrites, second};
use embedded_apiserver::{NODES, RecordedRequest, RequestVerb, Resource, Server};
use serde_json::json;
use ttl_controller::TtlController;

use crate::world::{TTL, carried_by, name, node};

/// The node counts for which both of the first two steps are valid.
const OVERLAP: Range<usize> = 90..101;

/// The nodes that a rival annotates.
const RIVALS: Range<usize> = 0..3;

/// What happened to the nodes.
#[derive(Default)]
pub(super) struct Nodes {
    present: BTreeSet<usize>,
    /// Every number of nodes that ever was.
    counts: BTreeSet<usize>,
    /// What the nodes carried when the controller started.
    carried: Option<&'static str>,
    /// The number of nodes that came or were changed since.
    changed: usize,
    undone: UndoneWrites,
}

impl Nodes {
    fn adds(&mut self, server: &Server, number: usize, ttl: Option<&str>) {
        // The node exists already if a shrunk history never deleted it.
        let _ = server.insert(node(number, ttl));
        self.present.insert(number);
        self.changed += usize::from(second(server) > 0);
    }

    fn deletes(&mut self, server: &Server, number: usize) {
        delete(server, &NODES, &name(number));
        self.present.remove(&number);
    }

    /// The values that the rules allow every node to end with.
    ///
    /// Inside the overlap both, unless the cluster was settled at a step when the controller started and never left its
    /// range: then that one, whatever else happened.
    fn may_carry(&self, count: usize) -> &'static [&'static str] {
        let kept = |range: Range<usize>| self.counts.iter().all(|count| range.contains(count));
        match count {
            ..90 => &["0"],
            101.. => &["15"],
            _ if kept(0..101) && self.carried != Some("15") => &["0"],
            // Most nodes carry it at any time, so a new leader adopts it.
            _ if kept(90..501) && self.carried == Some("15") && self.changed < 40 => &["15"],
            _ => &["0", "15"],
        }
    }
}

impl Scene for Nodes {
    type App = TtlController;

    const READS: &'static [&'static Resource] = &[&NODES];
    const WRITES: &'static [&'static Resource] = &[&NODES];
    const GETS: bool = false;
    const HAS_RIVAL: bool = true;

    fn steps(draw: &mut Draw) -> Vec<At<Scripted<Self>>> {
        let mut size = drawn_size(draw);
        // Most clusters are settled when the controller starts, at the step that a small or a large past left.
        let carried = match size {
            ..90 => Some("0"),
            90..101 => Some(draw.pick(&["0", "15"])),
            _ => Some("15"),
        };
        let carried = if draw.chance(20) { None } else { carried };
        let mut steps = vec![At::seconds(0, add(0..size, carried))];
        let mut times: Vec<_> = (0..draw.number(1..5))
            .map(|_| draw.time(Duration::from_secs(5)..Self::LENGTH))
            .collect();
        times.sort();
        for time in times {
            let what = match draw.number(0..4) {
                0 => annotate(draw.number(0..size), draw.pick(&["0", "15", "7", "soon", "-1"])),
                1 => recreate(draw.number(0..size)),
                _ => {
                    let before = std::mem::replace(&mut size, drawn_size(draw));
                    if size >= before {
                        add(before..size, None)
                    } else {
                        remove(size..before)
                    }
                }
            };
            steps.push(At { time, what });
        }
        steps
    }

    fn undo(&mut self, server: &Server) -> bool {
        let carried = carried_by(server);
        let is_ours = |node: &String| carried.get(node).is_some_and(|ttl| matches!(&**ttl, "0" | "15"));
        let undone: Vec<_> = RIVALS.map(name).filter(is_ours).collect();
        for name in &undone {
            edit(server, &NODES, name, |node| {
                node["metadata"]["annotations"][TTL] = "7".into();
            });
            self.changed += usize::from(self.undone.count(name) == 0);
            self.undone.add(server, name);
        }
        !undone.is_empty()
    }

    fn settled(&mut self, server: &Server) -> Result<(), String> {
        let carried = carried_by(server);
        let may_carry = self.may_carry(carried.len());
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
    fn state(&self, server: &Server) -> EndState {
        let mut state = carried_by(server);
        let may_carry = self.may_carry(state.len());
        if may_carry.len() > 1 {
            let steps = state.values_mut().filter(|ttl| may_carry.contains(&ttl.as_str()));
            steps.for_each(|ttl| UNDECIDED.clone_into(ttl));
        }
        state
    }

    fn permits(&mut self, _: &Server, write: &RecordedRequest) -> Result<(), String> {
        let ttl = write.body["metadata"]["annotations"][TTL].as_str();
        let only_the_annotation = json!({"metadata": {"annotations": {TTL: ttl}}});
        let is_needed = write.verb == RequestVerb::Patch && write.body == only_the_annotation;
        if write.resource == "nodes" && is_needed && matches!(ttl, Some("0" | "15")) {
            return Ok(());
        }
        Err(NEVER_NEEDED.to_owned())
    }

    /// A node is written once for each thing that happened to it or to all nodes: it comes, it is edited, the step
    /// changes, a rival undoes a write, a new leader judges again. A write without an answer is repeated.
    fn afterwards(&self, server: &Server, history: &History<Scripted<Self>>) -> Result<(), String> {
        self.undone.were_left()?;
        let limit = |node: &str| 1 + history.actions.len() + history.faults.len() + self.undone.count(node);
        let mut writes: BTreeMap<String, usize> = BTreeMap::new();
        for request in
            &*server.requests_where(|request| request.resource == "nodes" && request.verb.is_write())
        {
            *writes.entry(request.name.clone()).or_default() +=
                usize::from(request.served.is_some() && request.code.is_some());
        }
        match writes.into_iter().find(|(node, count)| *count > limit(node)) {
            Some((node, count)) => Err(format!(
                "{node} was written {count} times, {} are enough",
                limit(&node)
            )),
            None => Ok(()),
        }
    }
}

/// Seldom one that says little about the end.
fn drawn_size(draw: &mut Draw) -> usize {
    let sizes = [84..90, OVERLAP, 101..112];
    let of = draw.pick(&[0, 0, 1, 2, 2]);
    draw.number(sizes[of].clone())
}

/// Nodes come, with this annotation.
fn add(numbers: Range<usize>, ttl: Option<&'static str>) -> Scripted<Nodes> {
    let with = ttl.map_or("bare".to_owned(), |ttl| format!("annotated {ttl}"));
    let says = format!("{} nodes come, {numbers:?}, {with}", numbers.len());
    step(says, move |nodes: &mut Nodes, server| {
        numbers.clone().for_each(|number| nodes.adds(server, number, ttl));
        if second(server) == 0 {
            nodes.carried = ttl;
        }
        nodes.counts.insert(nodes.present.len());
    })
}

fn remove(numbers: Range<usize>) -> Scripted<Nodes> {
    let says = format!("nodes {numbers:?} go");
    step(says, move |nodes: &mut Nodes, server| {
        numbers.clone().for_each(|number| nodes.deletes(server, number));
        nodes.counts.insert(nodes.present.len());
    })
}

/// Somebody writes the annotation by hand.
fn annotate(number: usize, ttl: &'static str) -> Scripted<Nodes> {
    let says = format!("node {number} is annotated {ttl:?} by hand");
    step(says, move |nodes: &mut Nodes, server| {
        edit(server, &NODES, &name(number), |node| {
            node["metadata"]["annotations"][TTL] = ttl.into();
        });
        nodes.changed += 1;
    })
}

fn recreate(number: usize) -> Scripted<Nodes> {
    let says = format!("node {number} is deleted and comes back bare");
    step(says, move |nodes: &mut Nodes, server| {
        nodes.deletes(server, number);
        // For a moment there is one node fewer.
        nodes.counts.insert(nodes.present.len());
        nodes.adds(server, number, None);
    })
}
