//! The cluster of the demo: an API server in this process, or a disposable cluster.

use std::fs;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use controller_runtime::clock::Clock;
use embedded_apiserver::{Acting, Actors, KubeletOptions, Loopback, Server};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::discovery::ApiResource;
use kube::{Api, Client, Config, ResourceExt};
use serde_json::json;
use tempfile::TempDir;

use crate::ours::{is_ours, selector};

/// Concurrent requests of the demo itself.
const AT_ONCE: usize = 16;
/// Time that pods take to run and to end on the embedded server, long enough to be visible.
const PODS_START_AFTER: Duration = Duration::from_millis(300);
const PODS_STOP_WITHIN: Duration = Duration::from_millis(500);
/// Time that a write interrupted by Ctrl-C may take to arrive.
const STRAGGLERS: Duration = Duration::from_millis(300);

/// Time limit for the removal of the demo's objects, which other writers' finalizers can delay.
const SWEPT_WITHIN: Duration = Duration::from_mins(1);

/// Where to play.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Target {
    /// Play on the cluster of this kubeconfig file instead of an embedded API server
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Context of that file; without it the current one
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    context: Option<String>,
    /// Play there although it has nodes that the demo did not make: controllers will write to them
    #[arg(long, requires = "kubeconfig")]
    yes_this_cluster_is_disposable: bool,
}

/// The cluster that the demo uses.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    /// Sends each request once. kube retries a 429 for minutes, but a refused eviction is a result.
    pub(crate) once: Client,
    pub(crate) url: String,
    pub(crate) access: Access,
    clock: Clock,
    /// `None` on a given cluster.
    embedded: Option<Embedded>,
}

/// Parts that end with the demo: the API server in this process, its actors, and the directory of its kubeconfig.
struct Embedded {
    _door: Loopback,
    _acting: Acting,
    _dir: TempDir,
}

/// How another process reaches the cluster.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) context: Option<String>,
    /// Requests go through the environment's proxies, which do not lead to this process.
    pub(crate) through_proxies: bool,
}

/// Runs all actions, [`AT_ONCE`] at a time; returns the first failure.
pub(crate) async fn do_all(
    actions: impl IntoIterator<Item = impl Future<Output = Result<()>>>,
) -> Result<()> {
    stream::iter(actions)
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

/// Deletes without waiting: there may be no kubelet to end a pod, and no garbage collector for a Job's pods.
pub(crate) fn at_once() -> DeleteParams {
    DeleteParams::background().grace_period(0)
}

impl Cluster {
    /// Opens the named cluster; a given one must be disposable.
    pub(crate) async fn open(target: &Target, clock: &Clock) -> Result<Self> {
        let Some(path) = &target.kubeconfig else {
            return Self::embedded(clock).await;
        };
        let access = Access {
            kubeconfig: path.clone(),
            context: target.context.clone(),
            through_proxies: true,
        };
        let cluster = Self::at(access, clock, None).await?;
        if !target.yes_this_cluster_is_disposable {
            cluster.refuse_foreign_nodes().await?;
        }
        Ok(cluster)
    }

    async fn embedded(clock: &Clock) -> Result<Self> {
        let wall = clock.clone();
        let server = Server::new(move || wall.now());
        let transport = server.listen(0).await.context("listen on loopback")?;
        // As on a cluster with machines, pods run and end, and the pods of a Job are deleted with it.
        let kubelet = KubeletOptions::new()
            .start_after(PODS_START_AFTER)
            .stop_within(PODS_STOP_WITHIN);
        let acting = server.run(Actors::new().kubelet(kubelet).garbage_collector());
        let dir = tempfile::Builder::new()
            .prefix("controllers-demo-")
            .tempdir()
            .context("create a directory for the kubeconfig")?;
        let kubeconfig = dir.path().join("kubeconfig");
        fs::write(&kubeconfig, transport.kubeconfig().to_string())
            .with_context(|| format!("write {}", kubeconfig.display()))?;
        let access = Access {
            kubeconfig,
            context: None,
            through_proxies: false,
        };
        let embedded = Embedded {
            _door: transport,
            _acting: acting,
            _dir: dir,
        };
        Self::at(access, clock, Some(embedded)).await
    }

    async fn at(access: Access, clock: &Clock, embedded: Option<Embedded>) -> Result<Self> {
        let path = access.kubeconfig.display();
        let file = Kubeconfig::read_from(&access.kubeconfig).with_context(|| format!("read {path}"))?;
        let options = KubeConfigOptions {
            context: access.context.clone(),
            ..KubeConfigOptions::default()
        };
        let mut config = Config::from_custom_kubeconfig(file, &options)
            .await
            .with_context(|| format!("understand {path}"))?;
        if !access.through_proxies {
            config.proxy_url = None;
        }
        let url = config.cluster_url.to_string();
        let client = |config: &Config| {
            Client::try_from(config.clone()).with_context(|| format!("make a client of {path}"))
        };
        let patient = client(&config)?;
        config.default_retry = false;
        let once = client(&config)?;
        Ok(Self {
            client: patient,
            once,
            url,
            access,
            clock: clock.clone(),
            embedded,
        })
    }

    /// True if only the demo and its controllers write here.
    pub(crate) fn is_ours_alone(&self) -> bool {
        self.embedded.is_some()
    }

    async fn refuse_foreign_nodes(&self) -> Result<()> {
        let url = &self.url;
        let nodes = Api::<Node>::all(self.client.clone());
        let nodes = nodes.list_metadata(&ListParams::default()).await;
        let nodes = nodes.with_context(|| format!("list the nodes of {url}"))?;
        let foreign = nodes.items.iter().filter(|node| !is_ours(*node));
        let foreign: Vec<_> = foreign.map(ResourceExt::name_any).collect();
        if foreign.is_empty() {
            return Ok(());
        }
        bail!(
            "{url} has {} nodes that this demo did not make ({}): controllers would write to them. \
             If nothing of value runs there, say --yes-this-cluster-is-disposable",
            foreign.len(),
            foreign[..foreign.len().min(3)].join(", ")
        );
    }

    /// Removes every object of `kinds` from this run and earlier ones; does nothing if the server ends with the demo.
    pub(crate) async fn sweep(&self, kinds: &[ApiResource]) -> Result<()> {
        if self.is_ours_alone() {
            return Ok(());
        }
        let swept = self
            .clock
            .timeout(SWEPT_WITHIN, self.sweep_until_empty(kinds))
            .await;
        swept.with_context(|| format!("objects labelled {} are still there", selector()))?
    }

    async fn sweep_until_empty(&self, kinds: &[ApiResource]) -> Result<()> {
        for kind in kinds {
            let mut empty_before = false;
            loop {
                let found = self.sweep_once(kind).await?;
                // Empty twice, as an interrupted create may still arrive.
                if found == 0 && std::mem::replace(&mut empty_before, true) {
                    break;
                }
                self.clock.sleep(STRAGGLERS).await;
            }
        }
        Ok(())
    }

    /// Deletes all objects, and removes the finalizers of those in deletion, as the controllers that would have done so
    /// have ended. Returns the number of objects found.
    async fn sweep_once(&self, kind: &ApiResource) -> Result<usize> {
        let ours = ListParams::default().labels(&selector());
        let all = Api::<DynamicObject>::all_with(self.client.clone(), kind);
        let found = all
            .list_metadata(&ours)
            .await
            .with_context(|| format!("list the {} of the demo", kind.plural))?;
        let deletions = found.items.iter().map(|object| {
            let (name, client) = (object.name_any(), self.client.clone());
            let is_held = object.metadata.deletion_timestamp.is_some() && !object.finalizers().is_empty();
            let api = match object.namespace() {
                Some(namespace) => Api::<DynamicObject>::namespaced_with(client, &namespace, kind),
                None => all.clone(),
            };
            async move {
                let removed = if is_held {
                    let unheld = Patch::Merge(json!({"metadata": {"finalizers": null}}));
                    api.patch_metadata(&name, &PatchParams::default(), &unheld)
                        .await
                        .map(drop)
                } else {
                    api.delete(&name, &at_once()).await.map(drop)
                };
                match removed {
                    Ok(()) => Ok(()),
                    Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
                    Err(error) => Err(error).with_context(|| format!("remove {} {name}", kind.plural)),
                }
            }
        });
        do_all(deletions).await?;
        Ok(found.items.len())
    }
}
