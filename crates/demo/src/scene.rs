//! A scene: steps with a text, an action and an expectation.

use std::ops::RangeInclusive;

use anyhow::Result;
use futures::future::{BoxFuture, FutureExt};
use kube::Resource;
use kube::discovery::ApiResource;

use crate::counts::{Counted, Counts};
use crate::metrics::Metrics;
use crate::stage::{Act, Stage};

/// Shows one controller in a few steps.
pub(crate) struct Scene {
    /// Name of the binary.
    pub(crate) controller: &'static str,
    /// The lesson for a viewer, in one sentence.
    pub(crate) shows: &'static str,
    /// Arguments after `kubectl --kubeconfig PATH` with which a viewer can watch.
    pub(crate) kubectl: &'static str,
    /// The objects to count, and by what; the steps expect these counts.
    pub(crate) counted: Counted,
    /// Kinds of the objects that the scene creates; the demo removes the rest of them at the end.
    pub(crate) makes: Vec<ApiResource>,
    /// A controller starts with the second step of its first scene, so the first step cannot expect metrics.
    pub(crate) steps: Vec<Step>,
}

pub(crate) struct Step {
    /// The action, in a few words.
    pub(crate) title: &'static str,
    /// The expected result, in a sentence.
    pub(crate) says: &'static str,
    pub(crate) act: Act,
    pub(crate) expects: Expectation,
    /// Question to ask the controller afterwards.
    pub(crate) asks: Option<Question>,
    /// The event that the next step waits for may come at any moment, so that step follows without a pause.
    pub(crate) time_runs_on: bool,
}

/// A call of a subcommand of the controller that reads and prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// The subcommand and its arguments.
    pub(crate) args: Vec<&'static str>,
    /// The exit code.
    pub(crate) code: i32,
    /// The beginning of a line of the output.
    pub(crate) line: &'static str,
}

/// Expected result of a step. It holds if all parts hold and the controller is idle.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Expectation {
    counts: Option<Counts>,
    objects: Option<usize>,
    gauges: Vec<(&'static str, u64)>,
    writes: Option<RangeInclusive<u64>>,
}

/// Observations to compare an expectation with.
#[derive(Clone, Debug)]
pub(crate) struct Seen<'a> {
    /// The objects on the API server.
    pub(crate) counts: &'a Counts,
    /// Metrics of the controller; `None` before it runs.
    pub(crate) metrics: Option<&'a Metrics>,
    /// Writes by the controller since the step began.
    pub(crate) writes: u64,
    /// Writes that earlier steps expected and that may still come: an event is late, or another writer was faster.
    pub(crate) owed: u64,
    /// Nobody else writes to this cluster.
    pub(crate) alone: bool,
}

/// State of an expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Holds,
    /// Does not hold yet, with what is missing.
    NotYet(String),
    /// Can no longer hold, with the reason.
    Broken(String),
}

/// The resource of a kind.
pub(crate) fn kind<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

impl Step {
    /// A step without an action: its result comes by itself, or from the start of the controller.
    pub(crate) fn new(title: &'static str) -> Self {
        Self {
            title,
            says: "",
            act: Box::new(|_| async { Ok(()) }.boxed()),
            expects: Expectation::default(),
            asks: None,
            time_runs_on: false,
        }
    }

    /// Sets the text about the expected result.
    pub(crate) fn says(mut self, says: &'static str) -> Self {
        self.says = says;
        self
    }

    /// The next step follows without a pause, as it waits for a time that has begun.
    pub(crate) fn time_runs_on(mut self) -> Self {
        self.time_runs_on = true;
        self
    }

    /// Sets the action.
    pub(crate) fn does(
        mut self,
        act: impl for<'a> Fn(&'a Stage) -> BoxFuture<'a, Result<()>> + Send + Sync + 'static,
    ) -> Self {
        self.act = Box::new(act);
        self
    }

    /// After the expected result, the controller must explain `object` with `line` in the output.
    pub(crate) fn explains(self, object: &'static str, line: &'static str) -> Self {
        self.asks(&["explain", object], 0, line)
    }

    /// After the expected result, disruption-controller must name what blocks the drain of `node`, with `line` in the
    /// output.
    pub(crate) fn names_blockers(self, node: &'static str, line: &'static str) -> Self {
        const BLOCKED: i32 = 3;
        self.asks(&["blockers", "--node", node], BLOCKED, line)
    }

    fn asks(mut self, args: &[&'static str], code: i32, line: &'static str) -> Self {
        let args = args.to_vec();
        self.asks = Some(Question { args, code, line });
        self
    }

    /// Expects exactly these counts.
    pub(crate) fn expects<const N: usize>(mut self, counts: [(usize, &str); N]) -> Self {
        self.expects.counts = Some(counts.into_iter().collect());
        self
    }

    /// Expects this many objects, counted as anything.
    pub(crate) fn expects_objects(mut self, objects: usize) -> Self {
        self.expects.objects = Some(objects);
        self
    }

    /// Expects the metric `name`, or its series `name{label}`, to be `value`, which proves that the controller has seen
    /// the action. Otherwise the absence of writes would prove nothing.
    pub(crate) fn seen_as(mut self, name: &'static str, value: u64) -> Self {
        self.expects.gauges.push((name, value));
        self
    }

    /// Expects this many writes by the controller. On a cluster with other writers there may be fewer, as another
    /// writer may be faster.
    pub(crate) fn writes(mut self, writes: RangeInclusive<u64>) -> Self {
        self.expects.writes = Some(writes);
        self
    }
}

impl Expectation {
    /// Writes of this step and of earlier ones (`owed`) that may still come after `made` writes.
    pub(crate) fn owes(&self, owed: u64, made: u64) -> u64 {
        let most = self.writes.as_ref().map_or(0, |writes| *writes.end());
        owed.saturating_add(most).saturating_sub(made)
    }

    pub(crate) fn judge(&self, seen: &Seen<'_>) -> Verdict {
        let mut missing = Vec::new();
        if let Some(expected) = &self.writes {
            let (made, least, most) = (seen.writes, expected.start(), expected.end());
            if made > most.saturating_add(seen.owed) {
                return Verdict::Broken(format!("the controller made {made} writes, more than {most}"));
            }
            if made < *least && seen.alone {
                missing.push(format!("the controller made {made} writes, fewer than {least}"));
            }
        }
        let (counts, objects) = (seen.counts, seen.counts.total());
        if let Some(expected) = &self.counts
            && expected != counts
        {
            missing.push(format!("the cluster holds {counts}, expected {expected}"));
        }
        if let Some(expected) = self.objects
            && expected != objects
        {
            missing.push(format!(
                "the cluster holds {objects} objects, expected {expected}"
            ));
        }
        let found = |name| seen.metrics.and_then(|metrics| metrics.whole(name));
        for (name, expected) in &self.gauges {
            match found(name) {
                Some(value) if value == *expected => {}
                Some(value) => {
                    missing.push(format!("the controller's {name} is {value}, expected {expected}"));
                }
                None => missing.push(format!("the controller has no {name}, expected {expected}")),
            }
        }
        if seen.metrics.is_some_and(|metrics| !metrics.reading().idle()) {
            missing.push("the controller is still at work".to_owned());
        }
        if missing.is_empty() {
            Verdict::Holds
        } else {
            Verdict::NotYet(missing.join("; "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: &str = "workqueue_depth{name=\"x\"} 0\nnodes 95\n";
    const BUSY: &str = "workqueue_depth{name=\"x\"} 2\nnodes 120\n";

    fn judged(step: &Step, counts: &[(usize, &str)], metrics: &str, writes: u64, alone: bool) -> Verdict {
        step.expects.judge(&Seen {
            counts: &counts.iter().copied().collect(),
            metrics: Some(&metrics.parse().unwrap()),
            writes,
            owed: 0,
            alone,
        })
    }

    fn step(writes: RangeInclusive<u64>) -> Step {
        Step::new("")
            .expects([(95, "15 s")])
            .seen_as("nodes", 95)
            .writes(writes)
    }

    #[test]
    fn an_expectation_holds_when_all_of_it_does() {
        let counts = [(95, "15 s")];
        assert_eq!(judged(&step(0..=0), &counts, IDLE, 0, true), Verdict::Holds);
        assert_eq!(judged(&Step::new(""), &[], IDLE, 7, true), Verdict::Holds);
    }

    #[test]
    fn all_that_is_missing_is_named() {
        assert_eq!(
            judged(&step(0..=0), &[(100, "15 s"), (20, "none")], BUSY, 0, true),
            Verdict::NotYet(
                "the cluster holds 20 × none, 100 × 15 s, expected 95 × 15 s; \
                 the controller's nodes is 120, expected 95; the controller is still at work"
                    .to_owned()
            )
        );
        let step = Step::new("").expects_objects(3).seen_as("pods", 3);
        assert_eq!(
            judged(&step, &[(2, "a")], IDLE, 0, true),
            Verdict::NotYet(
                "the cluster holds 2 objects, expected 3; the controller has no pods, expected 3".to_owned()
            )
        );
    }

    #[test]
    fn a_write_too_many_cannot_be_mended_by_waiting() {
        assert_eq!(
            judged(&step(0..=0), &[(95, "15 s")], IDLE, 1, true),
            Verdict::Broken("the controller made 1 writes, more than 0".to_owned())
        );
    }

    #[test]
    fn what_an_earlier_step_owes_may_come_late() {
        let event_is_late = step(5..=5).expects.owes(0, 2);
        assert_eq!(event_is_late, 3);
        let judged = |writes| {
            step(0..=0).expects.judge(&Seen {
                counts: &[(95, "15 s")].into_iter().collect(),
                metrics: Some(&IDLE.parse().unwrap()),
                writes,
                owed: event_is_late,
                alone: false,
            })
        };
        assert_eq!(judged(3), Verdict::Holds);
        assert_eq!(
            judged(4),
            Verdict::Broken("the controller made 4 writes, more than 0".to_owned())
        );
        assert_eq!(step(0..=0).expects.owes(event_is_late, 3), 0);
        // It holds after one write, and the other may be counted in the next step.
        assert_eq!(step(1..=2).expects.owes(0, 1), 1);
    }

    #[test]
    fn another_writer_may_spare_the_controller_a_write() {
        let counts = [(95, "15 s")];
        assert_eq!(
            judged(&step(1..=1), &counts, IDLE, 0, true),
            Verdict::NotYet("the controller made 0 writes, fewer than 1".to_owned())
        );
        assert_eq!(judged(&step(1..=1), &counts, IDLE, 0, false), Verdict::Holds);
    }
}
