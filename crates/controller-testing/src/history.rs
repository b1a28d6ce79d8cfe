//! Common parts of the suites of fault histories: a [`Scene`] says what can happen around a controller, [`Histories`]
//! runs it.
//!
//! For controllers that delete objects at a certain time, see also [`crate::past`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use controller_core::app::App;
use controller_runtime::clock::Clock;
use embedded_apiserver::{RecordedRequest, Resource, Server};
use futures::FutureExt;
use kube::Client;
use local_control_plane::tally;
use parking_lot::Mutex;
use serde_json::Value;

use crate::fault_history::{
    At, Draw, EndState, FaultKind, History, Life, Recorded, Shrink, Suite, replay, report, search,
    seeds_to_run,
};
use crate::objects;
use crate::past::{Ends, prompt, settled, state};
use crate::process::{ConfigOf, RunController, Start, run_of};
use crate::surroundings::Surroundings;

/// Number of seeds that a test run tries; `$FAULT_SEEDS` sets others.
const SEEDS: u64 = 50;
/// Number of seeds that are run twice.
const REPEATED: u64 = 5;
/// A history with fewer requests shows too little.
const FEWEST_REQUESTS: usize = 50;

/// The failure of a controller that writes what no rule asks for.
pub const NEVER_NEEDED: &str = "no such write is ever needed";

/// What can happen around a controller, what it may write, and what must come of it. Each run has its own scene.
pub trait Scene: Default + Send + 'static {
    type App: App<Config: Default> + 'static;

    /// The name of the scene for `cargo xtask fault --suite`: of the controller, with `/MODULE` if it has another scene.
    const TITLE: &'static str = <Self::App as App>::ABOUT.name;
    /// The resources that the controller lists and watches.
    const READS: &'static [&'static Resource];
    /// The resources that the controller writes.
    const WRITES: &'static [&'static Resource];
    /// True if the controller reads single objects past its cache.
    const GETS: bool = true;
    /// True if nobody else acts between the steps, so that etcd can be set back to the last one.
    const REWINDS: bool = true;
    /// True if [`Scene::undo`] undoes something.
    const HAS_RIVAL: bool = false;
    /// Time in which steps are taken and faults happen.
    const LENGTH: Duration = Duration::from_mins(2);
    /// Time after the last fault by which everything must have settled. The client gives up a silent watch only after
    /// five minutes.
    const SETTLES_WITHIN: Duration = Duration::from_mins(10);
    /// Objects in a hundred, at most, of which the rules need not say how they end.
    const MOST_OPEN: usize = 15;
    /// Without faults, an object of [`Scene::ends`] is gone within this time, in milliseconds.
    const PROMPTLY: i64 = 0;

    /// Draws the steps of a history in the order of their times. Steps at time zero set up the world.
    fn steps(draw: &mut Draw) -> Vec<At<Scripted<Self>>>;

    /// Another writer undoes what the controller has written; returns false if there is nothing to undo.
    fn undo(&mut self, server: &Server) -> bool {
        let _ = server;
        false
    }

    /// The client of a starting process.
    fn client(&self, life: &Life) -> Client {
        life.client.clone()
    }

    /// How a process starts.
    fn start(&self) -> Start<ConfigOf<Self::App>> {
        Start::of::<Self::App>()
    }

    /// Says whether the controller may make this write now. Not called for writes of Leases and events.
    fn permits(&mut self, server: &Server, write: &RecordedRequest) -> Result<(), String>;

    /// What the rules make of the objects that others left alone; for controllers that delete objects at a certain
    /// time.
    fn ends(&self, server: &Server) -> Ends {
        let _ = server;
        Ends::new()
    }

    /// Checks that everything is as the rules want it, whatever happened before.
    fn settled(&mut self, server: &Server) -> Result<(), String> {
        settled(&self.ends(server))
    }

    /// The state that must be the same in the end as without the faults.
    fn state(&self, server: &Server) -> EndState {
        state(self.ends(server))
    }

    /// Checks the run as a whole.
    fn afterwards(&self, server: &Server, history: &History<Scripted<Self>>) -> Result<(), String> {
        if history.faults.is_empty() {
            prompt(&self.ends(server), Self::PROMPTLY)
        } else {
            Ok(())
        }
    }
}

/// The histories of a scene, with its controller or with a controller that has a bug.
pub struct Histories<S: Scene> {
    run: RunController<ConfigOf<S::App>>,
    scene: Arc<Mutex<S>>,
}

/// Something that others do at a certain time: a description and an action. The object may be missing, because a shrunk
/// history leaves steps out.
pub struct Scripted<S> {
    says: String,
    take: Take<S>,
}

type Take<S> = Arc<dyn Fn(&mut S, &Server) + Send + Sync>;

pub fn step<S>(
    says: impl Into<String>,
    take: impl Fn(&mut S, &Server) + Send + Sync + 'static,
) -> Scripted<S> {
    Scripted {
        says: says.into(),
        take: Arc::new(take),
    }
}

/// Changes an object, if it exists.
pub fn edits<S>(
    says: impl Into<String>,
    resource: &'static Resource,
    name: String,
    edit: impl Fn(&mut Value) + Send + Sync + 'static,
) -> Scripted<S> {
    step(says, move |_, server| {
        objects::edit(server, resource, &name, &edit);
    })
}

/// Deletes an object, if it exists.
pub fn deletes<S>(resource: &'static Resource, name: String) -> Scripted<S> {
    let says = format!("{} {name} is deleted", resource.kind);
    step(says, move |_, server| objects::delete(server, resource, &name))
}

impl<S: 'static> Scripted<S> {
    /// The same step of a scene that has another one within.
    #[must_use]
    pub fn within<T: 'static>(self, of: fn(&mut T) -> &mut S) -> Scripted<T> {
        let Self { says, take } = self;
        step(says, move |scene, server| take(of(scene), server))
    }
}

impl<S> Clone for Scripted<S> {
    fn clone(&self) -> Self {
        Self {
            says: self.says.clone(),
            take: Arc::clone(&self.take),
        }
    }
}

impl<S> fmt::Display for Scripted<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.says)
    }
}

impl<S: Scene> Histories<S> {
    /// With the unchanged controller.
    pub fn sound() -> Self {
        Self::of(run_of::<S::App>())
    }

    /// With a controller whose environment `bug` has changed.
    pub fn with(bug: impl Fn(Surroundings) -> Surroundings + Send + Sync + 'static) -> Self {
        Self::of(Arc::new(move |config, env| {
            bug(Surroundings::of(env)).run::<S::App>(config).boxed()
        }))
    }

    /// With a controller that `run` runs.
    pub fn of(run: RunController<ConfigOf<S::App>>) -> Self {
        Self {
            run,
            scene: Arc::default(),
        }
    }
}

impl<S: Scene> Clone for Histories<S> {
    fn clone(&self) -> Self {
        Self {
            run: Arc::clone(&self.run),
            scene: Arc::clone(&self.scene),
        }
    }
}

impl<S: Scene> Suite for Histories<S> {
    type Action = Scripted<S>;

    const NAME: &'static str = S::App::ABOUT.name;
    const TITLE: &'static str = S::TITLE;
    const READS: &'static [&'static Resource] = S::READS;
    const WRITES: &'static [&'static Resource] = S::WRITES;
    const GETS: bool = S::GETS;
    const REWINDS: bool = S::REWINDS;
    const HAS_RIVAL: bool = S::HAS_RIVAL;
    const LENGTH: Duration = S::LENGTH;
    const SETTLES_WITHIN: Duration = S::SETTLES_WITHIN;
    const MOST_OPEN: usize = S::MOST_OPEN;

    fn fresh(&self) -> Self {
        Self::of(Arc::clone(&self.run))
    }

    fn actions(&self, draw: &mut Draw) -> Vec<At<Scripted<S>>> {
        S::steps(draw)
    }

    fn act(&self, server: &Server, step: &Scripted<S>) {
        (step.take)(&mut self.scene.lock(), server);
    }

    fn undo(&self, server: &Server) -> bool {
        self.scene.lock().undo(server)
    }

    fn process(&self, life: Life) -> impl Future<Output = Result<(), String>> + Send + 'static {
        let scene = self.scene.lock();
        let (client, start) = (scene.client(&life), scene.start());
        let run = Arc::clone(&self.run);
        let start = start.running(move |config, env| run(config, env));
        start.live(Life { client, ..life })
    }

    fn settled(&self, server: &Server, _: &[At<Scripted<S>>]) -> Result<(), String> {
        self.scene.lock().settled(server)
    }

    fn state(&self, server: &Server) -> EndState {
        self.scene.lock().state(server)
    }

    fn permits(&self, server: &Server, request: &RecordedRequest) -> Result<(), String> {
        if !request.verb.is_write() || matches!(&*request.resource, "leases" | "events") {
            return Ok(());
        }
        let permitted = self.scene.lock().permits(server, request);
        permitted.map_err(|why| format!("{why}: {request}"))
    }

    fn afterwards(&self, server: &Server, history: &History<Scripted<S>>) -> Result<(), String> {
        self.scene.lock().afterwards(server, history)
    }
}

/// The tests of a scene's histories, for the scene's own module: `controller_testing::histories!(Nodes)`.
///
/// `cargo xtask fault` runs `tell`.
#[macro_export]
macro_rules! histories {
    ($scene:ty) => {
        #[test]
        fn every_history_ends_as_it_would_without_its_faults() {
            $crate::history::assert_sound(&$crate::history::Histories::<$scene>::sound());
        }

        #[test]
        #[ignore = "prints: cargo xtask fault"]
        fn tell() {
            $crate::history::tell(&$crate::history::Histories::<$scene>::sound());
        }

        #[test]
        fn a_seed_gives_the_same_requests_every_time() {
            $crate::history::assert_repeatable(&$crate::history::Histories::<$scene>::sound());
        }
    };
}

/// Fails with the first seed, shrunk, whose history ends differently from the same one without faults, and if a kind of
/// fault never strikes in the first seeds. Begins with the histories that were recorded for the test. Prints how often each kind struck.
pub fn assert_sound<S: Suite>(suite: &S) {
    let (seeds, began) = (seeds_to_run(SEEDS).unwrap(), Clock::system().instant());
    let number = seeds.end.saturating_sub(seeds.start);
    for recorded in Recorded::of_this_test() {
        match replay(suite, &recorded) {
            Some(Some(failure)) => panic!("{failure}"),
            Some(None) => {}
            None => println!("{recorded} is drawn differently by now"),
        }
    }
    let (strikes, failure) = search(suite, seeds, None, Shrink::Everything);
    println!("{strikes}");
    if let Some(failure) = failure {
        let to_do = failure.recorded.note(false).unwrap_or_default();
        panic!("{failure}\n{to_do}");
    }
    // A few seeds say nothing of what is drawn.
    if number >= SEEDS {
        let missing = strikes.missing(FaultKind::all::<S>());
        assert!(missing.is_empty(), "never struck: {missing:?}");
        let open = strikes.open_percent();
        assert!(open <= S::MOST_OPEN, "{open} % of the ends are not judged");
    }
    tally("seeds", number.into());
    tally("seeds-ms", began.elapsed().as_millis());
}

/// Fails unless a seed gives the same requests every time.
pub fn assert_repeatable(suite: &impl Suite) {
    for seed in 0..REPEATED {
        let (first, second) = (report(suite, seed), report(suite, seed));
        assert_eq!(first.timeline, second.timeline);
        assert!(first.run.requests.len() > FEWEST_REQUESTS, "{first}");
        let pairs = first.run.requests.iter().zip(second.run.requests.iter());
        for (number, (a, b)) in pairs.enumerate() {
            assert_eq!(a, b, "request {number} of seed {seed}");
        }
        assert_eq!(first.run.requests.len(), second.run.requests.len());
    }
}

/// Prints the history of each seed in `$FAULT_SEEDS`, for `cargo xtask fault`; fails if one of them fails.
pub fn tell(suite: &impl Suite) {
    let mut failed = Vec::new();
    for seed in seeds_to_run(1).unwrap() {
        let report = report(suite, seed);
        println!("{report}");
        failed.extend(report.failure.map(|failure| failure.seed));
    }
    assert_eq!(failed, Vec::<u64>::new(), "these seeds fail");
}

/// The object of a write, unless the API server refuses the write because the object is not the one that was judged:
/// `judged` has its uid, its resourceVersion or neither.
pub fn accepting(
    server: &Server,
    resource: &'static Resource,
    write: &RecordedRequest,
    judged: &Value,
) -> Option<Value> {
    let object = objects::find(server, resource, &write.name)?;
    let is_same = |field: &str| judged[field].is_null() || judged[field] == object["metadata"][field];
    (is_same("uid") && is_same("resourceVersion")).then_some(object)
}
