//! Stories that run twice: next to the embedded API server, where time is paused, and next to a real one.
//!
//! | file | holds |
//! |---|---|
//! | `process` | the process of a story: a controller inside the test, or its binary |
//! | `of_the_loop` | stories that hold for every controller, on the embedded API server |
//!
//! A story begins with nothing but the stage. It acts by requests as everybody does, and waits for what follows: on the
//! embedded API server, waiting moves the time.

mod of_the_loop;
mod process;

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use controller_core::app::App;
use controller_runtime::clock::Clock;
use embedded_apiserver::{RecordedRequest, Server};
use jiff::{SignedDuration, Timestamp};
use local_control_plane::Stop;

pub use self::of_the_loop::{LoopScene, LoopStory, writes_of_one_tenant_that_fail_keep_no_other_waiting};
pub use self::process::StoryProcess;
use crate::account::{NAMESPACE, user};
use crate::audit::Asked;
use crate::cluster::Cluster;
pub use crate::kinds::{Objects, until};
use crate::process::{Running, Start};
use crate::replica::SOON;
use crate::sim::START;

/// User agent of the stories on the embedded API server.
const PEOPLE: &str = "kubectl/test";
/// How late anything may be on the embedded API server.
const AT_ONCE: SignedDuration = SignedDuration::from_millis(20);

/// Where a story runs: an API server, and how to start the controller next to it.
pub struct StoryStage {
    objects: Objects,
    controller: &'static str,
    ground: Ground,
}

enum Ground {
    Embedded {
        server: Server,
        clock: Clock,
        start: fn(&Self, &[&str]) -> Running,
        /// Number of processes so far.
        started: AtomicUsize,
    },
    Real(Box<Cluster>),
}

/// The tests of the stories named, next to the embedded API server, of the controller `crate::Told`.
#[macro_export]
#[allow(
    clippy::crate_in_macro_def,
    reason = "the crate of the stories names its controller"
)]
macro_rules! told_on_embedded {
    ($($story:ident),* $(,)?) => {
        mod on_embedded {
            $(
                #[tokio::test(start_paused = true)]
                async fn $story() {
                    super::$story($crate::stories::StoryStage::embedded::<crate::Told>()).await;
                }
            )*
        }
    };
}

/// The tests of the stories named, next to a real API server.
#[macro_export]
#[allow(
    clippy::crate_in_macro_def,
    reason = "the crate of the stories has its cluster"
)]
macro_rules! told_on_real {
    ($($story:ident),* $(,)?) => {
        mod live_on_real {
            $(
                #[tokio::test(flavor = "multi_thread")]
                #[ignore = "needs a control plane: cargo xtask test"]
                async fn $story() {
                    let cluster = crate::support::Cluster::new().await;
                    super::$story($crate::stories::StoryStage::real(cluster.0)).await;
                }
            )*
        }
    };
}

impl StoryStage {
    /// Next to the embedded API server, for a test with paused time.
    pub fn embedded<A>() -> Self
    where
        A: App<Config: Default> + 'static,
    {
        let (server, clock) = (Server::starting_at(START), Clock::starting_at(START));
        Self {
            objects: Objects::of(server.client_as(PEOPLE)),
            controller: A::ABOUT.name,
            ground: Ground::Embedded {
                server,
                clock,
                start: Ground::start::<A>,
                started: AtomicUsize::default(),
            },
        }
    }

    /// Next to a real API server.
    pub fn real(cluster: Cluster) -> Self {
        Self {
            objects: Objects::of(cluster.control_plane.client()),
            controller: cluster.chart.controller(),
            ground: Ground::Real(Box::new(cluster)),
        }
    }

    /// The real cluster, on a real stage.
    pub fn on_real(&self) -> Option<&Cluster> {
        match &self.ground {
            Ground::Embedded { .. } => None,
            Ground::Real(cluster) => Some(cluster),
        }
    }

    /// Starts the controller with these flags: inside the test, or as its binary with the permissions of its chart.
    pub fn start(&self, flags: &[&str]) -> StoryProcess {
        match &self.ground {
            Ground::Embedded { start, .. } => StoryProcess::Inside(start(&self.ground, flags)),
            Ground::Real(cluster) => StoryProcess::Binary(cluster.start(flags)),
        }
    }

    /// Starts the controller and waits until it leads.
    pub async fn start_leading(&self, flags: &[&str]) -> StoryProcess {
        let process = self.start(flags);
        process.until_leading().await;
        process
    }

    /// Starts another process, and waits until its cache has `count` objects of `resource`; it does not lead.
    pub async fn start_standby(&self, flags: &[&str], resource: &str, count: u64) -> StoryProcess {
        let standby = self.start(flags);
        let of_resource = format!("resource=\"{resource}\"");
        standby
            .until_metric("informer_objects", &of_resource, count)
            .await;
        assert!(!standby.leads().await);
        standby
    }

    fn clock(&self) -> Clock {
        match &self.ground {
            Ground::Embedded { clock, .. } => clock.clone(),
            Ground::Real(_) => Clock::system(),
        }
    }

    pub fn now(&self) -> Timestamp {
        self.clock().now()
    }

    /// Waits until this time has come.
    pub async fn until_time(&self, time: Timestamp) {
        let ahead = time.duration_since(self.now());
        let ahead = Duration::try_from(ahead).unwrap_or_default();
        self.clock().sleep(ahead).await;
    }

    /// Lets this time pass on the embedded API server; on a real one nothing.
    pub async fn advance(&self, time: Duration) {
        if let Ground::Embedded { clock, .. } = &self.ground {
            clock.sleep(time).await;
        }
    }

    /// How late anything may be: `on_real` on a busy machine, next to nothing where time is paused.
    pub fn late(&self, on_real: SignedDuration) -> SignedDuration {
        match &self.ground {
            Ground::Embedded { .. } => AT_ONCE,
            Ground::Real(_) => on_real,
        }
    }

    /// Lets the API server be away for this time.
    pub async fn away(&mut self, time: Duration) {
        match &mut self.ground {
            Ground::Embedded { server, clock, .. } => {
                server.down();
                clock.sleep(time).await;
                server.up();
            }
            Ground::Real(cluster) => {
                cluster.control_plane.stop_api_server(Stop::AtOnce).await.unwrap();
                Clock::system().sleep(time).await;
                cluster.control_plane.start_api_server().await.unwrap();
            }
        }
    }

    /// The controller's requests so far. On a real API server the log may lack the last ones for a moment.
    pub fn requests(&self) -> Vec<Asked> {
        match &self.ground {
            Ground::Embedded { server, .. } => {
                let ours = format!("{}/", self.controller);
                let requests = server.requests();
                let ours = requests
                    .iter()
                    .filter(|request| request.user_agent.starts_with(&ours));
                ours.map(|request| asked(request, self.controller)).collect()
            }
            Ground::Real(cluster) => cluster.requests(),
        }
    }

    /// The controller's requests of this verb and resource, once there are `count`; fails if there are more.
    pub async fn until_requests(&self, verb: &str, resource: &str, count: usize) -> Vec<Asked> {
        let such = async || {
            let mut requests = self.requests();
            requests.retain(|asked| asked.is(verb, resource));
            requests
        };
        let what = format!("there are {count} requests to {verb} {resource}");
        let found = until(SOON, &what, such, |found| found.len() >= count).await;
        assert_eq!(found.len(), count, "requests to {verb} {resource}");
        found
    }

    /// The holder of the Lease, if any.
    pub async fn lease_holder(&self) -> Option<String> {
        let leases = self.api_in(NAMESPACE, "Lease");
        let lease = leases.get_opt(self.controller).await.unwrap()?;
        let holder = lease.data["spec"]["holderIdentity"].as_str()?;
        Some(holder.to_owned()).filter(|holder| !holder.is_empty())
    }
}

impl Deref for StoryStage {
    type Target = Objects;

    fn deref(&self) -> &Objects {
        &self.objects
    }
}

impl Ground {
    fn start<A>(&self, flags: &[&str]) -> Running
    where
        A: App<Config: Default> + 'static,
    {
        let Self::Embedded {
            server,
            clock,
            started,
            ..
        } = self
        else {
            unreachable!("only processes inside the test start so")
        };
        let identity = format!("process-{}", started.fetch_add(1, Ordering::Relaxed));
        let start = Start::of::<A>().flags::<A>(flags, &identity);
        start.start(server.client_as(&format!("{}/test", A::ABOUT.name)), clock)
    }
}

/// A request that the embedded API server has recorded, as the audit log of a real one has it.
fn asked(request: &RecordedRequest, controller: &str) -> Asked {
    let resource = format!("{}/{}", request.resource, request.subresource);
    let at = |time: Duration| START + SignedDuration::try_from(time).unwrap();
    Asked {
        verb: request.verb.to_string(),
        resource: resource.trim_end_matches('/').to_owned(),
        namespace: request.namespace.clone(),
        name: request.name.clone(),
        code: request.code.unwrap_or_default().into(),
        user: user(controller),
        received: at(request.arrived),
        answered: at(request.served.unwrap_or(request.arrived)),
    }
}
