//! What has happened to each node and pod, by whom and when: what is done in a history or in the model, and
//! what the rules demand, by hand. Times are in milliseconds since the start.

use std::collections::BTreeSet;

use controller_testing::past::{FinalFate, Past, Pasts};

/// The two taints that count as one (TE-5).
pub(crate) const FAILED: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
/// `--catch-up-grace`.
pub(crate) const GRACE: i64 = 30_000;
/// How old the state in a list may be.
const STALE: i64 = 60_000;

/// Everything that existed, in the order of its beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) stays: Vec<Stay>,
    pub(crate) pods: Pasts<Bound>,
    /// The pods, by uid, that a process evicted by what its cache, which may lag, said of the node.
    pub(crate) by_the_cache: BTreeSet<String>,
}

/// A taint on a node, from when it comes until it goes.
#[derive(Clone, Debug)]
pub(crate) struct Stay {
    pub(crate) node: String,
    pub(crate) key: &'static str,
    pub(crate) value: &'static str,
    /// `timeAdded`.
    pub(crate) added: Option<i64>,
    pub(crate) from: i64,
    until: Option<i64>,
}

/// The pod's own fields.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) node: String,
    pub(crate) at: i64,
    pub(crate) tolerations: Vec<Toleration>,
}

pub(crate) type Pod = Past<Bound>;

/// For this key and this value, or for any.
#[derive(Clone, Debug)]
pub(crate) struct Toleration {
    pub(crate) key: Option<&'static str>,
    pub(crate) value: Option<&'static str>,
    /// `None` is for ever.
    pub(crate) seconds: Option<i64>,
}

/// How far back one process of the controller can know the world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Eyes {
    /// It has seen nothing before this.
    pub(crate) open: i64,
    /// It did not lead before this.
    pub(crate) leads: i64,
    /// When it last may have mistaken a taint that was removed and came back for one that stayed.
    pub(crate) listed: i64,
    /// It may judge by tolerations that the pod no longer has.
    pub(crate) lags: bool,
    /// Its clock is behind, so that the times it receives lie in the future, and its own sight counts (TE-4).
    pub(crate) is_slow: bool,
}

impl Eyes {
    /// A controller that has run from the beginning, without faults.
    pub(crate) const SOUND: Self = Self {
        open: 0,
        leads: 0,
        listed: 0,
        lags: false,
        is_slow: false,
    };
    /// A controller that has seen everything at its worst.
    const WORST: Self = Self {
        listed: i64::MAX,
        lags: true,
        ..Self::SOUND
    };
}

impl Stay {
    pub(crate) fn tells_of_failure(&self) -> bool {
        FAILED.contains(&self.key)
    }

    pub(crate) fn lasts_to(&self, time: i64) -> bool {
        self.until.is_none_or(|until| until >= time)
    }

    /// Returns whether `eyes` may take the two for one stay (TE-5).
    fn is_one_with(&self, other: &Self, eyes: Eyes) -> bool {
        let (first, next) = if self.from <= other.from {
            (self, other)
        } else {
            (other, self)
        };
        let same = (first.key, first.value) == (next.key, next.value);
        let alike = same || first.tells_of_failure() && next.tells_of_failure();
        // Only a list can miss the removal before the return.
        let missed = first
            .until
            .is_none_or(|until| until >= next.from || eyes.listed >= until);
        first.node == next.node && alike && missed
    }
}

impl Bound {
    /// The toleration that is used for this taint: the first that matches (TE-2).
    fn uses(&self, stay: &Stay) -> Option<&Toleration> {
        self.tolerations.iter().find(|toleration| {
            toleration.key.is_none_or(|key| key == stay.key)
                && toleration.value.is_none_or(|value| value == stay.value)
        })
    }

    fn is_for_ever(&self, stay: &Stay) -> bool {
        self.uses(stay).is_some_and(|used| used.seconds.is_none())
    }
}

/// The earliest time at which this taint alone may evict the pod, by its tolerations up to `place`. A deadline never
/// moves later (TE-5), so the shortest toleration of the taint counts. A process that lags may only know a longer one,
/// whose end comes sooner if the end of the shorter one gets a grace.
fn due_alone(pod: &Pod, place: usize, stay: &Stay, eyes: Eyes) -> Option<i64> {
    let tolerated = tolerated(pod, place, stay, eyes);
    let shortest = tolerated.iter().min().copied();
    let counts = tolerated
        .into_iter()
        .filter(|seconds| eyes.lags || Some(*seconds) == shortest);
    counts.map(|seconds| due_by(pod, stay, seconds, eyes)).min()
}

/// How long the pod tolerated this taint, in seconds, by its tolerations up to `place`: earlier ones are forgotten if
/// the pod tolerates the taint for ever in between.
fn tolerated(pod: &Pod, place: usize, stay: &Stay, eyes: Eyes) -> Vec<i64> {
    let counts = |earlier: &usize| {
        let met = pod.told_until(*earlier).is_none_or(|until| until > stay.from)
            && stay.until.is_none_or(|until| until > pod.told[*earlier].0);
        let forgotten = (*earlier..=place).any(|between| pod.told[between].1.is_for_ever(stay));
        *earlier == place || eyes.lags || met && !forgotten
    };
    let known = (0..=place).filter(counts);
    known
        .filter_map(|earlier| pod.told[earlier].1.uses(stay)?.seconds)
        .collect()
}

/// The earliest time at which this taint alone may evict a pod that tolerates it for `seconds` (TE-4).
fn due_by(pod: &Pod, stay: &Stay, seconds: i64, eyes: Eyes) -> i64 {
    let first_sight = stay.from.max(eyes.open);
    let since = stay.added.map_or(first_sight, |added| added.min(first_sight));
    let due_since = |since: i64| since.max(pod.last().at.min(first_sight.max(pod.from()))) + seconds * 1000;
    let deadline = due_since(since);
    if deadline >= eyes.leads {
        return deadline;
    }
    // The deadline passed while this process did not lead: the pod has the grace, unless the taint was seen so late
    // that the toleration ended in the term after all.
    let is_told = stay.added.is_some_and(|added| added <= stay.from);
    let graced = eyes.leads + if is_told { (seconds * 1000).min(GRACE) } else { 0 };
    let own = due_since(first_sight);
    if eyes.is_slow && own >= eyes.leads {
        own.min(graced)
    } else {
        graced
    }
}

/// Fails unless what is due at this time, if ever, is due at `now`; an error says why not.
pub(crate) fn check_due(due: Option<i64>, now: i64) -> Result<(), String> {
    match due {
        None => Err("no taint calls for its eviction".to_owned()),
        Some(due) if due > now => Err(format!("it is not due for {} ms", due - now)),
        Some(_) => Ok(()),
    }
}

impl Ledger {
    /// The earliest time at which `stay` may evict the pod while the tolerations at `place` hold, including everything
    /// that the stay inherits; `None` if the pod tolerates the taint for ever.
    fn due(&self, pod: &Pod, place: usize, stay: &Stay, eyes: Eyes) -> Option<i64> {
        let (from, told) = &pod.told[place];
        let not_before = if eyes.lags { i64::MIN } else { *from };
        if told.uses(stay).is_none() {
            return Some(stay.from.max(pod.from()).max(not_before));
        }
        if told.is_for_ever(stay) {
            return None;
        }
        let mut due = due_alone(pod, place, stay, eyes)?;
        // All stays that may count as one with it: earlier ones, and the other of the two taints next to it.
        let mut one = vec![stay];
        let mut next = 0;
        while let Some(&known) = one.get(next) {
            for other in &self.stays {
                let is_new = !one.iter().any(|known| std::ptr::eq(*known, other));
                let was_seen = other.lasts_to(pod.from().max(eyes.open - STALE));
                let in_time = stay.until.is_none_or(|until| other.from < until);
                let is_forgotten = !eyes.lags && self.forgets(pod, other, stay.from.max(*from));
                if is_new && was_seen && in_time && !is_forgotten && known.is_one_with(other, eyes) {
                    let was_told = |place: &usize| {
                        let told = pod.told[*place].0;
                        eyes.lags || other.until.is_none_or(|until| until > told)
                    };
                    let place = (0..=place).rev().find(was_told);
                    let alone = place.and_then(|place| due_alone(pod, place, other, eyes));
                    due = alone.map_or(due, |alone| due.min(alone.max(other.from)));
                    one.push(other);
                }
            }
            next += 1;
        }
        Some(due.max(not_before))
    }

    /// Returns whether the pod tolerates all taints of a failed node for ever at some moment after `stay` and up to `to`:
    /// what was remembered of them is forgotten then.
    fn forgets(&self, pod: &Pod, stay: &Stay, to: i64) -> bool {
        let Some(end) = stay.until.filter(|_| stay.tells_of_failure()) else {
            return false;
        };
        let changes = self.stays.iter().flat_map(|stay| [Some(stay.from), stay.until]);
        let mut changes = changes.flatten().chain(pod.told.iter().map(|(from, _)| *from));
        changes.any(|at| {
            let is_there = |other: &&Stay| {
                let is_kin = other.node == stay.node && other.tells_of_failure();
                is_kin && other.from <= at && other.until.is_none_or(|until| until > at)
            };
            let told = pod.told.iter().rev().find(|(from, _)| *from <= at);
            let mut there = self.stays.iter().filter(is_there).peekable();
            let is_between = end <= at && at <= to && there.peek().is_some();
            is_between && told.is_some_and(|(_, told)| there.all(|stay| told.is_for_ever(stay)))
        })
    }

    /// Each taint of the pod's node that stayed until `time`, with each place in the history of the pod's tolerations.
    fn met(&self, pod: &Pod, time: i64) -> impl Iterator<Item = (usize, &Stay)> {
        let node = pod.last().node.clone();
        let places = pod.told.len();
        let stays = self
            .stays
            .iter()
            .filter(move |stay| stay.node == node && stay.lasts_to(time));
        stays.flat_map(move |stay| (0..places).map(move |place| (place, stay)))
    }

    /// When the pod is due, by what was true at some moment from `window` on; `None` if no taint calls for its eviction.
    pub(crate) fn earliest(&self, pod: &Pod, window: i64, eyes: Eyes) -> Option<i64> {
        let met = self.met(pod, window);
        met.filter(|(place, _)| eyes.lags || pod.told_until(*place).is_none())
            .filter_map(|(place, stay)| self.due(pod, place, stay, eyes))
            .min()
    }

    /// No deadline of the pod can lie before this time, whatever a controller has seen from `window` on; `None` if it has
    /// none.
    pub(crate) fn first_deadline(&self, pod: &Pod, window: i64) -> Option<i64> {
        let met = self.met(pod, window);
        let deadlines = met.filter_map(|(place, stay)| {
            let since = stay.added.map_or(stay.from, |added| added.min(stay.from));
            let since = since.max(pod.last().at.min(pod.from()));
            let tolerated = tolerated(pod, place, stay, Eyes::WORST);
            let is_tolerated = pod.told[place].1.uses(stay).is_some();
            let seconds = tolerated.into_iter().min().filter(|_| is_tolerated);
            (!pod.told[place].1.is_for_ever(stay)).then_some(since + seconds.unwrap_or(0) * 1000)
        });
        deadlines.min()
    }

    /// What the rules demand for a pod.
    pub(crate) fn fate(&self, pod: &Pod) -> FinalFate {
        let met = self.met(pod, pod.from());
        let overdue = met
            .filter_map(|(place, stay)| self.overdue(pod, place, stay))
            .max();
        let by_the_cache = self.by_the_cache.contains(&pod.uid).then_some(0);
        FinalFate::of(overdue.or(by_the_cache))
    }

    /// How long a sound controller could have evicted the pod for this taint with its tolerations at `place`: for ever
    /// if both last to the end; `None` if no controller could.
    fn overdue(&self, pod: &Pod, place: usize, stay: &Stay) -> Option<i64> {
        let worst = self.due(pod, place, stay, Eyes::WORST)?;
        let ends = [stay.until, pod.told_until(place)];
        let Some(end) = ends.into_iter().flatten().min() else {
            return Some(i64::MAX);
        };
        // The deadline of a taint that comes with an earlier time may have passed before.
        let sound = self.due(pod, place, stay, Eyes::SOUND)?.max(stay.from);
        stay.lasts_to(worst).then_some(end - sound)
    }

    /// The taint comes, unless the node has one with this key.
    pub(crate) fn tainted(
        &mut self,
        now: i64,
        node: &str,
        (key, value): (&'static str, &'static str),
        added: Option<i64>,
    ) {
        if !self.taints(node).any(|stay| stay.key == key) {
            let (node, until) = (node.to_owned(), None);
            self.stays.push(Stay {
                node,
                key,
                value,
                added,
                from: now,
                until,
            });
        }
    }

    /// The taints of a node go that `which` selects.
    pub(crate) fn untainted(&mut self, now: i64, node: &str, which: impl Fn(&Stay) -> bool) {
        let held = self
            .stays
            .iter_mut()
            .filter(|stay| stay.node == node && stay.until.is_none());
        held.filter(|stay| which(stay))
            .for_each(|stay| stay.until = Some(now));
    }

    /// The taints that a node has.
    pub(crate) fn taints(&self, node: &str) -> impl Iterator<Item = &Stay> {
        self.stays
            .iter()
            .filter(move |stay| stay.node == node && stay.until.is_none())
    }
}
