//! Every run within bounds, breadth first: the first violation has the fewest steps.
//!
//! A state that has been reached before is not continued; states are told apart by 8 bytes. Each state is checked like
//! the state of a run. From those that nothing follows, and from one in 16 others, everything must settle.

use std::collections::HashSet;
use std::fmt::{self, Display};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use controller_core::controller::Controller;
use controller_core::fingerprint::Fingerprint;

use super::failure::SimFailure;
use super::model::{Model, Op};
use super::run::Sim;
use super::settle::settles;
use super::trace::Violation;

/// Of the states that something follows, one in this many must settle.
pub(super) const SETTLES_ONE_IN: u64 = 16;

/// Adds this number to each of the [`Bounds`] on acts and faults, broken watches and refusals among these.
const MORE: &str = "EXPLORE_MORE";

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

/// How often each may happen in a run.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Acts of others.
    pub acts: u8,
    /// Faults, all together.
    pub faults: u8,
    /// Answers that are lost.
    pub lost: u8,
    /// Requests that are refused.
    pub refused: u8,
    /// Watches that break.
    pub lists: u8,
    /// Processes that die.
    pub crashes: u8,
    /// Terms that end.
    pub terms: u8,
    /// Times at which nothing happens for a while.
    pub waits: u8,
    /// Events that a watch has not shown, at most.
    pub lag: usize,
}

/// What was explored.
#[derive(Debug)]
pub(super) struct Report {
    pub states: usize,
    pub transitions: usize,
    pub settled: usize,
    /// Steps of the longest run.
    pub depth: usize,
    pub took: Duration,
    pub bounds: Bounds,
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            states,
            transitions,
            settled,
            depth,
            took,
            bounds,
        } = self;
        let rate = *states as u128 * 1000 / took.as_millis().max(1);
        write!(
            f,
            "explored {states} states, {transitions} transitions, {settled} settled, depth {depth}, {:.1} s, \
             {rate} states a second, {bounds:?}",
            took.as_secs_f64()
        )
    }
}

impl Bounds {
    /// One act, and one fault: a lost answer, a crash or the end of a term.
    pub const FEW: Self = Self {
        acts: 1,
        faults: 1,
        lost: 1,
        refused: 0,
        lists: 0,
        crashes: 1,
        terms: 1,
        waits: 1,
        lag: 2,
    };

    fn with_more(self) -> Self {
        let more = std::env::var(MORE)
            .ok()
            .and_then(|more| more.parse().ok())
            .unwrap_or(0);
        Self {
            acts: self.acts + more,
            faults: self.faults + more,
            refused: self.refused + more,
            lists: self.lists + more,
            crashes: self.crashes.max(more.min(1)),
            terms: self.terms.max(more.min(1)),
            ..self
        }
    }
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
    op: Op<M::Act>,
    print: u64,
    sim: Sim<M>,
    left: Bounds,
    has_settled: bool,
}

/// A step from the state with this number that breaks a property.
struct Broken<M: Model> {
    parent: usize,
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
    let (began, bounds) = (Instant::now(), bounds.with_more());
    let first = Sim::new(model);
    let mut seen = HashSet::new();
    // Of each state: the one before, and the step from there.
    let mut links: Vec<(usize, Option<Op<M::Act>>)> = vec![(0, None)];
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
            if let Some(Broken { parent, op, message }) = part.broken {
                let mut ops = vec![op];
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
                    links.push((child.parent, Some(child.op)));
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
        for (op, left) in steps(&mut node.sim, node.left) {
            let mut sim = node.sim.clone();
            let parent = node.number;
            let went = attempt(|| {
                sim.step(&op);
                sim.assert_term();
            });
            let broken = |message| {
                Some(Broken {
                    parent,
                    op: op.clone(),
                    message,
                })
            };
            if let Err(message) = went {
                part.broken = broken(message);
                return part;
            }
            if sim
                .model
                .watches()
                .iter()
                .any(|(_, watch)| watch.lag() > most_lag)
            {
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

/// What may happen next, each with what may happen after it.
fn steps<M: Explored>(sim: &mut Sim<M>, left: Bounds) -> Vec<(Op<M::Act>, Bounds)>
where
    <M::Controller as Controller>::Stores: Clone,
{
    let (mut steps, Sim { model, process, .. }) = (Vec::new(), sim);
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
    let acts = (left.acts > 0).then(|| model.acts());
    for act in acts.into_iter().flatten() {
        bounded(Op::Act(act), &[|left| &mut left.acts]);
    }
    for wait in model.waits().into_iter().chain(process.again) {
        bounded(Op::Pass(wait), &[|left| &mut left.waits]);
    }
    for which in 0..model.watches().len() {
        if !process.away.contains(&which) {
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
    bounded(Op::Crash, &[|left| &mut left.faults, |left| &mut left.crashes]);
    if process.leading {
        bounded(
            Op::Lead(false),
            &[|left| &mut left.faults, |left| &mut left.terms],
        );
    }
    if !process.leading {
        steps.push((Op::Lead(true), left));
    }
    for (which, (_, watch)) in model.watches().iter().enumerate() {
        if watch.lag() > 0 {
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
    let (mut out, Sim { model, process, .. }) = (Fingerprint::default(), sim);
    model.fingerprint(&mut out);
    process.fingerprint(&mut out);
    for (_, watch) in model.watches() {
        watch.fingerprint(&mut process.event_loop, &mut out);
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
