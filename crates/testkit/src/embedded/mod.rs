//! An API server in this process, for tests under paused time.
//!
//! It answers like kube-apiserver 1.36 for the kinds in [`resource`]; what it says where that matters to a
//! client (codes, reasons, messages, versions, field ownership) was read off a real one. Nothing in it
//! depends on real time or chance, so a run is the same every time.
//!
//! ```text
//! door ── server ──┬─ request               what was asked, kept for the test
//! loopback         ├─ access                who asks, and whether they may
//!                  ├─ protobuf              bodies of typed clients, read into JSON
//!                  ├─ discovery             what is served, and whether all is well
//!                  ├─ faults, connections   what goes wrong
//!                  ├─ reply                 answers and refusals
//!                  ├─ write ── write_options, decode, patch, apply, prepare, validation, managed_fields
//!                  ├─ deletion              how objects end
//!                  ├─ list, watch ── options, selector, view
//!                  ├─ subresources ── scale, eviction, binding, tokens
//!                  ├─ definitions           custom resources
//!                  └─ store                 objects as bytes, versions, history
//! actors ── store                            what other components do, past the doors
//! ```
//!
//! Not like the real one: admission (default taints and the like) does not run.

mod access;
mod actors;
mod apply;
mod binding;
mod call;
mod checks;
mod clock;
mod conditions;
mod connections;
mod course;
mod decode;
mod definitions;
mod deletion;
mod discovery;
mod door;
mod eviction;
mod failure;
mod faults;
mod json_patch;
mod label_selector;
mod list;
mod loopback;
mod managed_fields;
mod merge;
mod namespaces;
mod object;
mod options;
mod patch;
mod prepare;
mod protobuf;
mod reply;
mod request;
pub mod resource;
mod scale;
mod schema;
mod seed;
mod selector;
mod server;
mod signal;
mod store;
mod subresources;
mod validation;
mod view;
mod watch;
mod write;

use std::ops::ControlFlow;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use clock::Clock;
use deletion::DeleteOptions;
use managed_fields::{Part, Writer};
use server::Shared;
use store::Store;
use write::{Origin, Write};

pub use access::User;
pub use actors::{Acting, Actors, KubeletOptions};
pub use door::Door;
pub use failure::Failure;
pub use faults::{Fault, Rule};
pub use loopback::Loopback;
pub use reply::Body;
pub use request::{Request, Requests, Verb};
pub use resource::Resource;
pub use resource::table::*;
pub use schema::Types;

/// The field manager of writes that a test makes directly.
const TEST_MANAGER: &str = "test";

/// An API server. Clones are the same server.
#[derive(Clone, Debug)]
pub struct Server {
    shared: Arc<Shared>,
}

/// A place in the record of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(usize);

/// Starting it, and its clients.
impl Server {
    /// An empty server. `wall` is its wall clock, seen in `Date`, `creationTimestamp` and the like.
    pub fn new(wall: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self::with_clock(Clock::new(wall))
    }

    /// An empty server whose wall clock starts at `wall` and follows tokio's time.
    pub fn starting_at(wall: Timestamp) -> Self {
        Self::with_clock(Clock::starting_at(wall))
    }

    fn with_clock(clock: Clock) -> Self {
        Self {
            shared: Arc::new(Shared::new(clock)),
        }
    }

    /// Serves one more resource, as a custom resource definition would.
    pub fn serve(&self, resource: &'static Resource) {
        self.shared.served.write().push(resource);
    }

    /// A tower service to build clients on.
    pub fn door(&self) -> Door {
        Door::new(self.shared.clone())
    }

    /// Serves HTTP on a loopback port, 0 for any, until the result is dropped.
    #[allow(clippy::unused_async, reason = "sockets need a runtime")]
    pub async fn listen(&self, port: u16) -> std::io::Result<Loopback> {
        Loopback::open(self.shared.clone(), port)
    }

    /// A client that does not say who it is.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.door(), "default")
    }

    /// A client with a `User-Agent`; the part before the first `/` is its field manager.
    pub fn client_as(&self, user_agent: &str) -> kube::Client {
        kube::Client::new(self.door().with_user_agent(user_agent), "default")
    }
}

/// What clients asked for.
impl Server {
    /// Every request since the start, those included whose connection failed.
    pub fn requests(&self) -> Requests {
        self.requests_since(Mark(0))
    }

    /// Calls `see` for each request at the moment when it is carried out: after the faults that hold it
    /// back, before its effect; not for those that a fault refuses. There is one observer, the last.
    pub fn observe(&self, see: impl Fn(&Self, &Request) + Send + Sync + 'static) {
        *self.shared.observer.lock() = Some(server::Observer(Arc::new(see)));
    }

    /// How long it has run: the scale of [`Request::arrived`].
    pub fn elapsed(&self) -> std::time::Duration {
        self.shared.elapsed()
    }

    /// The end of the record as it is now.
    pub fn mark(&self) -> Mark {
        Mark(self.shared.requests.lock().len())
    }

    /// The requests that arrived after `mark`.
    pub fn requests_since(&self, mark: Mark) -> Requests {
        let requests = self.shared.requests.lock();
        Requests::new(requests.get(mark.0..).unwrap_or_default().to_vec())
    }
}

/// What goes wrong.
impl Server {
    /// Lets `fault` happen to the next `count` requests that match. Rules are tried in the order in which
    /// they were added; a request meets every delay up to the first other fault.
    pub fn fail_next(
        &self,
        count: usize,
        matches: impl Fn(&Request) -> bool + Send + Sync + 'static,
        fault: Fault,
    ) {
        self.fail(Rule::new(fault).matching(matches).times(count));
    }

    /// Lets a fault happen to the requests that a rule picks.
    pub fn fail(&self, rule: Rule) {
        self.shared.faults.lock().add(rule);
    }

    /// Where the chances of [`Rule::probability`] come from; 0 unless said otherwise.
    pub fn seed_faults(&self, seed: u64) {
        self.shared.faults.lock().seed(seed);
    }

    /// Forgets the faults that have not happened yet.
    pub fn clear_faults(&self) {
        self.shared.faults.lock().clear();
    }

    /// Makes the server unreachable: open watches break, requests fail to connect.
    pub fn down(&self) {
        self.shared.connections.update(connections::Connections::cut);
    }

    /// Makes the server reachable again.
    pub fn up(&self) {
        self.shared
            .connections
            .update(|connections| connections.down = false);
    }

    /// Restarts the server: connections break, requests fail until [`Server::up`], and watches from versions
    /// before the restart are answered 410, since the new process has not seen their events.
    pub fn restart(&self) {
        self.shared.write(Store::forget_events);
        self.down();
    }

    /// Ends all open watches in good order.
    pub fn close_watches(&self) {
        self.shared.connections.update(connections::Connections::close);
    }

    /// Puts the `Date` of answers ahead (or behind) by `offset`, as a proxy with a clock of its own does.
    pub fn offset_date(&self, offset: SignedDuration) {
        self.shared.clock.offset_date(offset);
    }

    /// Puts the server's clock ahead (or behind) by `offset`: `Date`, `creationTimestamp`,
    /// `deletionTimestamp` and the times of managed fields.
    pub fn offset_clock(&self, offset: SignedDuration) {
        self.shared.clock.offset(offset);
    }

    /// Forgets all history: lists, pages and watches from older versions are answered 410.
    pub fn compact(&self) {
        self.shared.write(Store::compact);
    }
}

/// Objects, past the doors. Writes count as those of a client named `test`; they are not recorded.
impl Server {
    /// The version of the last write.
    pub fn version(&self) -> u64 {
        self.shared.store.lock().version()
    }

    /// Creates an object, status included. `object` has `kind` and `apiVersion`; the namespace is
    /// `default` unless it says otherwise, and created if it is missing.
    pub fn insert(&self, object: Value) -> Result<Value, Failure> {
        let resource = self.resource_of(&object)?;
        let namespace = object["metadata"]["namespace"]
            .as_str()
            .unwrap_or("default")
            .to_owned();
        let stored = self.writing(resource, &namespace, "", |write| write.create(object))?;
        Ok(write::served(resource, &stored))
    }

    /// Reads an object; `namespace` is ignored where there is none.
    pub fn get(&self, resource: &'static Resource, namespace: &str, name: &str) -> Option<Value> {
        let store = self.shared.store.lock();
        let stored = store.get(resource, &write::key(resource, namespace, name))?;
        Some(write::served(resource, stored))
    }

    /// All objects of a resource, in order of namespace and name.
    pub fn list(&self, resource: &'static Resource) -> Vec<Value> {
        let store = self.shared.store.lock();
        let mut objects = Vec::new();
        let visited = store.visit(resource, "", None, store.version(), |_, stored| {
            objects.push(write::served(resource, stored));
            ControlFlow::Continue(())
        });
        // The present is never compacted.
        debug_assert_eq!(visited, Ok(()));
        objects
    }

    /// Changes an object, status included, whatever its version.
    pub fn edit(
        &self,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
        edit: impl FnOnce(&mut Value),
    ) -> Result<Value, Failure> {
        let mut object = self
            .get(resource, namespace, name)
            .ok_or_else(|| Failure::not_found(resource, name))?;
        edit(&mut object);
        let stored = self.writing(resource, namespace, name, |write| write.update(object))?;
        Ok(write::served(resource, &stored))
    }

    /// Deletes an object with grace 0 and without thought of its dependents; one with finalizers stays
    /// until they are gone.
    pub fn delete(&self, resource: &'static Resource, namespace: &str, name: &str) -> Result<(), Failure> {
        self.writing(resource, namespace, name, |write| {
            write.delete(&DeleteOptions::at_once())
        })?;
        Ok(())
    }

    /// Adds the nodes `node-1` to `node-<count>`, ready, about 5 KB of JSON each.
    pub fn seed_nodes(&self, count: usize) {
        let (now, at) = (self.shared.clock.now(), self.shared.clock.instant());
        self.shared.write(|store| {
            for number in 1..=count {
                let node = seed::node(number, store.next_identity(), &now);
                store.put(&NODES, &format!("node-{number}"), node, at);
            }
        });
    }

    /// Adds `count` running pods, about 11 KB of JSON each, spread evenly over the nodes that
    /// [`Self::seed_nodes`] made and over the namespaces `seed-0` to `seed-49`, twenty to a ReplicaSet.
    /// 150,000 of them take 2 GB of memory and a few seconds.
    pub fn seed_pods(&self, count: usize) {
        let (now, at) = (self.shared.clock.now(), self.shared.clock.instant());
        self.shared.write(|store| {
            let pods = seed::Pods::new(store.count(&NODES), &now);
            let first = store.count(&PODS) + 1;
            for number in first..first + count {
                let (namespace, name) = seed::Pods::place(number);
                let writer = Writer {
                    manager: TEST_MANAGER,
                    now: &now,
                };
                let created = namespaces::create_missing(store, &namespace, writer, at);
                debug_assert_eq!(created, Ok(()));
                let identity = store.next_identity();
                let key = write::key(&PODS, &namespace, &name);
                store.put_rendered(&PODS, &key, at, |version| pods.pod(number, identity, version));
            }
        });
    }

    fn resource_of(&self, object: &Value) -> Result<&'static Resource, Failure> {
        self.shared
            .served
            .read()
            .iter()
            .copied()
            .find(|resource| {
                object["kind"] == resource.kind && object["apiVersion"] == resource.api_version()
            })
            .ok_or_else(Failure::no_such_resource)
    }

    fn writing<T>(
        &self,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
        write: impl FnOnce(Write<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (now, at) = (self.shared.clock.now(), self.shared.clock.instant());
        self.shared.write(|store| {
            write(Write {
                store,
                resource,
                namespace,
                name,
                writer: Writer {
                    manager: TEST_MANAGER,
                    now: &now,
                },
                at,
                origin: Origin::Test,
                part: Part::Whole,
                dry_run: false,
                requester: None,
            })
        })
    }
}
