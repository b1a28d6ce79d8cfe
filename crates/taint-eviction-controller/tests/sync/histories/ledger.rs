//! What has happened to each node and pod, whoever evicted it when: the steps of a history, written down as they
//! are taken, and what the rules make of them.
//!
//! Times are in milliseconds since the start.

use harness::history::Fate;

/// The two taints that count as one (TE-5).
pub(super) const FAILED: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
/// `--catch-up-grace`.
const GRACE: i64 = 30_000;
/// A list may show a past that is so old.
const STALE: i64 = 60_000;

/// Everything that there was, in the order of its beginning.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    pub(super) stays: Vec<Stay>,
    pub(super) pods: Vec<Life>,
}

/// A taint on a node, from when it comes until it goes.
#[derive(Clone, Debug)]
pub(super) struct Stay {
    pub(super) node: String,
    pub(super) key: String,
    /// `timeAdded`.
    pub(super) added: Option<i64>,
    pub(super) from: i64,
    pub(super) until: Option<i64>,
}

/// A pod of one uid.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) node: String,
    /// What it tolerated, each from a moment on.
    pub(super) told: Vec<Told>,
    /// When it was bound, as it says.
    pub(super) bound: i64,
    pub(super) from: i64,
    /// When somebody else than the controller deleted it.
    pub(super) until: Option<i64>,
}

/// What a pod tolerates, from a moment on.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) from: i64,
    pub(super) tolerations: Vec<Toleration>,
}

/// `Exists` for this key, or for any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Toleration {
    pub(super) key: Option<String>,
    /// In seconds; none is for ever.
    pub(super) seconds: Option<i64>,
}

/// How far back one process of the controller can know the world.
#[derive(Clone, Copy, Debug)]
pub(super) struct Eyes {
    /// It has seen nothing before that.
    pub(super) open: i64,
    /// It did not lead before that.
    pub(super) leads: i64,
    /// When it last may have taken a taint that was removed and is back for one that stayed.
    pub(super) listed: i64,
    /// Whether it may judge by tolerations that the pod no longer has.
    pub(super) lags: bool,
}

impl Eyes {
    /// Of a controller that has run from the beginning, without any trouble.
    const SOUND: Self = Self {
        open: 0,
        leads: 0,
        listed: 0,
        lags: false,
    };
    /// Of one that has seen everything at its worst.
    const WORST: Self = Self {
        open: 0,
        leads: 0,
        listed: i64::MAX,
        lags: true,
    };
}

impl Stay {
    fn tells_of_failure(&self) -> bool {
        FAILED.contains(&&*self.key)
    }

    /// Whether the two may pass for one stay to `eyes` (TE-5).
    fn is_one_with(&self, other: &Self, eyes: Eyes) -> bool {
        let (first, next) = if self.from <= other.from {
            (self, other)
        } else {
            (other, self)
        };
        let alike = first.key == next.key || first.tells_of_failure() && next.tells_of_failure();
        // That it was removed before it came back can be missed in a list alone.
        let missed = |until| until >= next.from || eyes.listed >= until;
        first.node == next.node && alike && first.until.is_none_or(missed)
    }
}

impl Told {
    /// The toleration that is used for this taint: the first that matches (TE-2).
    fn uses(&self, stay: &Stay) -> Option<&Toleration> {
        self.tolerations
            .iter()
            .find(|toleration| toleration.key.as_ref().is_none_or(|key| *key == stay.key))
    }

    fn is_for_ever(&self, stay: &Stay) -> bool {
        self.uses(stay).is_some_and(|used| used.seconds.is_none())
    }
}

impl Life {
    /// What it tolerates now.
    pub(super) fn tolerations(&self) -> &[Toleration] {
        self.told.last().map_or(&[], |told| &told.tolerations)
    }

    /// When it was told something else than at this place.
    fn told_until(&self, place: usize) -> Option<i64> {
        self.told.get(place + 1).map(|next| next.from)
    }

    /// The earliest time at which this taint alone may evict it, told up to `place`. A deadline never moves later
    /// (TE-5), so the shortest that it tolerated the taint for counts; who lags may know of a longer one alone, whose
    /// end is sooner where that of the shorter asks for a grace.
    fn due_alone(&self, place: usize, stay: &Stay, eyes: Eyes) -> Option<i64> {
        let tolerated = self.tolerated(place, stay, eyes);
        let counts: Vec<i64> = if eyes.lags {
            tolerated.collect()
        } else {
            tolerated.min().into_iter().collect()
        };
        counts
            .into_iter()
            .map(|seconds| self.due_by(stay, seconds, eyes))
            .min()
    }

    /// For how long it tolerated this taint, in seconds, up to what it was told at `place`: what was before is
    /// forgotten where the pod tolerates the taint for ever in between.
    fn tolerated(&self, place: usize, stay: &Stay, eyes: Eyes) -> impl Iterator<Item = i64> {
        let counts = |earlier: usize| {
            let met = self.told_until(earlier).is_none_or(|until| until > stay.from)
                && stay.until.is_none_or(|until| until > self.told[earlier].from);
            let forgotten = (earlier..=place).any(|between| self.told[between].is_for_ever(stay));
            earlier == place || eyes.lags || met && !forgotten
        };
        let known: Vec<usize> = (0..=place).filter(|earlier| counts(*earlier)).collect();
        known
            .into_iter()
            .filter_map(move |earlier| self.told[earlier].uses(stay)?.seconds)
    }

    /// The earliest time at which this taint alone may evict it (TE-4).
    fn due_by(&self, stay: &Stay, seconds: i64, eyes: Eyes) -> i64 {
        let sight = stay.from.max(self.from).max(eyes.open);
        let first_sight = stay.from.max(eyes.open);
        let since = stay.added.map_or(first_sight, |added| added.min(first_sight));
        let deadline = since.max(self.bound.min(sight)) + seconds * 1000;
        if deadline >= eyes.leads {
            return deadline;
        }
        // It passed while this process did not lead: the pod has the grace, unless the taint was seen so late that
        // the toleration ended in the term after all.
        let is_told = stay.added.is_some_and(|added| added <= stay.from);
        eyes.leads + if is_told { (seconds * 1000).min(GRACE) } else { 0 }
    }
}

impl Ledger {
    /// The earliest time at which `stay` may evict the pod while it tolerates what it was told at `place`, all that
    /// it inherits considered; none where it tolerates the taint for ever.
    fn due(&self, life: &Life, place: usize, stay: &Stay, eyes: Eyes) -> Option<i64> {
        let begun = stay.from.max(life.from);
        let told = &life.told[place];
        if told.uses(stay).is_none() {
            return Some(if eyes.lags { begun } else { begun.max(told.from) });
        }
        if told.is_for_ever(stay) {
            return None;
        }
        let mut due = life.due_alone(place, stay, eyes)?;
        // All that may pass for one stay with it: what was before, and the other of the two taints beside it.
        let mut one = vec![stay];
        let mut next = 0;
        while let Some(&known) = one.get(next) {
            for other in &self.stays {
                let is_new = !one.iter().any(|known| std::ptr::eq(*known, other));
                let was_seen = other
                    .until
                    .is_none_or(|until| until >= life.from.max(eyes.open - STALE));
                let in_time = stay.until.is_none_or(|until| other.from < until);
                if is_new && was_seen && in_time && known.is_one_with(other, eyes) {
                    if let Some(alone) = life.due_alone(place, other, eyes) {
                        due = due.min(alone.max(other.from));
                    }
                    one.push(other);
                }
            }
            next += 1;
        }
        Some(if eyes.lags { due } else { due.max(told.from) })
    }

    /// Whether something calls for the eviction of the pod at `now`, by what was true at some moment from `window` on; an error
    /// says why not.
    pub(super) fn pending_eviction(
        &self,
        life: &Life,
        window: i64,
        now: i64,
        eyes: Eyes,
    ) -> Result<(), String> {
        let window = window.max(life.from);
        let seen = self
            .stays
            .iter()
            .filter(|stay| stay.node == life.node && stay.until.is_none_or(|until| until >= window));
        let due = seen
            .flat_map(|stay| (0..life.told.len()).filter_map(move |place| self.due(life, place, stay, eyes)));
        match due.min() {
            None => Err("no taint calls for its eviction".to_owned()),
            Some(due) if due > now => Err(format!("it is not due for {} ms", due - now)),
            Some(_) => Ok(()),
        }
    }

    /// What the rules make of a pod.
    pub(super) fn fate(&self, life: &Life) -> Fate {
        let stays = self.stays.iter().filter(|stay| stay.node == life.node);
        let stays = stays.filter(|stay| stay.until.is_none_or(|until| until >= life.from));
        let overdue = stays
            .flat_map(|stay| (0..life.told.len()).filter_map(move |place| self.overdue(life, place, stay)));
        match overdue.max() {
            None => Fate::Lives,
            Some(i64::MAX) => Fate::Goes,
            Some(overdue) => Fate::MayGo(overdue),
        }
    }

    /// For how long a sound controller could have evicted the pod for this taint while it tolerated what it was told
    /// at `place`: for ever where both are so to the end; none where no controller could.
    fn overdue(&self, life: &Life, place: usize, stay: &Stay) -> Option<i64> {
        let worst = self.due(life, place, stay, Eyes::WORST)?;
        let ends = [stay.until, life.told_until(place)];
        let Some(end) = ends.into_iter().flatten().min() else {
            return Some(i64::MAX);
        };
        let sound = self.due(life, place, stay, Eyes::SOUND)?;
        stay.until
            .is_none_or(|until| until >= worst)
            .then_some(end - sound)
    }

    /// The last pod of each name, where nobody deleted it.
    pub(super) fn standing(&self) -> impl Iterator<Item = &Life> {
        self.pods.iter().filter(|life| life.until.is_none())
    }

    /// The taint comes, or is there already.
    pub(super) fn tainted(&mut self, now: i64, node: &str, key: &str, added: Option<i64>) {
        if !self.taints(node).any(|stay| stay.key == key) {
            self.stays.push(Stay {
                node: node.to_owned(),
                key: key.to_owned(),
                added,
                from: now,
                until: None,
            });
        }
    }

    /// The taints of a node that `which` says go.
    pub(super) fn untainted(&mut self, now: i64, node: &str, which: impl Fn(&Stay) -> bool) {
        for stay in &mut self.stays {
            if stay.node == node && stay.until.is_none() && which(stay) {
                stay.until = Some(now);
            }
        }
    }

    /// The taints that a node has.
    pub(super) fn taints(&self, node: &str) -> impl Iterator<Item = &Stay> {
        self.stays
            .iter()
            .filter(move |stay| stay.node == node && stay.until.is_none())
    }

    /// The tolerations of the pod of this name, if there is one, are changed.
    pub(super) fn told(&mut self, now: i64, name: &str, change: impl FnOnce(&mut Vec<Toleration>)) {
        if let Some(life) = self
            .pods
            .iter_mut()
            .find(|life| life.name == name && life.until.is_none())
        {
            let mut tolerations = life.tolerations().to_vec();
            change(&mut tolerations);
            life.told.push(Told {
                from: now,
                tolerations,
            });
        }
    }

    /// The pod of this name, if there is one, is deleted.
    pub(super) fn deleted(&mut self, now: i64, name: &str) {
        for life in &mut self.pods {
            if life.name == name && life.until.is_none() {
                life.until = Some(now);
            }
        }
    }
}

pub(super) fn millis(time: std::time::Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap()
}
