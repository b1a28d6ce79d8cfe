//! The same scenario on the embedded server and on the real one.

use std::time::Duration;

use futures::future::BoxFuture;
use kube::Client;
use serde_json::json;
use testkit::real::{ControlPlane, Options};
use tokio::time::timeout;

use crate::http::*;

/// A scenario and its name.
pub(crate) type Scenario = (&'static str, fn(Client) -> BoxFuture<'static, ()>);

/// How long a scenario may take on the real server.
const LIMIT: Duration = Duration::from_mins(1);

/// What scenarios may leave behind.
const SWEPT: &[&str] = &[
    NODES,
    LEASES,
    CORE_EVENTS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    POD_DISRUPTION_BUDGETS,
    REPLICATION_CONTROLLERS,
    REPLICA_SETS,
    RESOURCE_CLAIMS,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
];

pub(crate) fn embedded_client() -> Client {
    crate::server().without_namespace_controller().client_as(AGENT)
}

/// Runs all of them on one control plane, one after the other, and names those that fail.
/// `SCENARIO` in the environment picks those whose names contain it.
pub(crate) async fn run_on_real(scenarios: &[Scenario]) {
    let wanted = std::env::var("SCENARIO").unwrap_or_default();
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let client = control_plane.client_as(AGENT).await.unwrap();
    let mut failed = Vec::new();
    for (name, scenario) in scenarios.iter().filter(|(name, _)| name.contains(&wanted)) {
        sweep(&client).await;
        #[allow(
            clippy::disallowed_methods,
            reason = "awaited at once; a panic ends the scenario alone"
        )]
        let running = tokio::spawn(scenario(client.clone()));
        if !matches!(timeout(LIMIT, running).await, Ok(Ok(()))) {
            failed.push(*name);
        }
    }
    assert!(failed.is_empty(), "on the real server: {failed:#?}");
}

/// Removes what the scenario before left behind.
async fn sweep(client: &Client) {
    for collection in SWEPT {
        let options = json!({ "gracePeriodSeconds": 0, "propagationPolicy": "Background" });
        let answer = delete(client, collection, options).await;
        assert_eq!(answer.code, 200, "{collection}: {answer:?}");
    }
}
