//! A controller beside the embedded API server, both in the test. Time is tokio's, paused.

use std::time::Duration;

use controller_core::clock::Clock;
use controller_core::config::ControllerConfig;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use testkit::embedded::{EVENTS, Fault, LEASES, Mark, Request, Requests, Resource, Server, Verb};

use crate::account::NAMESPACE;
use crate::objects::{self, event_line, rfc3339, stays, text};
use crate::process::{Running, Start};
use crate::sim::START;

/// The `World` of a controller's tests: [`World`], whose methods it has, with more of its own; and the `process` that it
/// starts, with `limits` where the default ones are not to be met.
#[macro_export]
macro_rules! world {
    ($app:ty, $resource:expr $(, limits: ($qps:expr, $burst:expr))?) => {
        pub(crate) struct World($crate::world::World<$crate::ConfigOf<$app>>);

        impl std::ops::Deref for World {
            type Target = $crate::world::World<$crate::ConfigOf<$app>>;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        impl World {
            pub(crate) fn new() -> Self {
                Self($crate::world::World::new(process, $resource))
            }
        }

        pub(crate) fn process() -> $crate::Start<$crate::ConfigOf<$app>> {
            $crate::Start::of::<$app>()$(.limits($qps, $burst))?
        }
    };
}

/// The test that a dry run shows these actions, in the order of their names, before it plans one; from a file that has
/// `World` and `process`.
#[macro_export]
macro_rules! shows_planned {
    ($actions:expr) => {
        #[tokio::test(start_paused = true)]
        async fn a_dry_run_shows_each_action_before_it_plans_one() {
            let world = World::new();
            let dry = process().configured(|config| config.common.dry_run = true);
            let controller = world.start_with(dry);
            world.pass(10).await;
            assert_eq!(
                controller.planned(),
                $actions.map(|action: &str| (action.to_owned(), 0))
            );
        }
    };
}

/// An API server, and how the controller is started beside it.
///
/// What a name stands for is an object of the resource that the tests are about, unless a method says otherwise. It is there,
/// in the namespace `default` or in none.
pub struct World<C> {
    pub server: Server,
    /// The server's time, and that of the test.
    pub clock: Clock,
    process: fn() -> Start<C>,
    resource: &'static Resource,
}

impl<C: ControllerConfig + Default + Send + 'static> World<C> {
    /// Without any object; `process` is how the controller is started, unless a test says otherwise. The tests are about
    /// objects of `resource`.
    pub fn new(process: fn() -> Start<C>, resource: &'static Resource) -> Self {
        Self {
            server: Server::starting_at(START),
            clock: Clock::starting_at(START),
            process,
            resource,
        }
    }

    pub fn start(&self) -> Running {
        self.start_with((self.process)())
    }

    /// Starts the controller, and lets so many seconds pass.
    pub async fn start_and_pass(&self, seconds: u64) -> Running {
        let running = self.start();
        self.pass(seconds).await;
        running
    }

    /// Starts the controller, and lets everything happen that is due at once.
    pub async fn start_and_settle(&self) -> Running {
        let running = self.start();
        self.settle().await;
        running
    }

    pub fn start_with(&self, start: Start<C>) -> Running {
        start.start(self.client(), &self.clock)
    }

    /// Starts it with a wall clock that is this many seconds ahead of the server's, or behind it.
    pub fn start_with_clock_ahead(&self, seconds: i64) -> Running {
        let clock = Clock::starting_at(self.later(seconds));
        (self.process)().start(self.client(), &clock)
    }

    /// The controller's way to the server.
    pub fn client(&self) -> kube::Client {
        self.server.client_as(&self.agent())
    }

    fn name(&self) -> &'static str {
        (self.process)().name
    }

    /// The user agent of the controller.
    fn agent(&self) -> String {
        format!("{}/test", self.name())
    }

    fn later(&self, seconds: i64) -> Timestamp {
        let later = self.clock.now().checked_add(SignedDuration::from_secs(seconds));
        later.unwrap()
    }

    /// So many seconds from now, as the API server writes times.
    pub fn seconds(&self, seconds: i64) -> String {
        rfc3339(self.later(seconds))
    }

    /// Lets so many seconds pass.
    pub async fn pass(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    /// Lets so many milliseconds pass.
    pub async fn pass_millis(&self, millis: u64) {
        self.clock.sleep(Duration::from_millis(millis)).await;
    }

    /// Lets time pass until it is so, within ten minutes.
    pub async fn until(&self, is: impl Fn() -> bool) {
        for _ in 0..600_000 {
            if is() {
                return;
            }
            self.pass_millis(1).await;
        }
        panic!("not so after ten minutes");
    }

    /// Lets everything happen that is due at once.
    pub async fn settle(&self) {
        self.pass_millis(100).await;
    }

    /// The watches of `resource` lag this many seconds behind.
    pub fn lag(&self, resource: &'static str, seconds: u64) {
        let fault = Fault::WatchLags(Duration::from_secs(seconds));
        self.fail_those(usize::MAX, move |request| request.resource == resource, fault);
    }

    /// The next requests that `which` names meet this.
    pub fn fail_those(
        &self,
        count: usize,
        which: impl Fn(&Request) -> bool + Send + Sync + 'static,
        fault: Fault,
    ) {
        self.server.fail_next(count, which, fault);
    }

    /// The next requests of this kind meet this.
    pub fn fail_next(&self, count: usize, verb: Verb, resource: &'static str, fault: Fault) {
        let is_such = move |request: &Request| request.verb == verb && request.resource == resource;
        self.fail_those(count, is_such, fault);
    }

    /// All writes of objects in this namespace meet this from now on.
    pub fn fail_in(&self, namespace: &'static str, fault: &Fault) {
        let is_such = move |request: &Request| request.verb.is_write() && request.namespace == namespace;
        self.fail_those(usize::MAX, is_such, fault.clone());
    }

    pub fn insert(&self, object: Value) -> Value {
        self.server.insert(object).unwrap()
    }

    pub fn get(&self, name: &str) -> Value {
        self.get_of(self.resource, name)
    }

    /// One of another resource.
    pub fn get_of(&self, resource: &'static Resource, name: &str) -> Value {
        objects::find(&self.server, resource, name).unwrap()
    }

    /// The uid of an object.
    pub fn uid(&self, name: &str) -> String {
        objects::uid(&self.get(name))
    }

    /// Whether an object is there and nobody has deleted it.
    pub fn lives(&self, name: &str) -> bool {
        stays(objects::find(&self.server, self.resource, name).as_ref())
    }

    /// The same after so many seconds.
    pub async fn lives_after(&self, seconds: u64, name: &str) -> bool {
        self.pass(seconds).await;
        self.lives(name)
    }

    /// How many there are that nobody has deleted.
    pub fn alive(&self) -> usize {
        let objects = self.server.list(self.resource);
        objects.iter().filter(|object| stays(Some(object))).count()
    }

    /// The same after so many seconds.
    pub async fn alive_after(&self, seconds: u64) -> usize {
        self.pass(seconds).await;
        self.alive()
    }

    pub fn edit(&self, name: &str, edit: impl FnOnce(&mut Value)) {
        self.edit_of(self.resource, name, edit);
    }

    /// Changes one of another resource.
    pub fn edit_of(&self, resource: &'static Resource, name: &str, edit: impl FnOnce(&mut Value)) {
        self.server.edit(resource, "default", name, edit).unwrap();
    }

    /// Deletes an object, which is gone at once.
    pub fn delete(&self, name: &str) {
        self.delete_of(self.resource, name);
    }

    /// Deletes one of another resource.
    pub fn delete_of(&self, resource: &'static Resource, name: &str) {
        self.server.delete(resource, "default", name).unwrap();
    }

    /// Gives the pod a deletionTimestamp; nobody lets it end.
    pub fn terminate(&self, pod: &str) {
        objects::terminate(&self.server, pod);
    }

    /// Every request of the controller.
    pub fn ours(&self) -> Requests {
        let agent = self.agent();
        self.server.requests().only(|request| request.user_agent == agent)
    }

    /// Its requests since `mark` that are no lists or watches, and are for an object, events and Leases aside.
    pub fn sent_since(&self, mark: Mark) -> Requests {
        let agent = self.agent();
        self.server.requests_since(mark).only(|request| {
            let is_call = !matches!(request.verb, Verb::List | Verb::Watch);
            let is_aside = matches!(&*request.resource, "events" | "leases" | "");
            is_call && !is_aside && request.user_agent == agent
        })
    }

    /// The same as `verb path body`.
    pub fn requests_since(&self, mark: Mark) -> Vec<String> {
        self.sent_since(mark).lines()
    }

    /// Verb, resource and code of each of them, in order.
    pub fn calls_since(&self, mark: Mark) -> Vec<String> {
        let line = |request: &Request| {
            let code = request
                .code
                .map_or_else(|| "-".to_owned(), |code| code.to_string());
            let what = format!("{}/{}", request.resource, request.subresource);
            format!("{} {} {code}", request.verb, what.trim_end_matches('/'))
        };
        self.sent_since(mark).iter().map(line).collect()
    }

    /// Every write of the controller, events included, as `verb path body`.
    pub fn all_writes(&self) -> Vec<String> {
        self.ours().writes().lines()
    }

    /// Its writes of objects of the resource that the tests are about, as `verb path body`.
    pub fn writes(&self) -> Vec<String> {
        self.ours().writes().to(self.resource.plural).lines()
    }

    /// Its reads of single objects of `resource`.
    pub fn reads_of(&self, resource: &'static Resource) -> Requests {
        self.ours()
            .to(resource.plural)
            .only(|request| request.verb == Verb::Get)
    }

    /// Object, type, reason and note of every event, in order of time.
    pub fn events(&self) -> Vec<String> {
        let mut events = self.server.list(&EVENTS);
        events.sort_by_cached_key(|event| (text(&event["eventTime"]), event_line(event)));
        events.iter().map(event_line).collect()
    }

    /// How often events of this reason were published, repeats included.
    pub fn count_events(&self, reason: &str) -> i64 {
        let events = self.server.list(&EVENTS);
        let these = events.iter().filter(|event| event["reason"] == reason);
        these
            .map(|event| event["series"]["count"].as_i64().unwrap_or(1))
            .sum()
    }

    /// Somebody holds the Lease, from now on.
    pub fn lease_held_by(&self, holder: &str) {
        let now = self.clock.now();
        self.insert(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"namespace": NAMESPACE, "name": self.name()},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 0,
                     "acquireTime": format!("{now:.6}"), "renewTime": format!("{now:.6}")}
        }));
    }

    /// Somebody writes this name into the Lease.
    pub fn steal_lease(&self, thief: &str) {
        let steal = |lease: &mut Value| lease["spec"]["holderIdentity"] = thief.into();
        self.server.edit(&LEASES, NAMESPACE, self.name(), steal).unwrap();
    }

    /// Who holds the Lease, if there is one.
    pub fn lease_holder(&self) -> Option<String> {
        let lease = self.server.get(&LEASES, NAMESPACE, self.name())?;
        lease["spec"]["holderIdentity"].as_str().map(str::to_owned)
    }
}
