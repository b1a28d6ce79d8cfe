//! Runs a scenario on the embedded server and on the real one.

use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request};
use kube::Client;
use kube::client::Body;
use local_control_plane::{Assets, ControlPlane, Leased, Options};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tower::ServiceExt;

use crate::http::*;

/// A scenario of a transcript or in Rust.
pub(crate) struct Scenario {
    pub(crate) name: String,
    /// The first minor version of Kubernetes that passes.
    pub(crate) since: u32,
    pub(crate) run: Run,
}

pub(crate) type Run = Box<dyn Fn(Ground) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// A scenario in Rust, which fails by panicking, and its name.
pub(crate) type InRust = (&'static str, fn(Client) -> BoxFuture<'static, ()>);

impl From<&InRust> for Scenario {
    fn from((name, run): &InRust) -> Self {
        let run = *run;
        let since = SINCE.iter().find(|(since, _)| since == name);
        Self {
            name: (*name).to_owned(),
            since: since.map_or(0, |(_, minor)| *minor),
            run: Box::new(move |ground| {
                let running = run(ground.admin);
                Box::pin(async move {
                    running.await;
                    Ok(())
                })
            }),
        }
    }
}

/// Whether the environment variable `SCENARIO` selects scenarios of this name: those that contain it.
pub(crate) fn is_wanted(name: &str) -> bool {
    let spaced = |text: &str| text.replace('_', " ");
    spaced(name).contains(&spaced(&std::env::var("SCENARIO").unwrap_or_default()))
}

/// Settings of a server that differ from the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    Plain,
    /// Serves `PodGroups`.
    PodGroups,
    /// The permission to write a claim's `/status` covers all of the status.
    CoarseClaimStatus,
}

impl Setting {
    fn options(self) -> Options {
        let mut options = Options::default();
        match self {
            Self::Plain => {}
            Self::PodGroups => {
                options.pod_groups = true;
            }
            Self::CoarseClaimStatus => {
                options.coarse_claim_status = true;
            }
        }
        options
    }
}

/// A server, with a client per user.
#[derive(Clone)]
pub(crate) struct Ground {
    pub(crate) admin: Client,
    /// The user `alice` of the group `dev`, without permissions.
    pub(crate) alice: Client,
    /// Sends no credentials.
    pub(crate) anonymous: Client,
    /// Has an unknown token.
    pub(crate) stranger: Client,
}

/// Limit for a scenario on the real server.
const LIMIT: Duration = Duration::from_mins(1);

/// Limit for what the real server does in the background.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Scenarios in Rust that older releases of Kubernetes fail, with the first minor version that passes.
const SINCE: &[(&str, u32)] = &[("reservations_are_complete_and_not_too_many", 37)];

/// Collections that are emptied before each scenario on the real server.
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
    CLAIM_TEMPLATES,
    ROLES,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
    "/apis/rbac.authorization.k8s.io/v1/clusterroles?labelSelector=scenario",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings?labelSelector=scenario",
];

pub(crate) fn embedded_ground(setting: Setting) -> Ground {
    let mut server = crate::server();
    match setting {
        Setting::Plain => {}
        Setting::PodGroups => server.serve(&embedded_apiserver::POD_GROUPS),
        Setting::CoarseClaimStatus => server = server.without_granular_claim_status(),
    }
    ground_of(&server)
}

/// Adds the users of a ground to a server.
pub(crate) fn ground_of(server: &embedded_apiserver::Server) -> Ground {
    server.add_user("alice", &["dev"], "alice's");
    server.enforce_rbac();
    Ground {
        admin: server.client_as(AGENT),
        alice: with_token(server, "alice's"),
        anonymous: server.client_for(&embedded_apiserver::User::anonymous()),
        stranger: with_token(server, "unknown"),
    }
}

/// A client with this bearer token.
pub(crate) fn with_token(server: &embedded_apiserver::Server, token: &str) -> Client {
    let bearer = HeaderValue::try_from(format!("Bearer {token}")).unwrap();
    let service = server.transport().map_request(move |mut request: Request<Body>| {
        request.headers_mut().insert(AUTHORIZATION, bearer.clone());
        request
    });
    Client::new(service, "default")
}

async fn real_ground(control_plane: &ControlPlane) -> Ground {
    let client = async |token: &str| {
        let kubeconfig = control_plane.kubeconfig_for(token).unwrap();
        local_control_plane::client(&kubeconfig).await.unwrap()
    };
    Ground {
        admin: control_plane.client_as(AGENT).await.unwrap(),
        alice: as_alice(control_plane).await,
        anonymous: client("").await,
        stranger: client("unknown").await,
    }
}

/// The administrator in the name of `alice`: a lease has no other users.
async fn as_alice(control_plane: &ControlPlane) -> Client {
    let file = std::fs::read_to_string(control_plane.kubeconfig()).unwrap();
    let mut kubeconfig: Value = serde_json::from_str(&file).unwrap();
    kubeconfig["users"][0]["user"]["as"] = json!("alice");
    kubeconfig["users"][0]["user"]["as-groups"] = json!(["dev"]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), kubeconfig.to_string()).unwrap();
    local_control_plane::client(file.path()).await.unwrap()
}

/// Runs scenarios on one control plane, one after the other. Those of newer releases must fail on an older server.
pub(crate) async fn run_on_real(setting: Setting, scenarios: &[Scenario]) {
    let control_plane = Leased::bare(setting.options()).await.unwrap();
    let ground = real_ground(&control_plane).await;
    let minor = Assets::find().and_then(|assets| assets.minor()).unwrap();
    let mut wrong = Vec::new();
    for scenario in scenarios.iter().filter(|scenario| is_wanted(&scenario.name)) {
        sweep(&ground.admin, setting).await;
        #[allow(
            clippy::disallowed_methods,
            reason = "awaited at once; a panic ends the scenario alone"
        )]
        let running = tokio::spawn((scenario.run)(ground.clone()));
        let why = match timeout(LIMIT, running).await {
            Ok(Ok(Ok(()))) => None,
            Ok(Ok(Err(why))) => Some(why),
            Ok(Err(panic)) => Some(panic.to_string()),
            Err(_) => Some("it takes too long".to_owned()),
        };
        if minor < scenario.since && why.is_none() {
            wrong.push(format!("{}: passes before 1.{}", scenario.name, scenario.since));
        } else if minor >= scenario.since {
            wrong.extend(why.map(|why| format!("{}: {why}", scenario.name)));
        }
    }
    assert!(
        wrong.is_empty(),
        "on the server of 1.{minor}:\n{}",
        wrong.join("\n\n")
    );
}

/// Removes objects of the previous scenario.
async fn sweep(client: &Client, setting: Setting) {
    let alpha: &[&str] = match setting {
        Setting::PodGroups => &[POD_GROUPS],
        Setting::Plain | Setting::CoarseClaimStatus => &[],
    };
    let swept = SWEPT.iter().chain(alpha).map(async |collection| {
        let is_empty = |answer: &Answer| answer.body["items"].as_array().is_some_and(Vec::is_empty);
        repeated(collection, || empty(client, collection), is_empty).await;
    });
    join_all(swept).await;
}

/// Deletes the objects of a collection, and takes the finalizers from them; the answer has those that were there.
async fn empty(client: &Client, collection: &str) -> Answer {
    let options = json!({ "gracePeriodSeconds": 0, "propagationPolicy": "Background" });
    let answer = delete(client, collection, options).await;
    assert_eq!(answer.code, 200, "{collection}: {answer:?}");
    let (path, _) = collection.split_once('?').unwrap_or((collection, ""));
    for item in answer.body["items"].as_array().into_iter().flatten() {
        let metadata = &item["metadata"];
        if let (Some(name), Some(_)) = (metadata["name"].as_str(), metadata["finalizers"].as_array()) {
            merge(
                client,
                format!("{path}/{name}"),
                json!({ "metadata": { "finalizers": null } }),
            )
            .await;
        }
    }
    answer
}

/// Repeats a request until its answer is as `wanted`: the real server needs a moment for work in the background.
pub(crate) async fn repeated<F: Future<Output = Answer>>(
    uri: &str,
    ask: impl Fn() -> F,
    wanted: impl Fn(&Answer) -> bool,
) -> Answer {
    let polled = async {
        loop {
            let answer = ask().await;
            if wanted(&answer) {
                return answer;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, polled)
        .await
        .unwrap_or_else(|_| panic!("{uri}"))
}
