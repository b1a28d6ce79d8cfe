//! A controller next to the embedded API server, both in the test. Time is tokio's, paused.

use std::time::Duration;

use controller_core::config::ControllerConfig;
use controller_runtime::clock::Clock;
use embedded_apiserver::{
    EVENTS, Fault, LEASES, Mark, RecordedRequest, RecordedRequests, RequestVerb, Resource, Server,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::account::NAMESPACE;
use crate::objects::{self, event_line, rfc3339, stays, text};
use crate::process::{Running, Start};
use crate::sim::START;

/// The `World` of a controller's tests, which derefs to [`World`] and adds methods; and the `process` that it starts,
/// with `limits` if the default ones would get in the way.
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

/// An API server, and how to start the controller next to it.
///
/// A name means an existing object of the resource that the tests are about, in the namespace `default` or in none,
/// unless a method says otherwise.
pub struct World<C> {
    pub server: Server,
    /// The clock of the server and of the test.
    pub clock: Clock,
    process: fn() -> Start<C>,
    resource: &'static Resource,
}

impl<C: ControllerConfig + Default + Send + 'static> World<C> {
    /// Without objects. `process` is how the controller starts by default; the tests are about objects of `resource`.
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

    /// Starts the controller, and lets this many seconds pass.
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

    /// Starts the controller with a wall clock that is this many seconds ahead of the server's; negative: behind.
    pub fn start_with_clock_ahead(&self, seconds: i64) -> Running {
        let clock = Clock::starting_at(self.later(seconds));
        (self.process)().start(self.client(), &clock)
    }

    /// The controller's client.
    pub fn client(&self) -> kube::Client {
        self.server.client_as(&self.agent())
    }

    /// How the controller starts by default.
    pub fn process(&self) -> Start<C> {
        (self.process)()
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

    /// The time in this many seconds, as the API server writes times.
    pub fn seconds(&self, seconds: i64) -> String {
        rfc3339(self.later(seconds))
    }

    /// Lets this many seconds pass.
    pub async fn pass(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    /// Lets this many milliseconds pass.
    pub async fn pass_millis(&self, millis: u64) {
        self.clock.sleep(Duration::from_millis(millis)).await;
    }

    /// Lets time pass until `is` returns true; fails after ten minutes.
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

    /// Makes the watches of `resource` lag this many seconds behind.
    pub fn lag(&self, resource: &'static str, seconds: u64) {
        let fault = Fault::WatchLags(Duration::from_secs(seconds));
        self.fail_those(usize::MAX, move |request| request.resource == resource, fault);
    }

    /// Makes the next requests for which `which` holds meet the fault.
    pub fn fail_those(
        &self,
        count: usize,
        which: impl Fn(&RecordedRequest) -> bool + Send + Sync + 'static,
        fault: Fault,
    ) {
        self.server.fail_next(count, which, fault);
    }

    /// Makes the next `count` requests of this kind meet the fault.
    pub fn fail_next(&self, count: usize, verb: RequestVerb, resource: &'static str, fault: Fault) {
        let is_such = move |request: &RecordedRequest| request.verb == verb && request.resource == resource;
        self.fail_those(count, is_such, fault);
    }

    /// Makes all writes of objects in this namespace meet the fault from now on.
    pub fn fail_in(&self, namespace: &'static str, fault: &Fault) {
        let is_such =
            move |request: &RecordedRequest| request.verb.is_write() && request.namespace == namespace;
        self.fail_those(usize::MAX, is_such, fault.clone());
    }

    pub fn insert(&self, object: Value) -> Value {
        self.server.insert(object).unwrap()
    }

    pub fn get(&self, name: &str) -> Value {
        self.get_of(self.resource, name)
    }

    /// An existing object of another resource.
    pub fn get_of(&self, resource: &'static Resource, name: &str) -> Value {
        objects::find(&self.server, resource, name).unwrap()
    }

    /// The uid of an object.
    pub fn uid(&self, name: &str) -> String {
        objects::uid(&self.get(name))
    }

    /// True if an object exists and has not been deleted.
    pub fn lives(&self, name: &str) -> bool {
        stays(objects::find(&self.server, self.resource, name).as_ref())
    }

    /// [`lives`](Self::lives) after this many seconds.
    pub async fn lives_after(&self, seconds: u64, name: &str) -> bool {
        self.pass(seconds).await;
        self.lives(name)
    }

    /// The number of objects that have not been deleted.
    pub fn alive(&self) -> usize {
        let objects = self.server.list(self.resource);
        objects.iter().filter(|object| stays(Some(object))).count()
    }

    /// [`alive`](Self::alive) after this many seconds.
    pub async fn alive_after(&self, seconds: u64) -> usize {
        self.pass(seconds).await;
        self.alive()
    }

    pub fn edit(&self, name: &str, edit: impl FnOnce(&mut Value)) {
        self.edit_of(self.resource, name, edit);
    }

    /// Changes an object of another resource.
    pub fn edit_of(&self, resource: &'static Resource, name: &str, edit: impl FnOnce(&mut Value)) {
        self.server.edit(resource, "default", name, edit).unwrap();
    }

    /// Deletes an object, which is gone at once.
    pub fn delete(&self, name: &str) {
        self.delete_of(self.resource, name);
    }

    /// Deletes an object of another resource.
    pub fn delete_of(&self, resource: &'static Resource, name: &str) {
        self.server.delete(resource, "default", name).unwrap();
    }

    /// Gives the pod a deletionTimestamp, and holds it with a finalizer.
    pub fn terminate(&self, pod: &str) {
        objects::terminate(&self.server, pod);
    }

    /// All requests of the controller.
    pub fn ours(&self) -> RecordedRequests {
        let agent = self.agent();
        self.server.requests().only(|request| request.user_agent == agent)
    }

    /// The controller's requests about objects since `mark`, without lists, watches, events and Leases.
    pub fn sent_since(&self, mark: Mark) -> RecordedRequests {
        let agent = self.agent();
        self.server.requests_since(mark).only(|request| {
            let is_call = !matches!(request.verb, RequestVerb::List | RequestVerb::Watch);
            let is_aside = matches!(&*request.resource, "events" | "leases" | "");
            is_call && !is_aside && request.user_agent == agent
        })
    }

    /// [`sent_since`](Self::sent_since) as `verb path body`.
    pub fn requests_since(&self, mark: Mark) -> Vec<String> {
        self.sent_since(mark).lines()
    }

    /// Verb, resource and code of [`sent_since`](Self::sent_since), in order.
    pub fn calls_since(&self, mark: Mark) -> Vec<String> {
        let line = |request: &RecordedRequest| {
            let code = request
                .code
                .map_or_else(|| "-".to_owned(), |code| code.to_string());
            let what = format!("{}/{}", request.resource, request.subresource);
            format!("{} {} {code}", request.verb, what.trim_end_matches('/'))
        };
        self.sent_since(mark).iter().map(line).collect()
    }

    /// All writes of the controller, events included, as `verb path body`.
    pub fn all_writes(&self) -> Vec<String> {
        self.ours().writes().lines()
    }

    /// The controller's writes of the resource that the tests are about, as `verb path body`.
    pub fn writes(&self) -> Vec<String> {
        self.ours().writes().to(self.resource.plural).lines()
    }

    /// The controller's reads of single objects of `resource`.
    pub fn reads_of(&self, resource: &'static Resource) -> RecordedRequests {
        self.ours()
            .to(resource.plural)
            .only(|request| request.verb == RequestVerb::Get)
    }

    /// Object, type, reason and note of every event, ordered by time.
    pub fn events(&self) -> Vec<String> {
        let mut events = self.server.list(&EVENTS);
        events.sort_by_cached_key(|event| (text(&event["eventTime"]), event_line(event)));
        events.iter().map(event_line).collect()
    }

    /// How often events with this reason were published, repeats included.
    pub fn count_events(&self, reason: &str) -> i64 {
        let events = self.server.list(&EVENTS);
        let these = events.iter().filter(|event| event["reason"] == reason);
        these
            .map(|event| event["series"]["count"].as_i64().unwrap_or(1))
            .sum()
    }

    /// Makes `holder` hold the Lease from now on.
    pub fn lease_held_by(&self, holder: &str) {
        let now = self.clock.now();
        self.insert(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"namespace": NAMESPACE, "name": self.name()},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 0,
                     "acquireTime": format!("{now:.6}"), "renewTime": format!("{now:.6}")}
        }));
    }

    /// Writes `thief` into the Lease as its holder.
    pub fn steal_lease(&self, thief: &str) {
        let steal = |lease: &mut Value| lease["spec"]["holderIdentity"] = thief.into();
        self.server.edit(&LEASES, NAMESPACE, self.name(), steal).unwrap();
    }

    /// The holder of the Lease, if there is one.
    pub fn lease_holder(&self) -> Option<String> {
        let lease = self.server.get(&LEASES, NAMESPACE, self.name())?;
        lease["spec"]["holderIdentity"].as_str().map(str::to_owned)
    }
}
