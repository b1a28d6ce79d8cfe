//! Histories: steps and troubles, each at its time.

use std::fmt;
use std::time::Duration;

use super::Suite;
use super::draw::Draw;
use super::drawn_fault::DrawnFault;

/// How many troubles a history has at most.
const MOST_FAULTS: usize = 7;

const SHORTLY: Duration = Duration::from_secs(5);

/// Something at a time of virtual time since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At<T> {
    /// When.
    pub time: Duration,
    /// What.
    pub what: T,
}

/// What happens and what goes wrong.
#[derive(Clone, Debug)]
pub struct History<A> {
    /// The number it was drawn from.
    pub seed: u64,
    /// How many processes the controller has.
    pub replicas: usize,
    /// The steps of the world, in order.
    pub actions: Vec<At<A>>,
    /// What goes wrong, in order.
    pub faults: Vec<At<DrawnFault>>,
}

impl<T> At<T> {
    /// `what` so many seconds after the start.
    pub fn seconds(seconds: u64, what: T) -> Self {
        Self {
            time: Duration::from_secs(seconds),
            what,
        }
    }
}

impl<A: Clone> History<A> {
    /// Draws a history. The steps do not depend on how the troubles are drawn, nor the other way round.
    pub(super) fn draw<S: Suite<Action = A>>(suite: &S, seed: u64) -> Self {
        let actions = suite.actions(&mut Draw::new(seed, 0));
        let mut draw = Draw::new(seed, 1);
        let replicas = draw.number(1..3);
        let mut faults: Vec<_> = (0..draw.number(1..MOST_FAULTS + 1))
            .map(|_| At {
                time: moment::<S>(&mut draw, &actions),
                what: DrawnFault::draw(&mut draw, S::RESOURCES, replicas),
            })
            .collect();
        faults.sort_by_key(|fault| fault.time);
        Self {
            seed,
            replicas,
            actions,
            faults,
        }
    }

    /// The same world, and nothing goes wrong: one replica is enough.
    pub(super) fn without_faults(&self) -> Self {
        Self {
            replicas: 1,
            ..self.with_faults(&[])
        }
    }

    /// Whether its processes must be elected: one that nothing can stop need not be, which halves its requests.
    pub(super) fn has_election(&self) -> bool {
        self.replicas > 1 || !self.faults.is_empty()
    }

    /// Without what comes later.
    pub(super) fn until(mut self, time: Duration) -> Self {
        self.actions.retain(|action| action.time <= time);
        self.faults.retain(|fault| fault.time <= time);
        self
    }

    /// With the first replica alone, if there are others and no trouble is about them.
    pub(super) fn with_one_replica(&self) -> Option<Self> {
        let is_about_others =
            |fault: &At<DrawnFault>| fault.what.replica().is_some_and(|replica| replica > 1);
        let may = self.replicas > 1 && !self.faults.iter().any(is_about_others);
        may.then(|| Self {
            replicas: 1,
            ..self.clone()
        })
    }

    /// With only the troubles of these places in the list.
    pub(super) fn with_faults(&self, kept: &[usize]) -> Self {
        Self {
            faults: at(&self.faults, kept),
            ..self.clone()
        }
    }

    /// With only the steps of these places in the list.
    pub(super) fn with_actions(&self, kept: &[usize]) -> Self {
        Self {
            actions: at(&self.actions, kept),
            ..self.clone()
        }
    }
}

impl<A: fmt::Display> History<A> {
    /// One line each, in the order of their times.
    pub(super) fn lines(&self) -> Vec<String> {
        let steps = self.actions.iter().map(|step| (step.time, 0, step.to_string()));
        let faults = self.faults.iter().map(|fault| {
            let time = fault.time;
            (
                time,
                1,
                format!("{:>9.3} s  FAULT: {}", time.as_secs_f64(), fault.what),
            )
        });
        let mut lines: Vec<_> = steps.chain(faults).collect();
        lines.sort_by_key(|(time, kind, _)| (*time, *kind));
        lines.into_iter().map(|(_, _, line)| line).collect()
    }
}

impl<T: fmt::Display> fmt::Display for At<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9.3} s  {}", self.time.as_secs_f64(), self.what)
    }
}

/// Half of the troubles come shortly before a step: then they do harm.
fn moment<S: Suite>(draw: &mut Draw, actions: &[At<S::Action>]) -> Duration {
    if actions.is_empty() || draw.chance(50) {
        return draw.time(Duration::ZERO..S::LENGTH);
    }
    let step = actions[draw.number(0..actions.len())].time;
    step.saturating_sub(draw.time(Duration::ZERO..SHORTLY))
}

fn at<T: Clone>(list: &[T], places: &[usize]) -> Vec<T> {
    places
        .iter()
        .filter_map(|place| list.get(*place).cloned())
        .collect()
}
