//! Draws what happens to a few pods, their templates and their claims.

use std::fmt;
use std::time::Duration;

use testkit::history::{At, Draw};

pub(super) const TEMPLATES: usize = 3;
pub(super) const SHARED: usize = 2;
/// Entries of a pod.
const ENTRIES: [usize; 6] = [1, 1, 2, 2, 2, 5];

/// A step of the cluster; templates, shared claims and pods by number.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// A template comes, in the place of the one that has its number, and asks for so many devices.
    Template { template: usize, devices: usize },
    /// A template goes.
    DeleteTemplate(usize),
    /// A user makes a claim, unless it is there.
    Shared(usize),
    /// A user deletes a claim of a user.
    DeleteShared(usize),
    /// A pod comes; the one that has its number is force-deleted.
    Pod { pod: usize, made: Made },
    /// There is room for a pod.
    Schedule { pod: usize, pace: Pace },
    /// The scheduler dies and comes back.
    SchedulerDies,
    /// The containers of a pod end.
    Finish(usize),
    /// A pod is deleted, and has so long to end.
    Delete { pod: usize, grace: Duration },
    /// A pod goes at once.
    ForceDelete(usize),
    /// A user deletes the claim of an entry of a pod.
    DeleteClaim { pod: usize, entry: usize },
    /// The garbage collector looks.
    CollectGarbage,
}

/// How a pod is made.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) entries: Vec<Source>,
    /// Whether it asks for an extended resource.
    pub(super) extended: bool,
    /// Whether a user's claim has the name that its first claim would have.
    pub(super) name_is_taken: bool,
}

/// Where the claim of an entry comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Template(usize),
    Shared(usize),
}

/// How the scheduler goes about a pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Between two of its writes.
    pub(super) pause: Duration,
    /// Whether it takes the claim for extended resources back at first.
    pub(super) fails_once: bool,
}

/// The steps of a history that lasts `length`, in order.
pub(super) fn drawn(draw: &mut Draw, length: Duration) -> Vec<At<Action>> {
    let pods = draw.number(3..6);
    let mut steps = vec![At::seconds(0, Action::Shared(0))];
    for template in 0..TEMPLATES {
        let what = Action::Template { template, devices: 1 };
        let late = draw.chance(20);
        let time = if late {
            draw.time(Duration::ZERO..length)
        } else {
            Duration::ZERO
        };
        steps.push(At { time, what });
    }
    if draw.chance(50) {
        steps.push(At::seconds(0, Action::Shared(1)));
    }
    for pod in 0..pods {
        let time = if draw.chance(50) {
            Duration::ZERO
        } else {
            draw.time(Duration::ZERO..length / 2)
        };
        comes(draw, &mut steps, pod, time);
    }
    for _ in 0..draw.number(6..18) {
        let time = draw.time(Duration::from_secs(1)..length);
        let pod = draw.number(0..pods);
        if draw.chance(20) {
            comes(draw, &mut steps, pod, time);
        } else {
            let what = drawn_step(draw, pod);
            steps.push(At { time, what });
        }
    }
    steps.sort_by_key(|step| step.time);
    steps
}

/// A pod comes, and mostly there is room for it before long.
fn comes(draw: &mut Draw, steps: &mut Vec<At<Action>>, pod: usize, time: Duration) {
    let what = Action::Pod {
        pod,
        made: drawn_pod(draw),
    };
    steps.push(At { time, what });
    if draw.chance(80) {
        let time = time + draw.time(Duration::ZERO..Duration::from_secs(8));
        let pace = drawn_pace(draw);
        let what = Action::Schedule { pod, pace };
        steps.push(At { time, what });
    }
}

fn drawn_step(draw: &mut Draw, pod: usize) -> Action {
    match draw.number(0..30) {
        0..8 => Action::Finish(pod),
        8..11 => Action::Delete {
            pod,
            grace: draw.time(Duration::from_secs(1)..Duration::from_secs(20)),
        },
        11..13 => Action::ForceDelete(pod),
        13..18 => Action::DeleteClaim {
            pod,
            entry: draw.number(0..5),
        },
        18..20 => Action::Schedule {
            pod,
            pace: drawn_pace(draw),
        },
        20..22 => Action::SchedulerDies,
        22 => Action::DeleteShared(draw.number(0..SHARED)),
        23..25 => Action::Shared(draw.number(0..SHARED)),
        25..27 => Action::Template {
            template: draw.number(0..TEMPLATES),
            devices: draw.number(1..4),
        },
        27 => Action::DeleteTemplate(draw.number(0..TEMPLATES)),
        _ => Action::CollectGarbage,
    }
}

fn drawn_pod(draw: &mut Draw) -> Made {
    let entries = (0..draw.pick(&ENTRIES)).map(|_| {
        if draw.chance(65) {
            Source::Template(draw.number(0..TEMPLATES))
        } else {
            Source::Shared(draw.pick(&[0, 0, 1]))
        }
    });
    let entries: Vec<_> = entries.collect();
    let extended = draw.chance(20);
    Made {
        // A pod may ask for extended resources alone.
        entries: if extended && draw.chance(60) {
            Vec::new()
        } else {
            entries
        },
        extended,
        name_is_taken: draw.chance(10),
    }
}

fn drawn_pace(draw: &mut Draw) -> Pace {
    Pace {
        pause: draw.pick(&[
            Duration::ZERO,
            Duration::from_millis(3),
            Duration::from_millis(60),
            Duration::from_secs(2),
        ]),
        fails_once: draw.chance(40),
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Template { template, devices } => {
                write!(f, "template {template} comes anew and asks for {devices} devices")
            }
            Self::DeleteTemplate(template) => write!(f, "template {template} is deleted"),
            Self::Shared(shared) => write!(f, "a user makes the claim shared-{shared}"),
            Self::DeleteShared(shared) => write!(f, "a user deletes the claim shared-{shared}"),
            Self::Pod { pod, made } => {
                write!(f, "pod {pod} comes anew, with {made}")
            }
            Self::Schedule { pod, pace } => {
                let fails = if pace.fails_once {
                    ", which fails at first"
                } else {
                    ""
                };
                write!(
                    f,
                    "there is room for pod {pod}{fails}; {:?} between writes",
                    pace.pause
                )
            }
            Self::SchedulerDies => f.write_str("the scheduler dies and comes back"),
            Self::Finish(pod) => write!(f, "pod {pod} ends"),
            Self::Delete { pod, grace } => write!(f, "pod {pod} is deleted, and ends in {grace:?}"),
            Self::ForceDelete(pod) => write!(f, "pod {pod} is force-deleted"),
            Self::DeleteClaim { pod, entry } => {
                write!(f, "a user deletes the claim of entry {entry} of pod {pod}")
            }
            Self::CollectGarbage => f.write_str("the garbage collector looks"),
        }
    }
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.entries.iter().map(ToString::to_string);
        let extended = self.extended.then(|| "an extended resource".to_owned());
        let asks: Vec<_> = entries.chain(extended).collect();
        write!(f, "{}", asks.join(", "))?;
        if self.name_is_taken {
            f.write_str("; a user's claim has the name of its first")?;
        }
        Ok(())
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Template(template) => write!(f, "template {template}"),
            Self::Shared(shared) => write!(f, "shared-{shared}"),
        }
    }
}
