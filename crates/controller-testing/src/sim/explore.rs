//! Every run within bounds, breadth first: the first violation has the fewest steps.
//!
//! A state that has been reached before is not continued; a hash of 8 bytes tells states apart. Each state is checked like
//! the state of a run. From those that nothing follows, and from one in 16 others, everything must settle.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use controller_core::controller::Controller;
use controller_core::fingerprint::Fingerprint;

use super::bounds::{Bounds, Report};
use super::failure::SimFailure;
use super::model::{Model, Op, StepOf};
use super::process::Role;
use super::run::Sim;
use super::settle::settles;
use super::trace::Violation;

/// Of the states that something follows, one in this many must settle.
pub(super) const SETTLES_ONE_IN: u64 = 16;

/// A world whose runs can be explored.
pub trait Explored: Model<Act: Send + Sync> + Clone + Send
where
    <Self::Controller as Controller>::Stores: Clone,
{
    /// What others may do next.
    fn acts(&self) -> Vec<Self::Act>;

    /// How long nothing may happen; until something is due, in any case.
    fn waits(&self) -> Vec<Duration> {
        vec![Duration::from_secs(31)]
    }

    /// Adds what [`Model::watches`] does not hold.
    fn fingerprint(&self, out: &mut Fingerprint);
}

/// A state, and what may still happen.
struct Node<M: Model> {
    sim: Sim<M>,
    left: Bounds,
    /// Its place among all states.
    number: usize,
}

struct Child<M: Model> {
    parent: usize,
    by: usize,
    op: Op<M::Act>,
    print: u64,
    sim: Sim<M>,
    left: Bounds,
    has_settled: bool,
}

/// A step from the state with this number, by a process, that breaks a property.
struct Broken<M: Model> {
    parent: usize,
    by: usize,
    op: Op<M::Act>,
    message: String,
}

/// The search of one thread through a part of a level.
struct Part<M: Model> {
    children: Vec<Child<M>>,
    transitions: usize,
    broken: Option<Broken<M>>,
}

/// Takes every run of `model` within `bounds`, and lets one state in `one_in` settle, besides the last ones. Fails with
/// the shortest run that breaks a property.
#[allow(clippy::disallowed_methods, reason = "how long the search takes")]
pub(super) fn explore<M: Explored>(model: M, bounds: Bounds, one_in: u64) -> Result<Report, Violation>
where
    <M::Controller as Controller>::Stores: Clone,
    Sim<M>: Send,
{
    let began = Instant::now();
    let mut first = Sim::among(model, &vec![Role::Elected; bounds.processes]);
    first.phrased = None;
    let mut seen = HashSet::new();
    // Of each state: the one before, and the step from there, with its process.
    let mut links: Vec<(usize, Option<StepOf<M::Act>>)> = vec![(0, None)];
    let mut level = vec![Node {
        sim: first.clone(),
        left: bounds,
        number: 0,
    }];
    let (mut transitions, mut settled, mut depth) = (0, 0, 0);
    while !level.is_empty() {
        let half = level.len().div_ceil(2);
        let parts: Vec<Part<M>> = thread::scope(|scope| {
            let threads: Vec<_> = level
                .chunks_mut(half)
                .map(|nodes| {
                    let seen = &seen;
                    scope.spawn(move || search(nodes, seen, bounds.lag, one_in))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let mut next = Vec::new();
        for part in parts {
            if let Some(Broken {
                parent,
                by,
                op,
                message,
            }) = part.broken
            {
                let mut ops = vec![(by, op)];
                let mut at = parent;
                while let (before, Some(op)) = &links[at] {
                    ops.push(op.clone());
                    at = *before;
                }
                ops.reverse();
                return Err(Violation::of(first, &ops, message));
            }
            transitions += part.transitions;
            for child in part.children {
                if seen.insert(child.print) {
                    settled += usize::from(child.has_settled);
                    let (sim, left, number) = (child.sim, child.left, links.len());
                    links.push((child.parent, Some((child.by, child.op))));
                    next.push(Node { sim, left, number });
                }
            }
        }
        depth += usize::from(!next.is_empty());
        level = next;
    }
    let (states, took) = (links.len(), began.elapsed());
    Ok(Report {
        states,
        transitions,
        settled,
        depth,
        took,
        bounds,
    })
}

/// Takes every step from these states.
fn search<M: Explored>(nodes: &mut [Node<M>], seen: &HashSet<u64>, most_lag: usize, one_in: u64) -> Part<M>
where
    <M::Controller as Controller>::Stores: Clone,
{
    let mut part = Part {
        children: Vec::new(),
        transitions: 0,
        broken: None,
    };
    let mut here = HashSet::new();
    for node in nodes {
        for (by, op, left) in steps(&mut node.sim, node.left) {
            let mut sim = node.sim.clone();
            let parent = node.number;
            let went = attempt(|| sim.step_by(by, &op));
            let broken = |message| {
                Some(Broken {
                    parent,
                    by,
                    op: op.clone(),
                    message,
                })
            };
            if let Err(message) = went {
                part.broken = broken(message);
                return part;
            }
            if most_lag_of(&mut sim, left) > most_lag {
                continue;
            }
            part.transitions += 1;
            let print = fingerprint(&mut sim, left);
            if seen.contains(&print) || !here.insert(print) {
                continue;
            }
            let has_settled = print.is_multiple_of(one_in) || steps(&mut sim, left).is_empty();
            if has_settled && let Err(message) = settles(&sim) {
                part.broken = broken(message);
                return part;
            }
            part.children.push(Child {
                parent,
                by,
                op,
                print,
                sim,
                left,
                has_settled,
            });
        }
    }
    part
}

/// True if the process that takes steps will never lead again, so that nothing comes of what it hears.
fn is_over<M: Model>(sim: &Sim<M>, left: Bounds) -> bool {
    !sim.others.is_empty() && !sim.process.leading && (left.faults == 0 || left.terms == 0)
}

/// Number of events, at most, that the watch of a process has not shown.
fn most_lag_of<M: Model>(sim: &mut Sim<M>, left: Bounds) -> usize {
    let lags = (0..=sim.others.len()).map(|number| {
        sim.switch_to(number);
        if is_over(sim, left) { 0 } else { sim.lag() }
    });
    lags.max().unwrap_or_default()
}

/// What may happen next, each with its process and with what may happen after it.
fn steps<M: Explored>(sim: &mut Sim<M>, left: Bounds) -> Vec<(usize, Op<M::Act>, Bounds)>
where
    <M::Controller as Controller>::Stores: Clone,
{
    let mut steps = Vec::new();
    for number in 0..=sim.others.len() {
        sim.switch_to(number);
        let next = steps_of_process(sim, left).into_iter();
        steps.extend(next.map(|(op, left)| (number, op, left)));
    }
    steps
}

fn steps_of_process<M: Explored>(sim: &mut Sim<M>, left: Bounds) -> Vec<(Op<M::Act>, Bounds)>
where
    <M::Controller as Controller>::Stores: Clone,
{
    let (mut steps, is_alone, term) = (Vec::new(), sim.others.is_empty(), sim.term);
    let is_over = is_over(sim, left);
    let Sim {
        model,
        process,
        others,
        ..
    } = sim;
    let mut bounded = |op, bounds: &[fn(&mut Bounds) -> &mut u8]| {
        let mut left = left;
        let spent = bounds.iter().all(|of| {
            let more = of(&mut left);
            let is_left = *more > 0;
            *more = more.saturating_sub(1);
            is_left
        });
        if spent {
            steps.push((op, left));
        }
    };
    // Others act, and time passes, whichever process goes on.
    if process.number == term.unwrap_or(0) {
        let acts = if left.acts > 0 { model.acts() } else { Vec::new() };
        let all: Vec<_> = others.iter().chain([&*process]).collect();
        for act in acts {
            if is_alone || model.may_act(&act, &all) {
                bounded(Op::Act(act), &[|left| &mut left.acts]);
            }
        }
        for wait in model.waits().into_iter().chain(process.again) {
            bounded(Op::Pass(wait), &[|left| &mut left.waits]);
        }
    }
    for which in 0..model.watches().len() {
        if !process.away.contains(&which) && !is_over {
            bounded(
                Op::BeginList(which),
                &[|left| &mut left.faults, |left| &mut left.lists],
            );
        }
    }
    for (which, flying) in process.in_flight.iter().enumerate() {
        if flying.id.is_some() {
            bounded(
                Op::Lose(which, SimFailure::Broken),
                &[|left| &mut left.faults, |left| &mut left.lost],
            );
            if flying.answer.is_none() {
                bounded(
                    Op::Refuse(which, SimFailure::Unconnected),
                    &[|left| &mut left.faults, |left| &mut left.refused],
                );
            }
        }
    }
    if !is_over {
        bounded(Op::Crash, &[|left| &mut left.faults, |left| &mut left.crashes]);
    }
    // A process alone loses its term; otherwise another one takes it.
    if process.leading == is_alone {
        bounded(
            Op::Lead(!is_alone),
            &[|left| &mut left.faults, |left| &mut left.terms],
        );
    }
    if is_alone && !process.leading {
        steps.push((Op::Lead(true), left));
    }
    for (which, (_, watch)) in model.watches().iter().enumerate() {
        if watch.lag() > 0 && !is_over {
            steps.push((Op::Deliver(which), left));
        }
    }
    for (which, flying) in process.in_flight.iter().enumerate() {
        let has_arrived = flying.answer.is_some() || flying.id.is_none();
        let op = if has_arrived {
            Op::Answer(which)
        } else {
            Op::Arrive(which)
        };
        steps.push((op, left));
    }
    steps
}

fn fingerprint<M: Explored>(sim: &mut Sim<M>, left: Bounds) -> u64
where
    <M::Controller as Controller>::Stores: Clone,
{
    let mut out = Fingerprint::default();
    sim.model.fingerprint(&mut out);
    for number in 0..=sim.others.len() {
        sim.switch_to(number);
        let Sim { model, process, .. } = sim;
        process.fingerprint(&mut out);
        for (_, watch) in model.watches() {
            watch.fingerprint(&mut process.event_loop, &mut out);
        }
    }
    out.add(&left);
    std::hash::Hasher::finish(&out)
}

/// The message of the assertion that fails in `run`, if one does.
pub(super) fn attempt(run: impl FnOnce()) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        text.unwrap_or_default()
    })
}
