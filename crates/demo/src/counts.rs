//! What the API server holds, watched: objects counted by something that they carry.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use std::time::Duration;

use controller_core::clock::Clock;
use controller_core::tasks::TaskSet;
use futures::StreamExt;
use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::discovery::ApiResource;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event as Watched, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::sync::watch;

use crate::cluster;
use crate::event::{Event, Reporter};

/// How often what is shown follows the time that passes.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How many changes are shown as one, when they come faster than they are counted.
const AT_ONCE: usize = 256;

/// Which objects are counted, and by what.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    /// For the viewer: "nodes by TTL".
    pub(crate) title: &'static str,
    pub(crate) resource: ApiResource,
    pub(crate) whose: Whose,
    /// What an object counts as at a time.
    pub(crate) by: fn(&DynamicObject, Timestamp) -> Tally,
}

/// Whose objects are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// All that the cluster has, for the controller counts them too.
    Everybodys,
    /// What the demo made.
    Ours,
    /// What the demo made with this label, `key=value`: other scenes have left some of the same kind.
    OursWith(&'static str),
}

/// What an object counts as, in a few characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    /// In expectations. Nothing once it is being deleted: its end may need what a cluster lacks, such as a kubelet.
    pub(crate) expected: Option<String>,
    /// For the viewer; it may change with the time.
    pub(crate) shown: String,
}

/// How many objects carry what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts(BTreeMap<String, usize>);

/// Counts that follow the API server until they are dropped.
#[derive(Debug)]
pub(crate) struct LiveCounts {
    now: watch::Receiver<Counts>,
    _watching: TaskSet,
}

impl Tally {
    /// Shown as it is expected.
    pub(crate) fn plain(what: String) -> Self {
        Self {
            expected: Some(what.clone()),
            shown: what,
        }
    }
}

impl Counts {
    fn add(&mut self, what: String) {
        *self.0.entry(what).or_default() += 1;
    }

    /// The number of objects.
    pub(crate) fn total(&self) -> usize {
        self.0.values().sum()
    }

    /// What is carried and by how many; by number where it starts with one, words first.
    pub(crate) fn rows(&self) -> Vec<(&str, usize)> {
        let mut rows: Vec<_> = self
            .0
            .iter()
            .map(|(what, count)| (what.as_str(), *count))
            .collect();
        rows.sort_by_key(|(what, _)| {
            let digits = what.find(|c: char| !c.is_ascii_digit()).unwrap_or(what.len());
            what[..digits].parse::<u64>().ok()
        });
        rows
    }
}

impl<'a> FromIterator<(usize, &'a str)> for Counts {
    fn from_iter<I: IntoIterator<Item = (usize, &'a str)>>(counts: I) -> Self {
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        Self(counts.map(|(count, what)| (what.to_owned(), count)).collect())
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing");
        }
        for (number, (what, count)) in self.rows().into_iter().enumerate() {
            let separator = if number == 0 { "" } else { ", " };
            write!(f, "{separator}{count} × {what}")?;
        }
        Ok(())
    }
}

impl LiveCounts {
    /// Starts to watch; every change of what is shown is reported.
    pub(crate) fn watch(client: Client, counted: &Counted, clock: Clock, reporter: Reporter) -> Self {
        let (sender, now) = watch::channel(Counts::default());
        let mut watching = TaskSet::new();
        watching.spawn("counts", follow(client, counted.clone(), clock, reporter, sender));
        Self {
            now,
            _watching: watching,
        }
    }

    /// What expectations are about, as of now.
    pub(crate) fn now(&self) -> Counts {
        self.now.borrow().clone()
    }
}

async fn follow(
    client: Client,
    counted: Counted,
    clock: Clock,
    reporter: Reporter,
    sender: watch::Sender<Counts>,
) {
    let api = Api::<DynamicObject>::all_with(client, &counted.resource);
    let config = match counted.whose {
        Whose::Everybodys => watcher::Config::default(),
        Whose::Ours => watcher::Config::default().labels(&cluster::selector()),
        Whose::OursWith(label) => {
            watcher::Config::default().labels(&format!("{},{label}", cluster::selector()))
        }
    };
    // A watch that fails is begun again; what that means for a step, its expectation will say.
    let mut changes = watcher(api, config)
        .default_backoff()
        .ready_chunks(AT_ONCE)
        .boxed();
    let mut objects: HashMap<(Option<String>, String), DynamicObject> = HashMap::new();
    let mut listing = true;
    let mut shown_before = Counts::default();
    loop {
        let chunk = tokio::select! {
            chunk = changes.next() => match chunk {
                Some(chunk) => chunk,
                None => return,
            },
            () = clock.sleep(LOOK_EVERY) => Vec::new(),
        };
        for change in chunk.into_iter().flatten() {
            listing = matches!(change, Watched::Init | Watched::InitApply(_));
            match change {
                Watched::Init => objects.clear(),
                Watched::InitApply(object) | Watched::Apply(object) => {
                    objects.insert((object.namespace(), object.name_any()), object);
                }
                Watched::Delete(object) => {
                    objects.remove(&(object.namespace(), object.name_any()));
                }
                Watched::InitDone => {}
            }
        }
        // Half a list counts for nothing.
        if listing {
            continue;
        }
        let (mut expected, mut shown) = (Counts::default(), Counts::default());
        let now = clock.now();
        for tally in objects.values().map(|object| (counted.by)(object, now)) {
            tally.expected.into_iter().for_each(|what| expected.add(what));
            shown.add(tally.shown);
        }
        sender.send_replace(expected);
        if shown != shown_before {
            shown_before.clone_from(&shown);
            reporter.report(Event::Counts(shown));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_shown_in_the_order_of_their_numbers() {
        let counts: Counts = [(3, "300 s"), (0, "60 s"), (46, "0 s"), (74, "15 s"), (1, "none")]
            .into_iter()
            .collect();
        assert_eq!(counts.to_string(), "1 × none, 46 × 0 s, 74 × 15 s, 3 × 300 s");
        assert_eq!(counts.total(), 124);
        assert_eq!(Counts::default().to_string(), "nothing");
    }
}
