//! Watches the objects on the API server and counts them.

use std::collections::HashMap;
use std::time::Duration;

use controller_runtime::clock::Clock;
use controller_runtime::tasks::TaskSet;
use futures::StreamExt;
use kube::api::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event as Watched, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::sync::watch;

use crate::counts::{Counted, Counts, Whose};
use crate::event::{Event, Reporter};
use crate::ours;

/// Interval at which the counts follow the time.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Maximum changes that are counted together if they come faster than they are counted.
const AT_ONCE: usize = 256;

/// Counts that follow the API server until dropped.
#[derive(Debug)]
pub(crate) struct LiveCounts {
    now: watch::Receiver<Counts>,
    _watching: TaskSet,
}

impl LiveCounts {
    /// Starts to watch; reports every change of the shown counts.
    pub(crate) fn watch(client: Client, counted: &Counted, clock: Clock, reporter: Reporter) -> Self {
        let (sender, now) = watch::channel(Counts::default());
        let mut watching = TaskSet::new();
        watching.spawn("counts", follow(client, counted.clone(), clock, reporter, sender));
        Self {
            now,
            _watching: watching,
        }
    }

    /// Current counts for expectations.
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
    let everybodys = watcher::Config::default();
    let config = match counted.whose {
        Whose::Everybodys => everybodys,
        Whose::Ours => everybodys.labels(&ours::selector()),
        Whose::OursWith(label) => everybodys.labels(&format!("{},{label}", ours::selector())),
    };
    // A failed watch starts again; if a step suffers from that, its expectation says so.
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
        // An incomplete list does not count.
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
