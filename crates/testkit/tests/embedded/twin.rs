//! The same scenario on the embedded server and on the real one.

use std::time::Duration;

use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request};
use kube::Client;
use kube::client::Body;
use serde_json::json;
use testkit::embedded;
use testkit::real::{self, ControlPlane, Options, User};
use tokio::time::timeout;
use tower::ServiceExt;

use crate::http::*;

/// A scenario and its name.
pub(crate) type Scenario = (&'static str, fn(Ground) -> BoxFuture<'static, ()>);

/// A server, as its users see it.
#[derive(Clone)]
pub(crate) struct Ground {
    /// May do everything.
    pub(crate) admin: Client,
    /// The user `alice` of the group `dev`, without rights.
    pub(crate) alice: Client,
    /// Does not say who they are.
    pub(crate) anonymous: Client,
    /// Has a token that nobody gave them.
    pub(crate) stranger: Client,
}

impl From<Ground> for Client {
    fn from(ground: Ground) -> Self {
        ground.admin
    }
}

/// How long a scenario may take on the real server.
const LIMIT: Duration = Duration::from_mins(1);

/// What scenarios may leave behind.
const SWEPT: &[&str] = &[
    NODES,
    LEASES,
    CORE_EVENTS,
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    PDBS,
    REPLICATION_CONTROLLERS,
    REPLICA_SETS,
    CLAIMS,
    ROLES,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
    "/apis/rbac.authorization.k8s.io/v1/clusterroles?labelSelector=scenario",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings?labelSelector=scenario",
];

pub(crate) fn embedded_ground() -> Ground {
    let server = crate::server().without_namespace_controller();
    server.add_user("alice", &["dev"], "alice's");
    server.enforce_rbac();
    Ground {
        admin: server.client_as(AGENT),
        alice: with_token(&server, "alice's"),
        anonymous: server.client_for(&embedded::User::anonymous()),
        stranger: with_token(&server, "unknown"),
    }
}

/// A client with this bearer token.
pub(crate) fn with_token(server: &embedded::Server, token: &str) -> Client {
    let bearer = HeaderValue::try_from(format!("Bearer {token}")).unwrap();
    let service = server.door().map_request(move |mut request: Request<Body>| {
        request.headers_mut().insert(AUTHORIZATION, bearer.clone());
        request
    });
    Client::new(service, "default")
}

async fn real_ground(control_plane: &ControlPlane, alice: &User) -> Ground {
    let client = async |token: &str| {
        let kubeconfig = control_plane.kubeconfig_for(token).unwrap();
        real::client(&kubeconfig).await.unwrap()
    };
    Ground {
        admin: control_plane.client_as(AGENT).await.unwrap(),
        alice: client(&alice.token).await,
        anonymous: client("").await,
        stranger: client("unknown").await,
    }
}

/// Runs all of them on one control plane, one after the other, and names those that fail.
/// `SCENARIO` in the environment picks those whose names contain it.
pub(crate) async fn run_on_real(scenarios: &[Scenario]) {
    let wanted = std::env::var("SCENARIO").unwrap_or_default();
    let alice = User {
        groups: vec!["dev".to_owned()],
        ..User::new("alice")
    };
    let options = Options {
        users: vec![alice.clone()],
        ..Options::default()
    };
    let control_plane = ControlPlane::start(options).await.unwrap();
    let ground = real_ground(&control_plane, &alice).await;
    let mut failed = Vec::new();
    for (name, scenario) in scenarios.iter().filter(|(name, _)| name.contains(&wanted)) {
        sweep(&ground.admin).await;
        #[allow(
            clippy::disallowed_methods,
            reason = "awaited at once; a panic ends the scenario alone"
        )]
        let running = tokio::spawn(scenario(ground.clone()));
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
