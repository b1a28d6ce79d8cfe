//! A controller beside the embedded API server, both in the test. Time is tokio's, paused.

use std::time::Duration;

use controller_core::clock::Clock;
use controller_core::config::ControllerConfig;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use testkit::embedded::{EVENTS, Fault, LEASES, Mark, Request, Requests, Resource, Server, Verb};

use crate::objects::{rfc3339, terminate, text};
use crate::sim::START;
use crate::{NAMESPACE, Running, Start};

/// An API server, and how the controller is started beside it.
pub struct World<C> {
    /// The API server.
    pub server: Server,
    /// The server's time, and that of the test.
    pub clock: Clock,
    process: fn() -> Start<C>,
}

impl<C: ControllerConfig + Default + Send + 'static> World<C> {
    /// Without any object; `process` is how the controller is started, unless a test says otherwise.
    pub fn new(process: fn() -> Start<C>) -> Self {
        Self {
            server: Server::starting_at(START),
            clock: Clock::starting_at(START),
            process,
        }
    }

    /// Starts the controller.
    pub fn start(&self) -> Running {
        self.start_with((self.process)())
    }

    /// Starts it so.
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

    /// Lets everything happen that is due at once.
    pub async fn settle(&self) {
        self.pass_millis(100).await;
    }

    /// The watches of `resource` lag this many seconds behind.
    pub fn lag(&self, resource: &'static str, seconds: u64) {
        let fault = Fault::WatchLags(Duration::from_secs(seconds));
        self.server
            .fail_next(usize::MAX, move |request| request.resource == resource, fault);
    }

    /// The next requests of this kind meet this.
    pub fn fail_next(&self, count: usize, verb: Verb, resource: &'static str, fault: Fault) {
        let is_such = move |request: &Request| request.verb == verb && request.resource == resource;
        self.server.fail_next(count, is_such, fault);
    }

    /// Makes an object.
    pub fn insert(&self, object: Value) -> Value {
        self.server.insert(object).unwrap()
    }

    /// The uid of an object in the namespace `default`.
    pub fn uid_of(&self, resource: &'static Resource, name: &str) -> String {
        let object = self.server.get(resource, "default", name).unwrap();
        text(&object["metadata"]["uid"])
    }

    /// Gives the pod a deletionTimestamp; nobody lets it end.
    pub fn terminate(&self, pod: &str) {
        terminate(&self.server, pod);
    }

    /// Every request of the controller.
    pub fn ours(&self) -> Requests {
        let agent = self.agent();
        self.server.requests().only(|request| request.user_agent == agent)
    }

    /// Its requests since `mark` that are no lists, watches or events.
    pub fn sent_since(&self, mark: Mark) -> Requests {
        let agent = self.agent();
        self.server.requests_since(mark).only(|request| {
            let is_call = !matches!(request.verb, Verb::List | Verb::Watch) && request.resource != "events";
            is_call && request.user_agent == agent
        })
    }

    /// The same as `verb path body`.
    pub fn requests_since(&self, mark: Mark) -> Vec<String> {
        self.sent_since(mark).lines()
    }

    /// Every write of the controller, events included, as `verb path body`.
    pub fn all_writes(&self) -> Vec<String> {
        self.ours().writes().lines()
    }

    /// Object, type, reason and note of every event, in order of time.
    pub fn events(&self) -> Vec<String> {
        let mut events = self.server.list(&EVENTS);
        let line = |event: &Value| {
            let object = &event["regarding"]["name"];
            let parts = [object, &event["type"], &event["reason"], &event["note"]];
            parts.map(text).join(" ")
        };
        events.sort_by_cached_key(|event| (text(&event["eventTime"]), line(event)));
        events.iter().map(line).collect()
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
