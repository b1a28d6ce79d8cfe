//! Histories: steps and faults, each at its time.

use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;

use super::Suite;
use super::draw::Draw;
use super::drawn_fault::DrawnFault;
use super::kind::FaultKind;

/// Most faults in a history.
const MOST_FAULTS: usize = 7;

const SHORTLY: Duration = Duration::from_secs(5);

/// Something with its virtual time since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At<T> {
    /// Time since the start.
    pub time: Duration,
    /// The thing that happens then.
    pub what: T,
}

/// The steps and faults of a run.
#[derive(Clone, Debug)]
pub struct History<A> {
    /// The seed that the history was drawn from.
    pub seed: u64,
    /// Number of the controller's processes.
    pub replicas: usize,
    /// The steps of the world, in order.
    pub actions: Vec<At<A>>,
    /// The faults, in order.
    pub faults: Vec<At<DrawnFault>>,
}

impl<T> At<T> {
    /// `what` at this many seconds after the start.
    pub fn seconds(seconds: u64, what: T) -> Self {
        Self::millis(1_000 * seconds, what)
    }

    /// `what` at this many milliseconds after the start.
    pub fn millis(milliseconds: u64, what: T) -> Self {
        Self {
            time: Duration::from_millis(milliseconds),
            what,
        }
    }
}

impl<A: Clone> History<A> {
    /// Draws the steps of a seed, without faults.
    pub(super) fn drawn_steps<S: Suite<Action = A>>(suite: &S, seed: u64) -> Self {
        Self {
            seed,
            replicas: 1,
            actions: suite.actions(&mut Draw::new(seed, 0)),
            faults: Vec::new(),
        }
    }

    /// The same steps with faults, of one kind `only` if there is one: draw number `attempt` of the seed. Steps and
    /// faults are drawn independently of each other.
    pub(super) fn with_drawn_faults<S: Suite<Action = A>>(
        &self,
        attempt: u64,
        only: Option<FaultKind>,
    ) -> Self {
        let mut draw = Draw::new(self.seed, 1 + attempt);
        let replicas = draw.number(1..3);
        let mut kinds = vec![FaultKind::in_turn::<S>(self.seed)];
        kinds.extend((1..draw.number(1..MOST_FAULTS + 1)).map(|_| FaultKind::draw::<S>(&mut draw)));
        if let Some(only) = only {
            kinds.fill(only);
        }
        let mut faults: Vec<_> = kinds
            .into_iter()
            .enumerate()
            .map(|(place, kind)| {
                let time = moment::<S>(&mut draw, &self.actions);
                // The kind whose turn it is comes early, so that something is left to meet it.
                let time = if place == 0 { time / 2 } else { time };
                let what = kind.fault::<S>(&mut draw, replicas);
                At { time, what }
            })
            .collect();
        // Nobody can tell the time by two clocks that are fast, or by two that are slow.
        let ahead = |fault: &At<DrawnFault>| match fault.what {
            DrawnFault::OtherClock { ahead, .. } | DrawnFault::ClockJumps { ahead, .. } => Some(ahead),
            _ => None,
        };
        let ahead: Vec<_> = faults.iter().filter_map(ahead).collect();
        let is_fast = ahead.iter().any(SignedDuration::is_positive);
        let is_slow = ahead.iter().any(SignedDuration::is_negative);
        for fault in &mut faults {
            if let DrawnFault::WrongClock { seconds } = &mut fault.what {
                *seconds = match (is_fast, is_slow) {
                    (false, false) => *seconds,
                    (true, false) => -seconds.abs(),
                    (false, true) => seconds.abs(),
                    // Within what counts as right.
                    (true, true) => -1,
                };
            }
        }
        faults.sort_by_key(|fault| fault.time);
        Self {
            replicas,
            faults,
            ..self.clone()
        }
    }

    /// The same steps without faults; one replica suffices.
    pub(super) fn without_faults(&self) -> Self {
        Self {
            replicas: 1,
            ..self.with_faults(&[])
        }
    }

    /// True if its processes take part in an election: without faults one process needs none, which halves its
    /// requests.
    pub(super) fn has_election(&self) -> bool {
        self.replicas > 1 || !self.faults.is_empty()
    }

    /// The time after the last fault by which everything must have settled. A rival has its peace for up to an hour
    /// (CORE-17), and a clock that jumps back by an hour makes timers as late.
    pub(super) fn settles_within<S: Suite>(&self) -> Duration {
        let takes_long = |fault: &At<DrawnFault>| {
            matches!(fault.what, DrawnFault::Rival(_) | DrawnFault::ClockJumps { .. })
        };
        if self.faults.iter().any(takes_long) {
            S::SETTLES_WITHIN + Duration::from_hours(1)
        } else {
            S::SETTLES_WITHIN
        }
    }

    /// The history up to `time`.
    pub(super) fn until(mut self, time: Duration) -> Self {
        self.actions.retain(|action| action.time <= time);
        self.faults.retain(|fault| fault.time <= time);
        self
    }

    /// The history with the first replica alone, if there are others and no fault concerns them.
    pub(super) fn with_one_replica(&self) -> Option<Self> {
        let is_about_others =
            |fault: &At<DrawnFault>| fault.what.replica().is_some_and(|replica| replica > 1);
        let may = self.replicas > 1 && !self.faults.iter().any(is_about_others);
        may.then(|| Self {
            replicas: 1,
            ..self.clone()
        })
    }

    /// The history with only the faults at these places.
    pub(super) fn with_faults(&self, kept: &[usize]) -> Self {
        Self {
            faults: at(&self.faults, kept),
            ..self.clone()
        }
    }

    /// The history with only the steps at these places.
    pub(super) fn with_actions(&self, kept: &[usize]) -> Self {
        Self {
            actions: at(&self.actions, kept),
            ..self.clone()
        }
    }
}

impl<A: fmt::Display> History<A> {
    /// One line per step or fault, in the order of their times.
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

/// Draws the time of a fault. Half the faults come shortly before a step, when they do harm.
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
