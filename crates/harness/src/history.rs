//! What suites of fault histories share: a [`Scene`] says what can happen around a controller, [`Histories`] runs it.
//!
//! Objects that a controller deletes at a time have more in common: their [`Past`], and the [`Ends`] that come of it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use controller_core::runtime::{App, Env};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use parking_lot::Mutex;
use serde_json::Value;
use testkit::embedded::{Request, Resource, Server};
use testkit::history::{At, Draw, History, Life, Shrink, State, Suite, first_failure, report, seeds_to_run};

use crate::objects;
use crate::process::{ConfigOf, Run, Start, run_of};
use crate::sim::START;

/// How many seeds a run of the tests tries; `$FAULT_SEEDS` asks for others.
const SEEDS: u64 = 50;
/// How many seeds are run twice.
const REPEATED: u64 = 5;
/// A history with fewer requests shows little.
const FEWEST_REQUESTS: usize = 50;

/// What goes wrong where a controller writes what no rule has it write.
pub const NEVER_NEEDED: &str = "no such write is ever needed";

/// What can happen around a controller, what it may write meanwhile, and what must come of it. Each run has its own.
pub trait Scene: Default + Send + 'static {
    /// The controller.
    type App: App<Config: Default> + 'static;

    /// The resources that the controller works on: those whose requests fail.
    const RESOURCES: &'static [&'static Resource];
    /// How long steps are taken and things go wrong.
    const LENGTH: Duration = Duration::from_mins(2);
    /// How long after the last fault everything must have settled. Five minutes pass before the client gives up a watch that
    /// is silent.
    const SETTLES_WITHIN: Duration = Duration::from_mins(10);
    /// Without faults an object of [`Scene::ends`] goes within this time, in milliseconds.
    const PROMPTLY: i64 = 0;

    /// Draws the steps of a history, in the order of their times. Those at time zero furnish the world.
    fn steps(draw: &mut Draw) -> Vec<At<Step<Self>>>;

    /// The client of a process that starts.
    fn client(&self, life: &Life) -> Client {
        life.client.clone()
    }

    /// Whether the controller may make this write now, which is none to a Lease or an event.
    fn permits(&mut self, server: &Server, write: &Request) -> Result<(), String>;

    /// What the rules make of the objects that others left alone, where the controller deletes objects at a time.
    fn ends(&self, server: &Server) -> Ends {
        let _ = server;
        Ends::new()
    }

    /// Whether everything is as the rules want it, whatever happened before.
    fn settled(&mut self, server: &Server) -> Result<(), String> {
        settled(&self.ends(server))
    }

    /// What must be the same in the end as without the faults.
    fn state(&self, server: &Server) -> State {
        state(self.ends(server))
    }

    /// What else must hold of the whole run.
    fn afterwards(&self, server: &Server, history: &History<Step<Self>>) -> Result<(), String> {
        if history.troubles.is_empty() {
            prompt(&self.ends(server), Self::PROMPTLY)
        } else {
            Ok(())
        }
    }
}

/// The histories of a scene, with its controller or with one that has a bug.
pub struct Histories<S: Scene> {
    run: Run<ConfigOf<S::App>>,
    scene: Arc<Mutex<S>>,
}

/// Something that others do at a time: in words, and as it is done. What it is about may be missing, for a history that is
/// shrunk leaves steps out.
pub struct Step<S> {
    says: String,
    take: Take<S>,
}

type Take<S> = Arc<dyn Fn(&mut S, &Server) + Send + Sync>;

/// A step.
pub fn step<S>(says: impl Into<String>, take: impl Fn(&mut S, &Server) + Send + Sync + 'static) -> Step<S> {
    Step {
        says: says.into(),
        take: Arc::new(take),
    }
}

/// Changes an object, if it is there.
pub fn edits<S>(
    says: impl Into<String>,
    resource: &'static Resource,
    name: String,
    edit: impl Fn(&mut Value) + Send + Sync + 'static,
) -> Step<S> {
    step(says, move |_, server| {
        objects::edit(server, resource, &name, &edit);
    })
}

/// Deletes an object, if it is there.
pub fn deletes<S>(resource: &'static Resource, name: String) -> Step<S> {
    let says = format!("{} {name} is deleted", resource.kind);
    step(says, move |_, server| objects::delete(server, resource, &name))
}

impl<S> Clone for Step<S> {
    fn clone(&self) -> Self {
        Self {
            says: self.says.clone(),
            take: Arc::clone(&self.take),
        }
    }
}

impl<S> fmt::Display for Step<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.says)
    }
}

impl<S: Scene> Histories<S> {
    /// With the controller as it is.
    pub fn sound() -> Self {
        Self::of(run_of::<S::App>())
    }

    /// With a controller in surroundings that `bug` has changed.
    pub fn with(bug: impl Fn(Env) -> Env + Send + Sync + 'static) -> Self {
        let run = run_of::<S::App>();
        Self::of(Arc::new(move |config, env| run(config, bug(env))))
    }

    /// With a controller that runs so.
    pub fn of(run: Run<ConfigOf<S::App>>) -> Self {
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
    type Action = Step<S>;

    const NAME: &'static str = S::App::ABOUT.name;
    const RESOURCES: &'static [&'static Resource] = S::RESOURCES;
    const LENGTH: Duration = S::LENGTH;
    const SETTLES_WITHIN: Duration = S::SETTLES_WITHIN;

    fn fresh(&self) -> Self {
        Self::of(Arc::clone(&self.run))
    }

    fn actions(&self, draw: &mut Draw) -> Vec<At<Step<S>>> {
        S::steps(draw)
    }

    fn act(&self, server: &Server, step: &Step<S>) {
        (step.take)(&mut self.scene.lock(), server);
    }

    fn process(&self, life: Life) -> impl Future<Output = Result<(), String>> + Send + 'static {
        let client = self.scene.lock().client(&life);
        let run = Arc::clone(&self.run);
        let start = Start::of::<S::App>().running(move |config, env| run(config, env));
        start.live(Life { client, ..life })
    }

    fn settled(&self, server: &Server, _: &[At<Step<S>>]) -> Result<(), String> {
        self.scene.lock().settled(server)
    }

    fn state(&self, server: &Server) -> State {
        self.scene.lock().state(server)
    }

    fn permits(&self, server: &Server, request: &Request) -> Result<(), String> {
        if !request.verb.is_write() || matches!(&*request.resource, "leases" | "events") {
            return Ok(());
        }
        let permitted = self.scene.lock().permits(server, request);
        permitted.map_err(|why| format!("{why}: {request}"))
    }

    fn afterwards(&self, server: &Server, history: &History<Step<S>>) -> Result<(), String> {
        self.scene.lock().afterwards(server, history)
    }
}

/// The tests of the histories of a scene, as their module's own: `harness::histories!(Nodes)`.
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

/// Fails with the first seed whose history ends otherwise than without its faults, shrunk.
pub fn assert_sound(suite: &impl Suite) {
    if let Some(failure) = first_failure(suite, seeds_to_run(SEEDS).unwrap(), Shrink::Everything) {
        panic!("{failure}");
    }
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

/// Prints the history of each seed that `$FAULT_SEEDS` names, for `cargo xtask fault`; fails when one of them does.
pub fn tell(suite: &impl Suite) {
    let mut failed = Vec::new();
    for seed in seeds_to_run(1).unwrap() {
        let report = report(suite, seed);
        println!("{report}");
        failed.extend(report.failure.map(|failure| failure.seed));
    }
    assert_eq!(failed, Vec::<u64>::new(), "these seeds fail");
}

/// Whether the API server refuses a write because the object is not the one that was judged: `judged` has its uid, its
/// resourceVersion or neither.
pub fn is_refused(object: &Value, judged: &Value) -> bool {
    let differs = |field: &str| !judged[field].is_null() && judged[field] != object["metadata"][field];
    differs("uid") || differs("resourceVersion")
}

/// What the rules make of an object in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was never due.
    Lives,
    /// It is due for good.
    Goes,
    /// It was due, for so many milliseconds at most, when it was saved: a controller that was held up, or that did not
    /// see, finds it saved.
    MayGo(i64),
}

impl Fate {
    /// Of one that was overdue for so long, if it was due: for ever is [`i64::MAX`].
    pub const fn of(overdue: Option<i64>) -> Self {
        match overdue {
            None => Self::Lives,
            Some(i64::MAX) => Self::Goes,
            Some(overdue) => Self::MayGo(overdue),
        }
    }
}

/// By name what the rules make of each object, and whether it lives.
pub type Ends = BTreeMap<String, (Fate, bool)>;

/// What became of an object, whoever did it. Times are in milliseconds since the start.
#[derive(Clone, Debug)]
pub struct Past<T> {
    /// Others may have had it before.
    pub name: String,
    /// What the API server calls it by.
    pub uid: String,
    /// What the rules ask about it, each from a moment on.
    pub told: Vec<(i64, T)>,
    /// When somebody else than the controller deleted it.
    pub until: Option<i64>,
}

impl<T: Clone> Past<T> {
    /// Since when it is there.
    pub fn from(&self) -> i64 {
        self.told[0].0
    }

    /// What it was told last.
    pub fn last(&self) -> &T {
        &self.told[self.told.len() - 1].1
    }

    /// Until when that of this place held, if something else did later.
    pub fn told_until(&self, place: usize) -> Option<i64> {
        self.told.get(place + 1).map(|next| next.0)
    }
}

/// Of all objects that there were, in the order of their beginning.
#[derive(Debug)]
pub struct Pasts<T>(pub Vec<Past<T>>);

impl<T> Default for Pasts<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Clone> Pasts<T> {
    /// Makes an object; one of its name is gone.
    pub fn create(&mut self, server: &Server, object: Value, told: T) {
        let name = objects::name(&object);
        self.end(server, &name);
        let made = server.insert(object).unwrap();
        self.0.push(Past {
            name,
            uid: objects::uid(&made),
            told: vec![(millis(server.elapsed()), told)],
            until: None,
        });
    }

    /// Changes what the object of this name is told, if there is one; what it is told now.
    pub fn tell(&mut self, server: &Server, name: &str, change: impl FnOnce(&mut T)) -> Option<T> {
        let past = self
            .0
            .iter_mut()
            .find(|past| past.name == name && past.until.is_none())?;
        let mut told = past.last().clone();
        change(&mut told);
        past.told.push((millis(server.elapsed()), told.clone()));
        Some(told)
    }

    /// Deletes the object of this name, if there is one.
    pub fn delete(&mut self, server: &Server, resource: &'static Resource, name: &str) {
        objects::delete(server, resource, name);
        self.end(server, name);
    }

    fn end(&mut self, server: &Server, name: &str) {
        for past in self.0.iter_mut().filter(|past| past.name == name) {
            past.until.get_or_insert(millis(server.elapsed()));
        }
    }

    /// What `fate` makes of the last object of each name, where nobody deleted it.
    pub fn ends(
        &self,
        server: &Server,
        resource: &'static Resource,
        fate: impl Fn(&Past<T>) -> Fate,
    ) -> Ends {
        let lives = |past: &Past<T>| {
            let found = objects::find(server, resource, &past.name);
            objects::stays(
                found
                    .as_ref()
                    .filter(|found| found["metadata"]["uid"] == past.uid),
            )
        };
        let left = self.0.iter().filter(|past| past.until.is_none());
        left.map(|past| (past.name.clone(), (fate(past), lives(past))))
            .collect()
    }
}

/// The controller's wall clock, where it is right.
pub fn now(server: &Server) -> Timestamp {
    at(millis(server.elapsed()))
}

/// So many milliseconds after the start.
pub fn at(millis: i64) -> Timestamp {
    START.checked_add(SignedDuration::from_millis(millis)).unwrap()
}

/// In milliseconds.
pub fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap()
}

/// Whole seconds since the start.
pub fn second(server: &Server) -> i64 {
    millis(server.elapsed()) / 1000
}

/// Fails with the first object that should not be there, or should be.
fn settled(ends: &Ends) -> Result<(), String> {
    for (name, end) in ends {
        match end {
            (Fate::Goes, true) => return Err(format!("{name} is still there")),
            (Fate::Lives, false) => return Err(format!("{name} is gone")),
            _ => {}
        }
    }
    Ok(())
}

/// What is the same in the end without faults: what saved an object too late, or just in time, depends on what held the
/// controller up.
fn state(ends: Ends) -> State {
    let told = |end| match end {
        (Fate::MayGo(_), _) => "lives or is gone",
        (_, true) => "lives",
        (_, false) => "is gone",
    };
    ends.into_iter()
        .map(|(name, end)| (name, told(end).to_owned()))
        .collect()
}

/// Fails with the first object that stayed much longer than it should, or went much earlier.
fn prompt(ends: &Ends, within: i64) -> Result<(), String> {
    for (name, end) in ends {
        match *end {
            (Fate::MayGo(overdue), true) if overdue > within => {
                return Err(format!("{name} was due for {overdue} ms and lives"));
            }
            (Fate::MayGo(overdue), false) if overdue < -within => {
                return Err(format!("{name} went {} ms early", -overdue));
            }
            _ => {}
        }
    }
    Ok(())
}
