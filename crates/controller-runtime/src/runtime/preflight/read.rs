//! Reads the facts from the API server. A read that the account is denied is a fact, too.

use std::time::Duration;

use bytes::Bytes;
use controller_core::app::{BuiltIn, Failure};
use controller_core::error::Chain;
use controller_core::version::SUPPORTED_KUBERNETES;
use http::Request;
use jiff::Timestamp;
use kube::api::{GetParams, ListParams, PostParams};
use kube::client::Body;
use kube::core::TypeMeta;
use kube::core::request::Error as BuildError;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::parse::{
    MANAGER, SYSTEM, ahead, lease_of, manager_of_k3s, manager_of_pod, named_by_health, node_of, read_version,
    told, written,
};
use super::{Facts, Lease, Manager, Node, Permission, Read, Trace};
use crate::api::Http;
use crate::api::dated::{body_of, date_of};
use crate::api::limits::AnswerWithin;
use crate::clock::Clock;

/// Labels of kube-controller-manager's pods: `component` with kubeadm and those built on it, `k8s-app` with kOps and
/// Talos.
const MANAGER_LABELS: [&str; 2] = ["component", "k8s-app"];
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
const PAGE: u32 = 500;
/// Most pages searched for traces: more pages cost time, and each shows the same.
const MOST_PAGES: usize = 20;
/// Limit for pods behind the proxy: the API server itself gives up much later.
const PROXY_WITHIN: Duration = Duration::from_secs(5);

/// The controller that the facts are about.
pub(super) struct Subject {
    pub(super) controller: &'static str,
    pub(super) built_in: BuiltIn,
    pub(super) shares_work: bool,
    pub(super) dry_run: bool,
    pub(super) permissions: Vec<Permission>,
    pub(super) lease: LeaseName,
}

/// Namespace and name of a Lease.
pub(super) struct LeaseName {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// Collects all facts; fails if the API server does not answer.
pub(super) async fn facts(subject: Subject, http: &Http, clock: &Clock) -> Result<Facts, Failure> {
    let api = Reader { http };
    let before = clock.now();
    let asked = Request::get("/version").body(Vec::new());
    let (version, date) = match api.fetch(asked.map_err(BuildError::BuildRequest)).await {
        Ok((body, date)) => (read_version(&body), date),
        Err(kube::Error::Api(status)) => (Err(format!("cannot read the version: {}", status.message)), None),
        Err(error) => return Err(error.into()),
    };
    let (ahead, now) = (
        date.map(|date| ahead(before, clock.now(), date)),
        date.unwrap_or(before),
    );
    let mut permissions = Vec::new();
    for permission in &subject.permissions {
        permissions.push((permission.to_string(), api.has(permission).await));
    }
    let control_plane = api.nodes(ListParams::default().labels(CONTROL_PLANE)).await;
    let some_node = api.nodes(ListParams::default().limit(1)).await;
    let on_nodes: Vec<Manager> = control_plane
        .iter()
        .flatten()
        .filter_map(manager_of_k3s)
        .collect();
    let managers = match api.managers(subject.controller).await {
        Err(_) if !on_nodes.is_empty() => Ok(on_nodes),
        read => read.map(|pods| pods.into_iter().chain(on_nodes).collect()),
    };
    let LeaseName { namespace, name } = subject.lease;
    let everywhere = api.leases(&name).await;
    let (leases, elsewhere) = match everywhere {
        Ok(leases) => (Ok(leases), Ok(())),
        Err(unread) => {
            let own = api.lease(&namespace, &name).await;
            (own.map(Vec::from_iter), Err(unread))
        }
    };
    Ok(Facts {
        controller: subject.controller,
        built_in: subject.built_in,
        shares_work: subject.shares_work,
        dry_run: subject.dry_run,
        version,
        supported: supported(),
        ahead,
        now,
        permissions,
        control_plane,
        some_node: some_node.into_iter().flatten().next(),
        managers,
        manager_lease: api.lease(SYSTEM, MANAGER).await,
        traces: api.traces(subject.built_in).await,
        leases,
        lease_namespace: namespace,
        elsewhere,
    })
}

/// The minor versions in [`SUPPORTED_KUBERNETES`].
fn supported() -> std::ops::RangeInclusive<u32> {
    let minor = |version: &str| version.split_once('.').and_then(|(_, minor)| minor.parse().ok());
    let [oldest, .., newest] = SUPPORTED_KUBERNETES.map(|version| minor(version).unwrap_or_default());
    oldest..=newest
}

/// Reads from the API server what the account may read.
struct Reader<'a> {
    http: &'a Http,
}

/// A page of a list.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMeta,
    #[serde(default)]
    items: Vec<Value>,
}

#[derive(Default, Deserialize)]
struct PageMeta {
    #[serde(default)]
    r#continue: Option<String>,
}

impl Reader<'_> {
    async fn fetch(
        &self,
        request: Result<Request<Vec<u8>>, BuildError>,
    ) -> kube::Result<(Bytes, Option<Timestamp>)> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        let response = self.http.send(request.map(Body::from)).await?;
        let date = date_of(response.headers());
        Ok((body_of(response).await?, date))
    }

    /// Reads an object; `None` if it does not exist. `what` names the request in a refusal: `list nodes`.
    async fn read<T: DeserializeOwned>(
        &self,
        what: &str,
        request: Result<Request<Vec<u8>>, BuildError>,
    ) -> Read<Option<T>> {
        match self.fetch(request).await {
            // What has no type comes from a proxy.
            Ok((body, _)) => serde_json::from_slice::<TypeMeta>(&body)
                .and_then(|_| serde_json::from_slice(&body))
                .map(Some)
                .map_err(|error| format!("cannot {what}: {error}")),
            Err(kube::Error::Api(status)) if status.code == 404 && status.reason == "NotFound" => Ok(None),
            Err(kube::Error::Api(status)) if status.code == 403 => Err(format!("may not {what}")),
            Err(kube::Error::Api(status)) => Err(format!("cannot {what}: {}", status.message.trim_end())),
            Err(error) => Err(format!("cannot {what}: {}", Chain(&error))),
        }
    }

    /// Reads each object of a collection through `read`, from at most [`MOST_PAGES`] pages.
    async fn list<T>(
        &self,
        what: &str,
        path: &str,
        mut params: ListParams,
        metadata_only: bool,
        read: impl Fn(Value) -> Option<T>,
    ) -> Read<Vec<T>> {
        let collection = kube::core::Request::new(path);
        let pages = if params.limit.is_some() { 1 } else { MOST_PAGES };
        params.limit.get_or_insert(PAGE);
        let mut all = Vec::new();
        for _ in 0..pages {
            let request = if metadata_only {
                collection.list_metadata(&params)
            } else {
                collection.list(&params)
            };
            let Some(page) = self.read::<Page>(what, request).await? else {
                break;
            };
            all.extend(page.items.into_iter().filter_map(&read));
            params.continue_token = page.metadata.r#continue.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                break;
            }
        }
        Ok(all)
    }

    async fn has(&self, permission: &Permission) -> Read<bool> {
        let reviews = kube::core::Request::new("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
        let review = permission.review().to_string().into_bytes();
        let request = reviews.create(&PostParams::default(), review);
        let answer: Option<Value> = self.read("ask which permissions it has", request).await?;
        let allowed = answer.and_then(|answer| answer.pointer("/status/allowed")?.as_bool());
        allowed.ok_or_else(|| "cannot ask which permissions it has: no answer".to_owned())
    }

    async fn nodes(&self, params: ListParams) -> Read<Vec<Node>> {
        self.list("list nodes", "/api/v1/nodes", params, false, |node| {
            Some(node_of(&node))
        })
        .await
    }

    /// The kube-controller-managers that run as pods.
    async fn managers(&self, controller: &str) -> Read<Vec<Manager>> {
        let mut managers: Vec<(String, Manager)> = Vec::new();
        for label in MANAGER_LABELS {
            let params = ListParams::default().labels(&format!("{label}={MANAGER}"));
            let path = format!("/api/v1/namespaces/{SYSTEM}/pods");
            let found = self.list("list pods in kube-system", &path, params, false, |pod| {
                manager_of_pod(&pod)
            });
            for (pod, manager) in found.await? {
                if managers.iter().all(|(known, _)| *known != pod) {
                    managers.push((pod, manager));
                }
            }
        }
        let mut read = Vec::new();
        for (pod, mut manager) in managers {
            manager.runs = self.health(&pod, controller).await;
            read.push(manager);
        }
        Ok(read)
    }

    /// Returns whether `/healthz` of a kube-controller-manager names the loop. Everybody may read `/healthz`, but few
    /// can reach it: mostly it listens on loopback.
    async fn health(&self, pod: &str, controller: &str) -> Option<bool> {
        let path = format!("/api/v1/namespaces/{SYSTEM}/pods/https:{pod}:10257/proxy/healthz?verbose=true");
        let mut request = Request::get(path).body(Vec::new()).ok()?;
        request.extensions_mut().insert(AnswerWithin(PROXY_WITHIN));
        let (body, _) = self.fetch(Ok(request)).await.ok()?;
        named_by_health(&String::from_utf8_lossy(&body), controller)
    }

    async fn lease(&self, namespace: &str, name: &str) -> Read<Option<Lease>> {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        let request = kube::core::Request::new(path).get(name, &GetParams::default());
        let what = format!("get the Lease {name} in {namespace}");
        let lease: Option<Value> = self.read(&what, request).await?;
        Ok(lease.map(|lease| lease_of(&lease)))
    }

    /// The Leases of this name in all namespaces.
    async fn leases(&self, name: &str) -> Read<Vec<Lease>> {
        let params = ListParams::default().fields(&format!("metadata.name={name}"));
        let path = "/apis/coordination.k8s.io/v1/leases";
        self.list("list Leases in all namespaces", path, params, false, |lease| {
            Some(lease_of(&lease))
        })
        .await
    }

    /// The newest trace of each kind.
    async fn traces(&self, built_in: BuiltIn) -> Read<Vec<Trace>> {
        let mut traces = Vec::new();
        if let Some(fields) = built_in.writes {
            let (_, plural) = fields.path.rsplit_once('/').unwrap_or_default();
            let read = |object: Value| written(&fields, plural, object);
            let what = format!("list {plural}");
            let written = self
                .list(&what, fields.path, ListParams::default(), true, read)
                .await?;
            traces.extend(newest(written));
        }
        if let Some(component) = built_in.events {
            let params = ListParams::default().fields(&format!("reportingController={component}"));
            let path = "/apis/events.k8s.io/v1/events";
            let told = self.list("list events", path, params, false, |event| {
                told(component, &event)
            });
            traces.extend(newest(told.await?));
        }
        Ok(traces)
    }
}

fn newest(traces: Vec<Trace>) -> Option<Trace> {
    traces.into_iter().max_by_key(|trace| trace.at)
}
