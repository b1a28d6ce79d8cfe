//! The processes of a control plane and their flags.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::HeaderValue;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use rand::RngExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::audit::AuditLog;
use super::credentials::{self, TokenUser};
use super::scratch::Scratch;
use super::tally::tally;
use super::{Assets, Error, Options, Process, eventually};

/// Longest time for the API server from its start to `/readyz` (2 s on an idle machine).
const READY_WITHIN: Duration = Duration::from_mins(1);
/// Longest time for the API server from SIGTERM to its end: it lets requests finish first.
const STOPPED_WITHIN: Duration = Duration::from_secs(70);
/// Ports below the range from which Linux gives ports to connections (32768–60999): no connection
/// takes the API server's port while it is stopped.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
/// Number of ports to try if another process takes one first.
const ATTEMPTS: usize = 5;
/// Issuer of the service account tokens.
const ISSUER: &str = "https://kubernetes.default.svc";

/// File in the directory of the test with the key that signs the tokens.
const SIGNING_KEY: &str = "service-account.key";

/// The way to stop the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// SIGTERM: requests in progress finish.
    Gracefully,
    /// SIGKILL: connections break.
    AtOnce,
}

/// etcd and kube-apiserver with RBAC, and no other component.
///
/// Admission of service accounts is off, so pods need none. Stopped and removed on drop, also after a panic. etcd
/// listens on a socket in the directory of the test, so it needs no port.
#[derive(Serialize, Deserialize)]
pub struct ControlPlane {
    // In the order of dropping: the API server, its store, their files.
    api_server: Option<Process>,
    etcd: Process,
    scratch: Scratch,
    assets: Assets,
    args: Vec<String>,
    port: u16,
    /// `None` while nobody uses the control plane.
    #[serde(skip)]
    client: Option<Client>,
    admin: PathBuf,
    kubeconfigs: AtomicUsize,
    audit: Option<AuditLog>,
    feature_gates: Option<String>,
}

impl ControlPlane {
    /// Starts a control plane and waits until it serves requests and has its first namespaces: about 3 s.
    ///
    /// Fails with [`Error::NoAssets`] if binaries are missing.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let assets = Assets::find()?;
        tally("control-planes", 1);
        let scratch = Scratch::new()?;
        let mut etcd = spawn_etcd(&assets, scratch.path())?;
        let admin_user = TokenUser::admin();
        let audit = options
            .audit
            .map(|_| AuditLog::new(scratch.path().join("audit.log")));
        let minor = assets.minor()?;
        let feature_gates = options.feature_gates(minor);
        let mut args = api_server_args(&scratch, &options, audit.as_ref(), &admin_user)?;
        args.extend(feature_gates.clone());
        args.extend(options.runtime_config(minor));
        let mut attempt = 1;
        loop {
            let port = free_port()?;
            let admin = scratch.write(
                "admin.kubeconfig",
                &credentials::kubeconfig(port, &certificate_authority(&scratch), &admin_user.token),
            )?;
            match start_api_server(&assets, &mut etcd, port, &args, &admin).await {
                Ok((api_server, client)) => {
                    return Ok(Self {
                        api_server: Some(api_server),
                        etcd,
                        scratch,
                        assets,
                        args,
                        port,
                        client: Some(client),
                        admin,
                        kubeconfigs: AtomicUsize::new(0),
                        audit,
                        feature_gates,
                    });
                }
                Err(Error::EndedEarly { log, .. })
                    if attempt < ATTEMPTS && log.contains("address already in use") =>
                {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// A client of the administrator, without client-side limits and retries.
    #[allow(
        clippy::expect_used,
        clippy::missing_panics_doc,
        reason = "it is there whenever a test has the control plane"
    )]
    pub fn client(&self) -> Client {
        self.client.clone().expect("a client")
    }

    /// Another client of the administrator, with a `User-Agent`; the part before the first `/` is its field manager.
    pub async fn client_as(&self, user_agent: &'static str) -> Result<Client, Error> {
        credentials::client_as(&self.admin, Some(HeaderValue::from_static(user_agent))).await
    }

    /// The kubeconfig file of the administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.admin
    }

    /// Writes a kubeconfig file with `token`: one of [`Options::users`]' tokens, or a wrong one.
    pub fn kubeconfig_for(&self, token: &str) -> Result<PathBuf, Error> {
        let number = self.kubeconfigs.fetch_add(1, Ordering::Relaxed);
        let authority = certificate_authority(&self.scratch);
        self.scratch.write(
            &format!("{number}.kubeconfig"),
            &credentials::kubeconfig(self.port, &authority, token),
        )
    }

    /// Writes a kubeconfig file with a service account's token, valid for a day. The account is created if it does not
    /// exist; its namespace must exist.
    pub async fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> Result<PathBuf, Error> {
        let accounts = Api::<ServiceAccount>::namespaced(self.client(), namespace);
        let account = ServiceAccount {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            ..ServiceAccount::default()
        };
        match accounts.create(&PostParams::default(), &account).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(source) => return Err(Error::request("create a service account", source)),
        }
        let asked = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: Some(vec![ISSUER.to_owned()]),
                expiration_seconds: Some(24 * 60 * 60),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let granted = accounts
            .create_token_request(name, &PostParams::default(), &asked)
            .await
            .map_err(|source| Error::request("request a service account token", source))?;
        let token = granted.status.and_then(|status| status.token).unwrap_or_default();
        self.kubeconfig_for(&token)
    }

    /// The process of the API server; `None` while it is stopped.
    pub fn api_server(&self) -> Option<&Process> {
        self.api_server.as_ref()
    }

    /// The process of etcd.
    pub fn etcd(&self) -> &Process {
        &self.etcd
    }

    /// Stops the API server and waits for its end; etcd keeps the data. No-op if it is stopped.
    pub async fn stop_api_server(&mut self, how: Stop) -> Result<(), Error> {
        if let Some(mut api_server) = self.api_server.take() {
            match how {
                Stop::Gracefully => api_server.terminate()?,
                Stop::AtOnce => api_server.kill()?,
            }
            api_server.wait_exit(STOPPED_WITHIN).await?;
        }
        Ok(())
    }

    /// Starts the API server again, on the same port and with the same certificate, and waits until it is ready. No-op
    /// if it runs.
    pub async fn start_api_server(&mut self) -> Result<(), Error> {
        if self.api_server.is_none() {
            let (api_server, _) =
                start_api_server(&self.assets, &mut self.etcd, self.port, &self.args, &self.admin).await?;
            self.api_server = Some(api_server);
        }
        Ok(())
    }

    /// Starts kube-controller-manager with only `controllers` (`ttl`, `garbage-collector-controller`, …) as
    /// administrator. `extra` flags override ours. Does not wait: a test waits for the effect.
    pub fn start_controller_manager(&self, controllers: &[&str], extra: &[&str]) -> Result<Process, Error> {
        let controllers = format!("--controllers={}", controllers.join(","));
        let key = self.scratch.path().join(SIGNING_KEY);
        let key = format!("--service-account-private-key-file={}", key.display());
        self.start_client(
            "kube-controller-manager",
            &[&[&*controllers, &*key], extra].concat(),
        )
    }

    /// Starts kube-scheduler as administrator. `extra` flags override ours. Does not wait: a test waits for the effect.
    pub fn start_scheduler(&self, extra: &[&str]) -> Result<Process, Error> {
        self.start_client("kube-scheduler", extra)
    }

    /// The `audit.k8s.io/v1` events so far, in the order of their stages.
    ///
    /// A request's event is written once the request is answered: use [`eventually`](super::eventually) for the last
    /// one. A line that is still being written is left out.
    pub fn audit_events(&self) -> Result<Vec<Arc<Value>>, Error> {
        self.audit.as_ref().ok_or(Error::NoAudit)?.events()
    }

    /// Makes a client; the connections of an earlier one end with the runtime of their test.
    pub(super) async fn renew_client(&mut self) -> Result<(), Error> {
        self.client = Some(credentials::client(&self.admin).await?);
        Ok(())
    }

    pub(super) fn drop_client(&mut self) {
        self.client = None;
    }

    /// Records that nothing of this must outlive the process `owner`.
    pub(super) fn belongs_to(&self, owner: &str) -> Result<(), Error> {
        self.scratch.belongs_to(owner)?;
        self.processes().try_for_each(|process| process.belongs_to(owner))
    }

    pub(super) fn processes(&self) -> impl Iterator<Item = &Process> {
        self.api_server.iter().chain([&self.etcd])
    }

    /// Leaves earlier requests out of [`Self::audit_events`].
    pub(super) fn begin_audit(&self) {
        if let Some(audit) = &self.audit {
            audit.begin();
        }
    }

    pub(super) fn etcd_socket(&self) -> PathBuf {
        etcd_socket(self.scratch.path())
    }

    fn start_client(&self, program: &'static str, args: &[&str]) -> Result<Process, Error> {
        let kubeconfig = format!("--kubeconfig={}", self.admin.display());
        // No port: nobody connects, and two processes can run side by side.
        let mut all = vec![&*kubeconfig, "--leader-elect=false", "--secure-port=0"];
        all.extend(self.feature_gates.as_deref());
        all.extend(args);
        Process::spawn(&self.assets.find_program(program)?, &all, &[])
    }
}

fn spawn_etcd(assets: &Assets, dir: &Path) -> Result<Process, Error> {
    // The peer socket is required and never used. The advertised URLs must be TCP; nobody reads them.
    let args = [
        format!("--data-dir={}", dir.join("etcd").display()),
        format!("--listen-client-urls={}", etcd_url(dir)),
        format!("--listen-peer-urls=unix://{}", dir.join("peer.sock").display()),
        "--advertise-client-urls=http://localhost:2379".to_owned(),
        "--log-level=warn".to_owned(),
        "--unsafe-no-fsync".to_owned(),
        // 150,000 pods of 11 KB do not fit into etcd's default of 2 GiB.
        "--quota-backend-bytes=8589934592".to_owned(),
    ];
    Process::spawn(&assets.program("etcd"), &args, &[])
}

/// The flags that stay the same when the API server is started again; also writes the files they name.
fn api_server_args(
    scratch: &Scratch,
    options: &Options,
    audit: Option<&AuditLog>,
    admin: &TokenUser,
) -> Result<Vec<String>, Error> {
    let tokens: String = std::iter::once(admin)
        .chain(&options.users)
        .map(TokenUser::token_line)
        .collect();
    let tokens = scratch.write("tokens.csv", &tokens)?;
    let (private, public) = credentials::signing_keys()?;
    let private = scratch.write(SIGNING_KEY, &private)?;
    let public = scratch.write("service-account.pub", &public)?;

    let mut args = vec![
        format!("--etcd-servers={}", etcd_url(scratch.path())),
        format!("--cert-dir={}", scratch.path().display()),
        format!("--token-auth-file={}", tokens.display()),
        format!("--service-account-key-file={}", public.display()),
        format!("--service-account-signing-key-file={}", private.display()),
        format!("--service-account-issuer={ISSUER}"),
        "--authorization-mode=RBAC".to_owned(),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        // Loopback cannot be advertised, so the Service `kubernetes` stays without endpoints.
        "--advertise-address=127.0.0.1".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
    ];
    if let Some((level, audit)) = options.audit.zip(audit) {
        let policy = json!({
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [{ "level": format!("{level:?}") }],
        });
        let policy = scratch.write("audit-policy.yaml", &policy.to_string())?;
        args.push(format!("--audit-policy-file={}", policy.display()));
        args.push(format!("--audit-log-path={}", audit.path().display()));
        // In megabytes: by default another file begins after 100.
        args.push("--audit-log-maxsize=8192".to_owned());
    }
    args.extend(options.api_server_args.iter().cloned());
    Ok(args)
}

async fn start_api_server(
    assets: &Assets,
    etcd: &mut Process,
    port: u16,
    args: &[String],
    admin: &Path,
) -> Result<(Process, Client), Error> {
    let mut all = vec![format!("--secure-port={port}")];
    all.extend_from_slice(args);
    let mut api_server = Process::spawn(&assets.program("kube-apiserver"), &all, &[])?;
    let ready = eventually(READY_WITHIN, "the API server is ready", async || {
        if let Err(ended) = etcd.must_run().and_then(|()| api_server.must_run()) {
            return Some(Err(ended));
        }
        // The server writes its certificate while it starts, so no client can be made before.
        let client = credentials::client(admin).await.ok()?;
        is_ready(&client).await.then_some(Ok(client))
    })
    .await;
    match ready {
        Ok(client) => Ok((api_server, client?)),
        Err(_not_in_time) => Err(api_server.not_ready(READY_WITHIN)),
    }
}

/// True if all checks pass and the namespaces exist, which `/readyz` does not wait for.
async fn is_ready(client: &Client) -> bool {
    let Ok(readyz) = http::Request::get("/readyz").body(Vec::new()) else {
        return false;
    };
    let namespaces = Api::<Namespace>::all(client.clone());
    client.request_text(readyz).await.is_ok()
        && namespaces.get_metadata("default").await.is_ok()
        && namespaces.get_metadata("kube-system").await.is_ok()
}

fn free_port() -> Result<u16, Error> {
    (0..100)
        .map(|_| rand::rng().random_range(PORTS))
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .ok_or(Error::NoFreePort)
}

/// The file in `--cert-dir` to which kube-apiserver writes its certificate, followed by its issuer's.
fn certificate_authority(scratch: &Scratch) -> PathBuf {
    scratch.path().join("apiserver.crt")
}

fn etcd_url(dir: &Path) -> String {
    format!("unix://{}", etcd_socket(dir).display())
}

fn etcd_socket(dir: &Path) -> PathBuf {
    dir.join("etcd.sock")
}
