//! An operator as any kube-rs project has one, tested for a day of virtual time under faults, in less than a second.
//!
//! `cargo run -p embedded-apiserver --example operator`; `cargo test` runs it, too.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and owns its clock and its tasks"
)]

use std::sync::Arc;
use std::time::Duration;

use embedded_apiserver::{CONFIG_MAPS, Fault, FaultRule, RequestVerb, Server};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::runtime::Controller;
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const HOUR: Duration = Duration::from_hours(1);
const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

// The operator: it gives every ConfigMap of its namespace another token once an hour.

struct Rotation {
    keys: Api<ConfigMap>,
    /// What an operator asks for the time: tokio's clock goes with paused time, the system's does not.
    started: Instant,
}

impl Rotation {
    fn now(&self) -> Timestamp {
        START + self.started.elapsed()
    }

    /// Rotates if it is time to, and comes back when it will be again.
    async fn rotate(&self, key: &ConfigMap) -> Result<Action, kube::Error> {
        let rotated = key.annotations().get("rotated").and_then(|at| at.parse().ok());
        let due = rotated.unwrap_or(START) + HOUR;
        if self.now() < due {
            return Ok(Action::requeue(due.duration_since(self.now()).unsigned_abs()));
        }
        let token: u32 = key
            .data
            .as_ref()
            .and_then(|data| data.get("token")?.parse().ok())
            .unwrap_or(0);
        // It insists on the version that it has judged: whatever became of an earlier write, none is made twice.
        let patch = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "resourceVersion": key.resource_version(),
                "annotations": { "rotated": due.to_string() },
            },
            "data": { "token": (token + 1).to_string() },
        });
        let params = PatchParams::apply("rotation").force();
        self.keys
            .patch(&key.name_any(), &params, &Patch::Apply(patch))
            .await?;
        Ok(Action::requeue(HOUR))
    }
}

async fn reconcile(key: Arc<ConfigMap>, rotation: Arc<Rotation>) -> Result<Action, kube::Error> {
    let handle = async |event| match event {
        Event::Apply(key) => rotation.rotate(&key).await,
        Event::Cleanup(_) => Ok(Action::await_change()),
    };
    // What fails is tried again in a while, without a log line.
    let handled = finalizer(&rotation.keys, "example.com/rotation", key, handle).await;
    Ok(handled.unwrap_or_else(|_| Action::requeue(Duration::from_secs(10))))
}

fn start(client: Client, started: Instant) -> JoinHandle<()> {
    let keys = Api::namespaced(client, "default");
    let controller = Controller::new(keys.clone(), watcher::Config::default());
    let never = |_, _: &kube::Error, _| Action::requeue(Duration::from_secs(10));
    let run = controller.run(reconcile, never, Arc::new(Rotation { keys, started }));
    tokio::spawn(run.for_each(async |_| {}))
}

// The test.

/// A day in the life of the operator.
async fn a_key_has_a_new_token_every_hour_whatever_goes_wrong() {
    let server = Server::starting_at(START);
    let started = Instant::now();
    let key = json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": { "name": "key" } });
    server.insert(key).unwrap();

    // One patch in five is refused, one in ten takes effect and loses its answer.
    server.fail(
        FaultRule::new(Fault::status(503, "ServiceUnavailable"))
            .verb(RequestVerb::Patch)
            .probability(0.2),
    );
    server.fail(
        FaultRule::new(Fault::DropAfterEffect)
            .verb(RequestVerb::Patch)
            .probability(0.1),
    );
    let operator = start(server.client_as("rotation/1.0"), started);
    let token = || server.get(&CONFIG_MAPS, "default", "key").unwrap()["data"]["token"].clone();

    // The API server is away, and comes back without the history that the watch needs.
    sleep(HOUR * 6).await;
    server.down();
    sleep(HOUR / 4).await;
    server.compact();
    server.up();

    // The operator dies and is started again.
    sleep(HOUR * 6).await;
    operator.abort();
    sleep(HOUR / 4).await;
    let operator = start(server.client_as("rotation/1.0"), started);

    sleep(HOUR * 47 / 4).await;
    assert_eq!(token(), "24");

    // Every token was written once, and what was refused was not written.
    let accepted = server
        .requests()
        .to("configmaps")
        .only(|request| request.verb == RequestVerb::Patch && request.body.to_string().contains("token"))
        .only(|request| request.served.is_some() && request.code.is_none_or(|code| code == 200));
    assert_eq!(accepted.len(), 24, "{:#?}", accepted.lines());

    // A deleted key goes once the operator lets go of it.
    server.delete(&CONFIG_MAPS, "default", "key").unwrap();
    sleep(HOUR / 4).await;
    assert_eq!(server.get(&CONFIG_MAPS, "default", "key"), None);
    operator.abort();
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime
        .unwrap()
        .block_on(a_key_has_a_new_token_every_hour_whatever_goes_wrong());
}

#[test]
fn a_day() {
    main();
}
