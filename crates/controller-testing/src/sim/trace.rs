//! What a test asks of an exploration, and the steps of a run, as a person reads them.

use std::fmt::{self, Display};

use controller_core::controller::{Controller, RequestOf, Write};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::bounds::Bounds;
use super::explore::{Explored, SETTLES_ONE_IN, attempt, explore};
use super::model::{Model, Op, StepOf, runs};
use super::run::{Sim, run_among};

/// A run that breaks a property: no shorter one does.
#[derive(Debug)]
pub(super) struct Violation {
    pub steps: Vec<String>,
    pub message: String,
}

/// Fails with the shortest run within `bounds` that breaks a property, if there is one; otherwise prints what was
/// explored.
pub fn assert_sound<M: Explored>(model: &M, bounds: Bounds)
where
    <M::Controller as Controller>::Stores: Clone,
    Sim<M>: Send,
{
    for bounds in bounds.each() {
        let report = explore(
            model.clone(),
            bounds,
            SETTLES_ONE_IN << (3 * (bounds.processes - 1)),
        )
        .unwrap_or_else(|found| panic!("{found}"));
        println!("{report}");
    }
}

/// Fails unless the shortest run that breaks a property has `steps` steps, and `what` in its message.
pub fn assert_found<M: Explored>(model: M, bounds: Bounds, steps: usize, what: &str)
where
    <M::Controller as Controller>::Stores: Clone,
    Sim<M>: Send,
{
    let found = explore(model, bounds, 1).unwrap_err();
    println!("{found}");
    assert!(found.message.contains(what), "{found}");
    assert_eq!(found.steps.len(), steps, "{found}");
}

/// Fails unless one of a thousand drawn runs breaks a property, with `what` in its message.
pub fn assert_drawn<M: Model + Clone>(model: &M, action: impl Strategy<Value = M::Act> + 'static, what: &str)
where
    M::Act: 'static,
{
    let (runs, mut runner) = (runs(action), TestRunner::deterministic());
    let found = (0..1_000).find_map(|_| {
        let (roles, steps) = runs.new_tree(&mut runner).unwrap().current();
        let broken = attempt(|| run_among(model.clone(), &roles, &steps)).err()?;
        broken.contains(what).then(|| format!("{roles:?}: {broken}"))
    });
    let found = found.unwrap_or_else(|| panic!("no run breaks a property"));
    println!("{found}");
}

impl Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.steps.iter().enumerate() {
            writeln!(f, "{:2}. {step}", number + 1)?;
        }
        write!(f, "    {}", self.message)
    }
}

impl Violation {
    /// The run of `ops` from `sim`, which ends with `message`.
    pub(super) fn of<M: Model>(mut sim: Sim<M>, ops: &[StepOf<M::Act>], message: String) -> Self {
        let (last, before) = ops
            .split_last()
            .map_or((None, ops), |(last, before)| (Some(last), before));
        let mut steps = Vec::new();
        for step in before {
            steps.push(describe(&mut sim, step));
            sim.step_by(step.0, &step.1);
        }
        steps.extend(last.map(|last| describe(&mut sim, last)));
        Self { steps, message }
    }
}

fn describe<M: Model>(sim: &mut Sim<M>, (by, op): &StepOf<M::Act>) -> String {
    sim.switch_to(*by);
    let of_one = !sim.others.is_empty() && !matches!(op, Op::Act(_) | Op::Pass(_));
    let says = describe_step(sim, op);
    if of_one {
        format!("process {}: {says}", by + 1)
    } else {
        says
    }
}

fn describe_step<M: Model>(sim: &mut Sim<M>, op: &Op<M::Act>) -> String {
    let request = |which: usize| match &sim.process.in_flight[which % sim.process.in_flight.len()].ask {
        RequestOf::Query(query) => format!("{query:?}"),
        RequestOf::Write(write) => format!("{}: {}", write.object().key, write.describe().text),
    };
    match op {
        Op::Act(act) => format!("somebody else: {act:?}"),
        Op::Arrive(which) => format!("arrives: {}", request(*which)),
        Op::Answer(which) => format!("answered: {}", request(*which)),
        Op::Lose(which, failure) => format!("the answer is lost ({failure:?}): {}", request(*which)),
        Op::Refuse(which, failure) => format!("refused ({failure:?}): {}", request(*which)),
        Op::Hang(which) => format!("hangs: {}", request(*which)),
        Op::Deliver(which) => format!("the watch shows {}", sim.model.watches()[*which].0),
        Op::BeginList(which) => format!("the watch breaks: {}", sim.model.watches()[*which].0),
        Op::Pass(time) => format!("{time:?} pass"),
        Op::Clock(ahead) => format!("the clock is {ahead} s ahead"),
        Op::Lead(true) => "the term begins".to_owned(),
        Op::Lead(false) => "the term ends".to_owned(),
        Op::Resync => "an hour of the term is over".to_owned(),
        Op::Crash => "the process dies and another starts".to_owned(),
    }
}
