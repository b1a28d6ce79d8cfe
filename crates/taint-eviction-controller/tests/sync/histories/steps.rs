//! Draws what happens to a few nodes and their pods.

use std::fmt;
use std::time::Duration;

use testkit::history::{At, Draw};

use super::ledger::{FAILED, Toleration};

const NODE_COUNT: usize = 3;
const KEYS: [&str; 4] = ["k", "other", FAILED[0], FAILED[1]];

/// A step of the cluster; nodes and pods by number.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// A node comes, unless it is there.
    AddNode(usize),
    /// A node goes, its pods stay behind.
    DeleteNode(usize),
    /// A pod is bound to a node, in the place of the one that has its number.
    Bind {
        pod: usize,
        node: usize,
        tolerations: Vec<Toleration>,
        /// So many seconds ago.
        ago: i64,
    },
    /// The tolerations of a pod are changed.
    Tolerate { pod: usize, edit: Edit },
    /// Somebody deletes a pod.
    DeletePod(usize),
    /// A taint comes, with a `timeAdded` of so many seconds ago or without.
    Taint {
        node: usize,
        key: &'static str,
        ago: Option<i64>,
    },
    /// A taint goes.
    Untaint { node: usize, key: &'static str },
    /// `not-ready` becomes `unreachable`, or the other way round, where there is one of them.
    Swap(usize),
}

/// What an API server lets a client do to the tolerations of a pod: new ones come, and old ones last for another
/// time. Source: `validateOnlyAddedTolerations` in `k8s.io/kubernetes/pkg/apis/core/validation`.
#[derive(Clone, Debug)]
pub(super) enum Edit {
    /// Another one comes, before the others or after them.
    Add { toleration: Toleration, first: bool },
    /// One of them, counted round and round, lasts for so many seconds, or for ever.
    Last { place: usize, seconds: Option<i64> },
}

/// The steps of a history that lasts `length`, in order.
pub(super) fn drawn(draw: &mut Draw, length: Duration) -> Vec<At<Action>> {
    let pods = draw.number(4..12);
    let mut actions: Vec<_> = (0..NODE_COUNT)
        .map(|node| At::seconds(0, Action::AddNode(node)))
        .collect();
    for node in 0..NODE_COUNT {
        if draw.chance(25) {
            actions.push(At::seconds(0, drawn_taint(draw, node, 60)));
        }
    }
    actions.extend((0..pods).map(|pod| At::seconds(0, drawn_pod(draw, pod, 100))));
    // Deadlines fall on whole seconds, or on whole seconds after a step that begins something. Where what ends
    // something may fall on them, too, either may be first.
    let close = draw.chance(20);
    let mut steps: Vec<_> = (0..draw.number(4..20))
        .map(|_| {
            let what = drawn_step(draw, pods);
            let time = draw.time(Duration::from_secs(1)..length);
            let apart = Duration::from_millis(if what.begins() { 200 } else { 600 });
            let time = if close {
                time
            } else {
                Duration::from_secs(time.as_secs()) + apart
            };
            At { time, what }
        })
        .collect();
    steps.sort_by_key(|step| step.time);
    actions.extend(steps);
    actions
}

impl Action {
    /// Whether a toleration may begin to run with it.
    fn begins(&self) -> bool {
        matches!(self, Self::AddNode(_) | Self::Bind { .. } | Self::Taint { .. })
    }
}

impl Edit {
    /// Changes what a pod tolerates.
    pub(super) fn apply(&self, tolerations: &mut Vec<Toleration>) {
        match self {
            Self::Add {
                toleration,
                first: true,
            } => tolerations.insert(0, toleration.clone()),
            Self::Add {
                toleration,
                first: false,
            } => tolerations.push(toleration.clone()),
            Self::Last { .. } if tolerations.is_empty() => {}
            Self::Last { place, seconds } => {
                let place = place % tolerations.len();
                tolerations[place].seconds = *seconds;
            }
        }
    }
}

fn drawn_step(draw: &mut Draw, pods: usize) -> Action {
    let node = draw.number(0..NODE_COUNT);
    match draw.number(0..24) {
        0..8 => drawn_taint(draw, node, 30),
        8..13 => Action::Untaint {
            node,
            key: draw.pick(&KEYS),
        },
        13..15 => Action::Swap(node),
        15..17 => {
            let pod = draw.number(0..pods);
            drawn_pod(draw, pod, 1)
        }
        17 => Action::DeletePod(draw.number(0..pods)),
        18 => Action::DeleteNode(node),
        19 => Action::AddNode(node),
        _ => Action::Tolerate {
            pod: draw.number(0..pods),
            edit: drawn_edit(draw),
        },
    }
}

fn drawn_taint(draw: &mut Draw, node: usize, longest_ago: usize) -> Action {
    let ago = i64::try_from(draw.number(0..longest_ago)).unwrap();
    Action::Taint {
        node,
        key: draw.pick(&KEYS),
        ago: draw.pick(&[None, Some(0), Some(0), Some(ago), Some(-ago)]),
    }
}

fn drawn_pod(draw: &mut Draw, pod: usize, longest_ago: usize) -> Action {
    let exists = |key: Option<&str>, seconds| Toleration {
        key: key.map(str::to_owned),
        seconds,
    };
    let seconds = |draw: &mut Draw| Some(draw.pick(&[0, 3, 10, 20, 45, 70]));
    let tolerations = match draw.number(0..8) {
        0 => Vec::new(),
        1 => vec![exists(None, None)],
        2..4 => vec![exists(None, seconds(draw))],
        4..6 => FAILED.map(|key| exists(Some(key), seconds(draw))).to_vec(),
        6 => vec![exists(Some("k"), None), exists(None, seconds(draw))],
        _ => vec![exists(Some("k"), seconds(draw)), exists(None, None)],
    };
    Action::Bind {
        pod,
        node: draw.number(0..NODE_COUNT),
        tolerations,
        ago: i64::try_from(draw.number(0..longest_ago)).unwrap(),
    }
}

fn drawn_edit(draw: &mut Draw) -> Edit {
    let seconds = draw.pick(&[None, Some(0), Some(3), Some(10), Some(20), Some(45), Some(70)]);
    if draw.chance(50) {
        return Edit::Last {
            place: draw.number(0..2),
            seconds,
        };
    }
    let key = draw.pick(&[
        None,
        Some(KEYS[0]),
        Some(KEYS[1]),
        Some(FAILED[0]),
        Some(FAILED[1]),
    ]);
    Edit::Add {
        toleration: Toleration {
            key: key.map(str::to_owned),
            seconds,
        },
        first: draw.chance(50),
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddNode(node) => write!(f, "node {node} comes, if it is not there"),
            Self::DeleteNode(node) => write!(f, "node {node} is deleted"),
            Self::Bind {
                pod,
                node,
                tolerations,
                ago,
            } => {
                write!(
                    f,
                    "pod {pod} is bound anew to node {node}, as if {ago} s ago; it tolerates"
                )?;
                if tolerations.is_empty() {
                    f.write_str(" nothing")?;
                }
                tolerations
                    .iter()
                    .try_for_each(|toleration| write!(f, " [{toleration}]"))
            }
            Self::Tolerate { pod, edit } => write!(f, "pod {pod}, if it is there, {edit}"),
            Self::DeletePod(pod) => write!(f, "somebody deletes pod {pod}"),
            Self::Taint { node, key, ago } => {
                write!(f, "node {node} is tainted {key}")?;
                match ago {
                    Some(ago) if *ago < 0 => write!(f, ", as if in {} s", -ago),
                    Some(ago) => write!(f, ", as if {ago} s ago"),
                    None => f.write_str(" without a time"),
                }
            }
            Self::Untaint { node, key } => write!(f, "the taint {key} of node {node} goes"),
            Self::Swap(node) => write!(f, "not-ready and unreachable change places on node {node}"),
        }
    }
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add { toleration, first } => {
                let place = if *first { "first" } else { "last" };
                write!(f, "gets the toleration [{toleration}] as its {place}")
            }
            Self::Last { place, seconds } => {
                let which = ["first", "second"][place % 2];
                write!(f, "has its {which} toleration changed to {}", Lasts(*seconds))
            }
        }
    }
}

impl fmt::Display for Toleration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}",
            self.key.as_deref().unwrap_or("all"),
            Lasts(self.seconds)
        )
    }
}

struct Lasts(Option<i64>);

impl fmt::Display for Lasts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(seconds) => write!(f, "{seconds} s"),
            None => f.write_str("for ever"),
        }
    }
}
