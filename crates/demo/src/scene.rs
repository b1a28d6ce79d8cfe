//! What a scene is: steps that say what they do, do it, and expect something of it.

use std::ops::RangeInclusive;

use anyhow::Result;
use futures::future::{BoxFuture, FutureExt};
use kube::Resource;
use kube::discovery::ApiResource;

use crate::counts::{Counted, Counts};
use crate::metrics::Metrics;
use crate::stage::{Act, Stage};

/// One controller, shown in a few steps.
pub(crate) struct Scene {
    /// The name of its binary.
    pub(crate) controller: &'static str,
    /// What a viewer learns, in one sentence.
    pub(crate) shows: &'static str,
    /// What a viewer can type after `kubectl --kubeconfig PATH` to look at it.
    pub(crate) kubectl: &'static str,
    /// Which objects are counted, by what; the steps' expectations are about these counts.
    pub(crate) counted: Counted,
    /// The kinds of the objects that it makes: what is left of them is removed in the end.
    pub(crate) makes: Vec<ApiResource>,
    /// The controller is started at the beginning of the second: the first can expect nothing of its metrics.
    pub(crate) steps: Vec<Step>,
}

pub(crate) struct Step {
    /// What is done, in a few words.
    pub(crate) title: &'static str,
    /// What should come of it, in a sentence.
    pub(crate) says: &'static str,
    pub(crate) act: Act,
    pub(crate) expects: Expectation,
    /// What the controller is asked to explain then.
    pub(crate) explains: Option<Explains>,
    /// What the next step waits for may come at any moment: it follows without time to read.
    pub(crate) time_runs_on: bool,
}

/// A question to the controller's subcommand `explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Explains {
    /// The object, as the subcommand takes it.
    pub(crate) object: &'static str,
    /// A line of the answer.
    pub(crate) line: &'static str,
}

/// What should come of a step. It holds when all of it does, and the controller has nothing left to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Expectation {
    counts: Option<Counts>,
    objects: Option<usize>,
    gauges: Vec<(&'static str, u64)>,
    writes: Option<RangeInclusive<u64>>,
}

/// What an expectation is compared with.
#[derive(Clone, Debug)]
pub(crate) struct Seen<'a> {
    /// What the API server holds.
    pub(crate) counts: &'a Counts,
    /// The controller's metrics; none before it runs.
    pub(crate) metrics: Option<&'a Metrics>,
    /// How many writes the controller made since the step began.
    pub(crate) writes: u64,
    /// How many writes that earlier steps expected may still come: an event is late, or another writer was faster.
    pub(crate) owed: u64,
    /// Whether nobody else writes to this cluster.
    pub(crate) alone: bool,
}

/// Whether an expectation holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Holds,
    /// Not yet: what is missing.
    NotYet(String),
    /// It never will: why.
    Broken(String),
}

/// A kind of objects.
pub(crate) fn kind<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

impl Step {
    /// A step that does nothing: what it expects comes of itself, or of the controller's start.
    pub(crate) fn new(title: &'static str) -> Self {
        Self {
            title,
            says: "",
            act: Box::new(|_| async { Ok(()) }.boxed()),
            expects: Expectation::default(),
            explains: None,
            time_runs_on: false,
        }
    }

    /// What is told of it.
    pub(crate) fn says(mut self, says: &'static str) -> Self {
        self.says = says;
        self
    }

    /// The next step follows at once, for it waits for a time that has begun to run.
    pub(crate) fn time_runs_on(mut self) -> Self {
        self.time_runs_on = true;
        self
    }

    /// What is done.
    pub(crate) fn does(
        mut self,
        act: impl for<'a> Fn(&'a Stage) -> BoxFuture<'a, Result<()>> + Send + Sync + 'static,
    ) -> Self {
        self.act = Box::new(act);
        self
    }

    /// Once all is as expected, the controller is asked to explain `object`; `line` is a line of its answer.
    pub(crate) fn explains(mut self, object: &'static str, line: &'static str) -> Self {
        self.explains = Some(Explains { object, line });
        self
    }

    /// Expects exactly these objects, by what they are counted by.
    pub(crate) fn expects<const N: usize>(mut self, counts: [(usize, &str); N]) -> Self {
        self.expects.counts = Some(counts.into_iter().collect());
        self
    }

    /// Expects this many objects, whatever they carry.
    pub(crate) fn expects_objects(mut self, objects: usize) -> Self {
        self.expects.objects = Some(objects);
        self
    }

    /// Expects that the controller shows `value` as the metric `name`, or as its series `name{label}`: it has seen what was done. Without this,
    /// that nothing was written would prove nothing.
    pub(crate) fn seen_as(mut self, name: &'static str, value: u64) -> Self {
        self.expects.gauges.push((name, value));
        self
    }

    /// Expects so many writes from the controller. On a cluster that is not the demo's alone another writer may
    /// be faster, so there they may be fewer.
    pub(crate) fn writes(mut self, writes: RangeInclusive<u64>) -> Self {
        self.expects.writes = Some(writes);
        self
    }
}

impl Expectation {
    /// How many of the writes of this step and `owed` by earlier ones are still to come, once it has made so many.
    pub(crate) fn owes(&self, owed: u64, made: u64) -> u64 {
        let least = self.writes.as_ref().map_or(0, |writes| *writes.start());
        owed.saturating_add(least).saturating_sub(made)
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
