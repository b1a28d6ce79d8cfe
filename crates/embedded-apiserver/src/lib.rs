//! An API server in this process, for tests under paused time.
//!
//! It answers like kube-apiserver 1.37 for the kinds in [`SERVED`]; what matters to a client (codes, reasons, messages,
//! versions, field ownership) was taken from a real one. Nothing depends on real time or chance, so every run is the
//! same.
//!
//! A file uses those of the layers below it, and in its own layer those listed before it (`tests/layers.rs` checks
//! that):
//!
//! | layer | files |
//! |---|---|
//! | forms: time, JSON, kinds | clock, signal, connections, syntax, object, conditions, `label_selector`, request, schema, resource |
//! | words: refusals, options, answers | failure, protobuf, encoding, reply, selector, options, discovery |
//! | objects: versions and history, rendering, merging and ownership | store, view, list, scale, merge, `json_patch`, patch, `managed_fields`, seed |
//! | rules: permissions, faults, the effects of writes | access, faults, `fault_plan`, write, definitions |
//! | state: shared by all requests | shared |
//! | requests: from a request to its answer | watch, call, delete, subresources, server, transport, loopback |
//! | actors: other components, which bypass the transports | actors |
//! | interface: for tests | objects |
//!
//! Unlike the real one, it runs no admission plugins (default taints and the like).

#![deny(missing_docs)]

mod access;
mod actors;
mod call;
mod clock;
mod conditions;
mod connections;
mod definitions;
mod delete;
mod discovery;
mod encoding;
mod failure;
mod fault_plan;
mod faults;
mod json_patch;
mod label_selector;
mod list;
mod loopback;
mod managed_fields;
mod merge;
mod object;
mod objects;
mod options;
mod patch;
mod protobuf;
mod reply;
mod request;
mod resource;
mod scale;
mod schema;
mod seed;
mod selector;
mod server;
mod shared;
mod signal;
mod store;
mod subresources;
mod syntax;
mod transport;
mod view;
mod watch;
mod write;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use jiff::{SignedDuration, Timestamp};

use clock::Clock;
use shared::Shared;
use store::Store;

pub use access::User;
pub use actors::{Acting, Actors, KubeletOptions};
pub use failure::StatusError;
pub use faults::{Fault, FaultRule};
pub use loopback::Loopback;
pub use protobuf::{from_protobuf, to_protobuf, watch_events};
pub use reply::Body;
pub use request::{RecordedRequest, RecordedRequests, RequestVerb};
pub use resource::Resource;
pub use resource::table::*;
pub use transport::Transport;

/// An API server. Clones are the same server.
#[derive(Clone, Debug)]
pub struct Server {
    shared: Arc<Shared>,
}

/// A position in the record of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(usize);

/// Constructors and clients.
impl Server {
    /// An empty server. `wall` is its wall clock, for `Date`, `creationTimestamp` and the like.
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

    /// Serves one of the resources in [`OFF_BY_DEFAULT`].
    pub fn serve(&self, resource: &'static Resource) {
        self.shared.served.write().push(resource);
    }

    /// Reads and writes JSON only, as a proxy or an aggregated server may.
    #[must_use]
    pub fn without_protobuf(self) -> Self {
        self.shared.protobuf.store(false, Ordering::Relaxed);
        self
    }

    /// A tower service on which clients can be built.
    pub fn transport(&self) -> Transport {
        Transport::new(self.shared.clone())
    }

    /// Serves HTTP on a loopback port, 0 for any, until the result is dropped.
    #[allow(clippy::unused_async, reason = "sockets need a runtime")]
    pub async fn listen(&self, port: u16) -> std::io::Result<Loopback> {
        Loopback::open(self.shared.clone(), port)
    }

    /// A client without a `User-Agent`.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.transport(), "default")
    }

    /// A client with a `User-Agent`; the part before the first `/` is its field manager.
    pub fn client_as(&self, user_agent: &str) -> kube::Client {
        kube::Client::new(self.transport().with_user_agent(user_agent), "default")
    }
}

/// The record of requests.
impl Server {
    /// All requests since the start, including those whose connection failed.
    pub fn requests(&self) -> RecordedRequests {
        self.requests_since(Mark(0))
    }

    /// Those of [`requests`](Self::requests) that `wanted` selects; the others are not copied.
    pub fn requests_where(&self, wanted: impl Fn(&RecordedRequest) -> bool) -> RecordedRequests {
        let requests = self.shared.requests.lock();
        let selected = requests.iter().filter(|request| wanted(request));
        RecordedRequests::new(selected.cloned().collect())
    }

    /// Calls `see` for each request when it is carried out: after its delays and before its effect; not for requests
    /// that a fault refuses. The last observer replaces earlier ones.
    pub fn observe(&self, see: impl Fn(&Self, &RecordedRequest) + Send + Sync + 'static) {
        let tell = move |shared: &Arc<Shared>, request: &RecordedRequest| {
            let server = Self {
                shared: shared.clone(),
            };
            see(&server, request);
        };
        *self.shared.observer.lock() = Some(shared::Observer(Arc::new(tell)));
    }

    /// Time since the start: the scale of [`RecordedRequest::arrived`].
    pub fn elapsed(&self) -> std::time::Duration {
        self.shared.elapsed()
    }

    /// The current end of the record.
    pub fn mark(&self) -> Mark {
        Mark(self.shared.requests.lock().len())
    }

    /// The requests that arrived after `mark`.
    pub fn requests_since(&self, mark: Mark) -> RecordedRequests {
        let requests = self.shared.requests.lock();
        RecordedRequests::new(requests.get(mark.0..).unwrap_or_default().to_vec())
    }
}

/// Users and their permissions.
impl Server {
    /// Lets the holder of `token` in as the user `name`.
    pub fn add_user(&self, name: &str, groups: &[&str], token: &str) -> User {
        let user = User::new(name, groups);
        self.shared.access.lock().admit(token, user.clone());
        user
    }

    /// Checks requests against the roles and bindings in the store from now on. Grants what every cluster grants from
    /// the start (discovery, health).
    pub fn enforce_rbac(&self) {
        self.shared.access.lock().enforce();
    }

    /// Lets users who may write a claim's `/status` allocate and reserve it, like servers before 1.36 and servers
    /// without the feature gate `DRAResourceClaimGranularStatusAuthorization`.
    #[must_use]
    pub fn without_granular_claim_status(self) -> Self {
        self.shared.access.lock().make_claim_status_coarse();
        self
    }

    /// A client that acts as `user` without credentials.
    pub fn client_for(&self, user: &User) -> kube::Client {
        kube::Client::new(self.transport().as_user(user.clone()), "default")
    }

    /// The permissions that roles grant to `user` and that none of its requests needed since enforcement began, sorted,
    /// one line each, e.g. `patch nodes/status`, `update leases.coordination.k8s.io "my-lease" in kube-system`, `get
    /// /metrics`.
    pub fn unused_permissions(&self, user: &User) -> Vec<String> {
        let store = self.shared.store.lock();
        self.shared.access.lock().unused(&store, user)
    }
}

/// Other components.
impl Server {
    /// Lets actors work until the result is dropped. Needs a tokio runtime.
    pub fn run(&self, actors: Actors) -> Acting {
        actors.act_on(&self.shared)
    }
}

impl Server {
    /// Makes the next `count` requests that match meet `fault`. Rules are tried in the order in which they were added;
    /// a request meets every delay up to the first other fault.
    pub fn fail_next(
        &self,
        count: usize,
        matches: impl Fn(&RecordedRequest) -> bool + Send + Sync + 'static,
        fault: Fault,
    ) {
        self.fail(FaultRule::new(fault).matching(matches).times(count));
    }

    /// Adds a rule.
    pub fn fail(&self, rule: FaultRule) {
        self.shared.faults.lock().add(rule);
    }

    /// Seeds the chances of [`FaultRule::probability`]; the default is 0.
    pub fn seed_faults(&self, seed: u64) {
        self.shared.faults.lock().seed(seed);
    }

    /// Removes all rules.
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

    /// Sets etcd back to what it held at `version`, as from a backup: the versions of later writes are given again. The
    /// server is restarted for that. Does nothing and returns false if the history does not reach so far. Definitions
    /// must be the same.
    pub fn set_back(&self, version: u64) -> bool {
        let is_set_back = self.shared.write(|store| store.set_back(version));
        if is_set_back {
            self.down();
        }
        is_set_back
    }

    /// Number of requests under [`Fault::LateEffect`] that have yet to take effect.
    pub fn late_effects(&self) -> usize {
        self.shared.late_effects.load(Ordering::Relaxed)
    }

    /// Number of open watches.
    pub fn open_watches(&self) -> usize {
        self.shared.watches.load(Ordering::Relaxed)
    }

    /// Ends all open watches in good order.
    pub fn close_watches(&self) {
        self.shared.connections.update(connections::Connections::close);
    }

    /// Shifts the `Date` of answers by `offset`, like a proxy with its own clock; positive: ahead.
    pub fn offset_date(&self, offset: SignedDuration) {
        self.shared.clock.offset_date(offset);
    }

    /// Shifts the server's clock by `offset`, positive: ahead. Affects `Date`, `creationTimestamp`, `deletionTimestamp`
    /// and the times of managed fields.
    pub fn offset_clock(&self, offset: SignedDuration) {
        self.shared.clock.offset(offset);
    }

    /// Forgets all history: lists, pages and watches from older versions are answered 410.
    pub fn compact(&self) {
        self.shared.write(Store::compact);
    }
}

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
